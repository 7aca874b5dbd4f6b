// The lock of a thread: it lasts as long as its runtime renews it, and no longer.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { ended, reloaded, whole } from "../harness/agree.mjs";
import { busy } from "../harness/client.mjs";
import "../harness/leave.mjs";
import { Threadline, World } from "../harness/world.mjs";

const options = { timeout: 90_000 };
const short = { lockTtlSeconds: 2, lockHeartbeatIntervalSeconds: 1 };

describe("a lock of 2 s", { concurrency: true }, () => {
  let threadline;
  before(async () => (threadline = await Threadline.start()));
  after(() => threadline?.end());

  test("is held beyond its lease while it is renewed", options, async () => {
    const world = await World.start({ threadline, ...short, lockKeyPrefix: "chat" });
    const chat = (await world.open()).chat();
    const run = chat.say("say long 60 100");
    await chat.hears("long45 ");
    const rival = (await world.open(chat.client.user)).chat(chat.threadId);
    await rival.say("say rival 2 1");
    assert.ok(busy(rival.client.errors[0]?.error));
    await run;
    await whole(world, chat, [["user", "say long 60 100"], ["assistant", words("long", 60)]]);
    assert.deepEqual(chat.client.errors, []);
    await reloaded(world, chat);
    await world.end();
  });

  test("expires with its runtime: the run is closed, readers receive its end, and the thread continues", options, async () => {
    const doomed = await World.start({ threadline, ...short });
    const world = await World.start({ threadline });
    const chat = (await doomed.open()).chat();
    const run = chat.say("say orphan 2000 10");
    const tab = (await world.open(chat.client.user)).chat(chat.threadId);
    await chat.hears("orphan30 ");
    const watched = tab.connect();
    await tab.hears("orphan40 ");
    await doomed.host.end("SIGKILL");
    const killed = performance.now();
    await Promise.all([run, watched]);
    const seconds = (performance.now() - killed) / 1000;
    assert.ok(seconds < 10, `after ${seconds} s`);
    const log = await ended(world, tab);
    assert.equal(log.at(-1).type, "RUN_ERROR");
    assert.equal(log.at(-2).type, "TEXT_MESSAGE_END");
    for (const each of [chat, tab]) {
      await whole(world, each);
      assert.ok(words("orphan", 2000).startsWith(each.said[1][1]));
    }
    assert.ok(chat.client.errors.length > 0, "the run has failed");
    const fresh = await reloaded(world, tab);
    await fresh.say("say alive 5 1");
    assert.deepEqual(fresh.said.at(-1), ["assistant", words("alive", 5)]);
    assert.deepEqual(fresh.client.errors, []);
    await doomed.end();
    await world.end();
  });

  test("a new run may begin after it expires, before the old run is cleaned up", options, async () => {
    const doomed = await World.start({ threadline, ...short });
    const world = await World.start({ threadline });
    const chat = (await doomed.open()).chat();
    const run = chat.say("say first 2000 10");
    await chat.hears("first10 ");
    await doomed.host.end("SIGKILL");
    const next = (await world.open(chat.client.user)).chat(chat.threadId);
    for (;;) {
      next.client.errors.length = 0;
      await next.say("say second 5 1");
      if (next.client.errors.length === 0) break;
      assert.ok(busy(next.client.errors[0].error), String(next.client.errors[0].error));
      next.agent.setMessages([]);
    }
    await run;
    const fresh = await reloaded(world, next, { messages: false });
    assert.deepEqual(fresh.said.map(([role]) => role), ["user", "assistant", "user", "assistant"]);
    assert.deepEqual(fresh.said.slice(2), [["user", "say second 5 1"], ["assistant", words("second", 5)]]);
    const ends = fresh.events.filter(({ type }) => ["RUN_FINISHED", "RUN_ERROR"].includes(type));
    assert.deepEqual(ends.map(({ type }) => type), ["RUN_ERROR", "RUN_FINISHED"]);
    await doomed.end();
    await world.end();
  });
});
