// Connections that break in the middle of a run, and a server that stops: the chat continues exactly.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { words } from "../harness/agent.mjs";
import { reloaded, whole } from "../harness/agree.mjs";
import { can } from "../harness/packages.mjs";
import "../harness/leave.mjs";
import { until } from "../harness/until.mjs";
import { Threadline, World } from "../harness/world.mjs";

const options = { timeout: 90_000 };

describe("a network that breaks", { concurrency: true }, () => {
  let threadline;
  before(async () => (threadline = await Threadline.start()));
  after(() => threadline?.end());

  const apart = async (test) => {
    const world = await World.start({ threadline });
    try {
      await test(world, (await world.open()).chat());
    } finally {
      await world.end();
    }
  };
  const runner = process.env.RUNNER === "websocket" ? "/runner/websocket" : "/runner/longpoll";

  test("a tab loses its socket in the middle of a run", options, () =>
    apart(async (world, chat) => {
      const run = chat.say("all cut 200 15");
      await chat.hears("cut30 ");
      assert.equal(world.proxy.cut("/client/websocket"), 1);
      await run;
      const log = await whole(world, chat);
      assert.equal(log.at(-1).type, "RUN_FINISHED");
      assert.deepEqual(chat.said[1], ["assistant", words("cut", 200)]);
      assert.deepEqual(chat.agent.state, { name: "cut", steps: ["looked up"] });
      assert.deepEqual(chat.client.errors, []);
      await reloaded(world, chat);
      await chat.say("say after 5 1");
      assert.deepEqual(chat.said.at(-1), ["assistant", words("after", 5)]);
      assert.deepEqual(chat.client.errors, []);
    }));

  test("a tab that only watches loses its socket", options, () =>
    apart(async (world, chat) => {
      const elsewhere = await World.start({ threadline });
      const user = chat.client.user;
      const watcher = (await elsewhere.open(user)).chat(chat.threadId);
      await chat.say("say before 10 1");
      const run = chat.say("say watched 200 15");
      await chat.hears("watched5 ");
      const watched = watcher.connect();
      await watcher.hears("watched30 ");
      assert.equal(elsewhere.proxy.cut("/client/websocket"), 1);
      await Promise.all([run, watched]);
      for (const tab of [chat, watcher]) {
        await whole(world, tab);
        assert.deepEqual(tab.said.at(-1), ["assistant", words("watched", 200)]);
        assert.deepEqual(tab.client.errors, []);
      }
      await elsewhere.end();
    }));

  test("the runner loses its connection in the middle of a run", { ...options, skip: !can.rejoin }, () =>
    apart(async (world, chat) => {
      const run = chat.say("all lost 200 10");
      for (const word of ["lost20 ", "lost60 ", "lost100 "]) {
        await chat.hears(word);
        assert.ok(world.proxy.cut(runner) > 0);
      }
      await run;
      const log = await whole(world, chat);
      assert.equal(log.at(-1).type, "RUN_FINISHED");
      assert.deepEqual(chat.said[1], ["assistant", words("lost", 200)]);
      assert.deepEqual(chat.client.errors, []);
      await reloaded(world, chat);
    }));

  test("an old runner that loses its connection: its run is ended, and no text is repeated", { ...options, skip: can.rejoin }, () =>
    apart(async (world, chat) => {
      const run = chat.say("say old 200 10");
      await chat.hears("old20 ");
      assert.equal(world.proxy.cut(runner), 1);
      await run;
      const log = await whole(world, chat);
      assert.equal(log.at(-1).type, "RUN_ERROR");
      assert.equal(log.filter(({ type }) => type === "RUN_STARTED").length, 1);
      assert.ok(words("old", 200).startsWith(chat.said[1][1]));
      const fresh = await reloaded(world, chat);
      await fresh.say("say after 5 1");
      assert.deepEqual(fresh.said.at(-1), ["assistant", words("after", 5)]);
      await reloaded(world, fresh);
    }));

  test("a stop while the runner has no connection", { ...options, skip: !can.rejoin }, () =>
    apart(async (world, chat) => {
      const run = chat.say("say gone 2000 10");
      await chat.hears("gone20 ");
      world.proxy.refused.add("/runner/");
      world.proxy.cut(runner);
      chat.stop();
      await run;
      await sleep(500);
      world.proxy.refused.clear();
      const fresh = await reloaded(world, chat, { messages: false });
      assert.equal(fresh.events.at(-1).type, "RUN_FINISHED");
      assert.ok(fresh.events.length < 1500, `${fresh.events.length} events`);
    }));
});

describe("a server that stops", { concurrency: true }, () => {
  test("an old runner does not outlive its server: its run is ended, and the chat continues", { ...options, skip: can.rejoin }, async () => {
    const world = await World.start();
    const chat = (await world.open()).chat();
    await chat.say("say before 10 1");
    const run = chat.say("say old 300 20");
    await chat.hears("old20 ");
    await world.threadline.server.end("SIGTERM");
    await world.threadline.serve();
    await run;
    const tab = (await world.open(chat.client.user)).chat(chat.threadId);
    await tab.connect();
    const log = await whole(world, tab);
    assert.equal(log.at(-1).type, "RUN_ERROR");
    assert.equal(log.filter(({ type }) => type === "RUN_STARTED").length, 2);
    assert.ok(words("old", 300).startsWith(tab.said.at(-1)[1]));
    // The runner ignores refusals: its agent runs to its end, and the runtime starts no other run in this thread before that.
    await new Promise((resolve) => setTimeout(resolve, 300 * 20 + 3_000));
    await tab.say("say after 5 1");
    assert.deepEqual(tab.said.at(-1), ["assistant", words("after", 5)]);
    await reloaded(world, tab);
    await world.end();
  });

  for (const [what, signal] of [["is restarted", "SIGTERM"], ["is killed", "SIGKILL"]]) {
    test(`in the middle of a run it ${what}`, { ...options, skip: !can.rejoin }, async () => {
      const world = await World.start();
      const chat = (await world.open()).chat();
      const list = await chat.client.threads();
      const tab = (await world.open(chat.client.user)).chat(chat.threadId);
      await chat.say("say before 10 1");
      const run = chat.say("say through 300 20");
      await chat.hears("through20 ");
      const watched = tab.connect();
      await tab.hears("through30 ");
      await world.threadline.server.end(signal);
      await world.threadline.serve();
      await Promise.all([run, watched]);
      const said = [["user", "say before 10 1"], ["assistant", words("before", 10)]];
      said.push(["user", "say through 300 20"], ["assistant", words("through", 300)]);
      for (const each of [chat, tab]) {
        await whole(world, each, said);
        assert.deepEqual(each.client.errors, []);
      }
      await reloaded(world, chat);
      // The list is live again.
      await list.store.renameThread(chat.threadId, "through it all");
      const late = await tab.client.threads();
      await late.store.renameThread(chat.threadId, "by another tab");
      await list.shows("the name", ([thread]) => thread?.name === "by another tab");
      for (const each of [list, late]) each.close();
      await world.end();
    });
  }
});
