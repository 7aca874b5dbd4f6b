// A user and an agent, through the runtime (the Intelligence shape): no event is lost, doubled or mixed up.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { ended, reloaded, whole } from "../harness/agree.mjs";
import { busy } from "../harness/client.mjs";
import "../harness/leave.mjs";
import { until } from "../harness/until.mjs";
import { World } from "../harness/world.mjs";

const options = { timeout: 60_000 };

describe("a chat", { concurrency: true }, () => {
  let world;
  before(async () => (world = await World.start()));
  after(() => world?.end());

  const open = async (threadId) => (await world.open()).chat(threadId);
  const again = async (chat) => (await world.open(chat.client.user)).chat(chat.threadId);
  const quiet = (chat) => assert.deepEqual(chat.client.errors, []);

  test("a new chat", options, async () => {
    const chat = await open();
    await chat.say("say tulip 20 2");
    await whole(world, chat, [["user", "say tulip 20 2"], ["assistant", words("tulip", 20)]]);
    quiet(chat);
    await reloaded(world, chat);
  });

  test("state, a tool and its result", options, async () => {
    const chat = await open();
    await chat.say("all rose 10 2");
    const said = [["user", "all rose 10 2"], ["assistant", words("rose", 10)]];
    said.push(["tool", "all about rose"], ["assistant", words("rose", 10)]);
    await whole(world, chat, said);
    assert.deepEqual(chat.agent.state, { name: "rose", steps: ["looked up"] });
    quiet(chat);
    await reloaded(world, chat);
  });

  test("follow-ups without a pause", options, async () => {
    const chat = await open();
    const said = [];
    for (let turn = 1; turn <= 8; turn++) {
      await chat.say(`say turn${turn} 6 1`);
      said.push(["user", `say turn${turn} 6 1`], ["assistant", words(`turn${turn}`, 6)]);
      quiet(chat);
    }
    const log = await whole(world, chat, said);
    // Every message of the user is stored once, though each run receives all of them.
    const stored = log.flatMap(({ input }) => input?.messages ?? []).map(({ content }) => content);
    assert.deepEqual(stored, said.filter(([role]) => role === "user").map(([, content]) => content));
    await reloaded(world, chat);
  });

  test("a front-end tool whose result starts a run of its own", options, async () => {
    const chat = await open();
    chat.client.core.addTool({ name: "pick", handler: async ({ from }) => `the best ${from}` });
    await chat.say("front lily");
    await whole(world, chat);
    assert.equal(chat.said.at(-1)[1], "lily was answered: the best lily");
    assert.deepEqual(chat.said.map(([role]) => role), ["user", "assistant", "tool", "assistant"]);
    quiet(chat);
    await reloaded(world, chat);
  });

  test("a user who comes back continues where they were", options, async () => {
    const chat = await open();
    await chat.say("say first 10 1");
    const fresh = await reloaded(world, chat);
    await fresh.say("say second 10 1");
    const said = [["user", "say first 10 1"], ["assistant", words("first", 10)]];
    said.push(["user", "say second 10 1"], ["assistant", words("second", 10)]);
    await whole(world, fresh, said);
    quiet(fresh);
    await reloaded(world, fresh);
  });

  test("a second tab in the middle of a run", options, async () => {
    const chat = await open();
    const run = chat.say("all oak 120 8");
    await chat.hears("oak20 ");
    const tabs = [await again(chat), await again(chat), await again(chat)];
    const watched = tabs.map((tab) => tab.connect());
    await Promise.all([run, ...watched]);
    const [, ...answers] = [["user", "all oak 120 8"], ["assistant", words("oak", 120)]];
    for (const tab of [chat, ...tabs]) {
      await whole(world, tab);
      assert.deepEqual(tab.said[1], answers[0]);
      quiet(tab);
    }
    for (const tab of tabs) assert.deepEqual(tab.said, chat.said);
    await reloaded(world, chat);
  });

  test("a second run is refused while one is active, and disturbs nothing", options, async () => {
    const chat = await open();
    const run = chat.say("say elm 100 8");
    await chat.hears("elm5 ");
    const rival = await again(chat);
    await rival.say("say rival 3 1");
    const refused = rival.client.errors.map(({ error }) => error);
    assert.ok(refused.length > 0 && refused.every(busy), String(refused));
    assert.deepEqual(rival.events, []);
    await run;
    await whole(world, chat, [["user", "say elm 100 8"], ["assistant", words("elm", 100)]]);
    await reloaded(world, chat);
    // The thread is free now.
    const late = await again(chat);
    await late.connect();
    await late.say("say late 3 1");
    quiet(late);
    assert.deepEqual(late.said.slice(2), [["user", "say late 3 1"], ["assistant", words("late", 3)]]);
    await reloaded(world, late);
  });

  test("stop", options, async () => {
    const chat = await open();
    const run = chat.say("say ash 1000 10");
    await chat.hears("ash10 ");
    const watcher = await again(chat);
    const watched = watcher.connect();
    await watcher.hears("ash10 ");
    chat.stop();
    await run;
    const log = await ended(world, chat);
    assert.equal(log.at(-1).type, "RUN_FINISHED");
    assert.ok(log.length < 500, `${log.length} events`);
    await watched;
    await whole(world, watcher);
    assert.ok(words("ash", 1000).startsWith(watcher.said[1][1]));
    quiet(watcher);
    await reloaded(world, watcher);
    // The thread is free at once.
    await watcher.say("say next 3 1");
    quiet(watcher);
    assert.deepEqual(watcher.said.at(-1), ["assistant", words("next", 3)]);
    await reloaded(world, watcher);
  });

  test("an agent that throws", options, async () => {
    const chat = await open();
    const run = chat.say("fail birch 40 5");
    await chat.hears("birch5 ");
    const watcher = await again(chat);
    await Promise.all([run, watcher.connect()]);
    for (const tab of [chat, watcher]) {
      const log = await whole(world, tab, [["user", "fail birch 40 5"], ["assistant", words("birch", 40)]]);
      assert.equal(log.at(-1).type, "RUN_ERROR");
      assert.match(log.at(-1).message, /birch was told to fail/);
    }
    assert.ok(chat.client.errors.some(({ error }) => /birch was told to fail/.test(error.message)));
    // The chat continues, and a reload shows both runs.
    const fresh = await reloaded(world, watcher);
    await fresh.say("say better 5 1");
    assert.deepEqual(fresh.said.at(-1), ["assistant", words("better", 5)]);
    await reloaded(world, fresh);
  });

  test("switching to another thread and back", options, async () => {
    const chat = await open();
    await chat.say("say here 10 1");
    const [first, second] = [chat.threadId, randomUUID()];
    const other = chat.client.chat(second);
    await other.say("say there 10 1");
    const tab = await again(chat);
    for (const [threadId, name] of [[first, "here"], [second, "there"], [first, "here"]]) {
      tab.events.length = 0;
      await tab.open(threadId).connect();
      await whole(world, tab, [["user", `say ${name} 10 1`], ["assistant", words(name, 10)]]);
    }
    quiet(tab);
  });

  test("switching threads during a run, and back, mixes no messages", options, async () => {
    const chat = await open();
    await chat.say("say short 3 1");
    const short = chat.threadId;
    const busy = chat.client.chat();
    const run = busy.say("say busy 80 10");
    await busy.hears("busy3 ");
    const tab = await again(busy);
    const watching = tab.connect();
    await tab.hears("busy5 ");
    await tab.open(short).connect();
    assert.deepEqual(tab.said, [["user", "say short 3 1"], ["assistant", words("short", 3)]]);
    await watching;
    tab.events.length = 0;
    await tab.open(busy.threadId).connect();
    await run;
    await whole(world, tab, [["user", "say busy 80 10"], ["assistant", words("busy", 80)]]);
    quiet(tab);
  });

  test("an id with special characters", options, async () => {
    const chat = await open(`a/b c?é#${randomUUID()}`);
    await chat.say("say odd 5 1");
    await whole(world, chat, [["user", "say odd 5 1"], ["assistant", words("odd", 5)]]);
    quiet(chat);
    await reloaded(world, chat);
  });

  test("a thread without events is an empty chat", options, async () => {
    const chat = await open();
    await chat.connect();
    quiet(chat);
    assert.deepEqual(chat.said, []);
  });

  // A runtime's threads claim their ids; without one, each user has ids of their own.
  test("another user can neither read the thread nor write to it", options, async () => {
    const chat = await open();
    await chat.say("say secret 5 1");
    const intruder = (await world.open()).chat(chat.threadId);
    await intruder.connect();
    await intruder.say("say mine 5 1");
    if (process.env.VIA === "direct") {
      quiet(intruder);
      await whole(world, intruder, [["user", "say mine 5 1"], ["assistant", words("mine", 5)]]);
    } else {
      assert.ok(intruder.client.errors.length > 0);
      assert.deepEqual(intruder.events, []);
      assert.deepEqual(intruder.said, [["user", "say mine 5 1"]]);
    }
    await whole(world, chat, [["user", "say secret 5 1"], ["assistant", words("secret", 5)]]);
  });

  test("the inspector reads events, messages and state", options, async () => {
    const chat = await open();
    await chat.say("all fern 5 1");
    const log = await ended(world, chat);
    const read = async (what) => {
      const answer = await chat.client.get(`/threads/${encodeURIComponent(chat.threadId)}/${what}`);
      assert.equal(answer.status, 200, what);
      return answer.json();
    };
    const { events } = await read("events");
    assert.deepEqual(events.map(({ type }) => type), log.map(({ type }) => type));
    const { messages } = await read("messages");
    assert.deepEqual(messages.map(({ id, role }) => [id, role]), chat.messages.map(({ id, role }) => [id, role]));
    assert.deepEqual(await read("state"), { state: chat.agent.state });
  });

  test("the native API shows the same thread, and can rename and stop it", options, async () => {
    const chat = await open();
    const run = chat.say("say native 1000 10");
    await chat.hears("native5 ");
    const user = chat.client.user;
    const thread = await (await world.threadline.get(user, `/v1/threads/${chat.threadId}`)).json();
    assert.ok(thread.activeRun, "the run is under way");
    await world.threadline.send(user, "POST", `/v1/threads/${chat.threadId}/runs/${thread.activeRun.runId}/stop`);
    await run;
    const log = await whole(world, chat);
    assert.equal(log.at(-1).type, "RUN_FINISHED");
    assert.ok(log.length < 500);
    await world.threadline.send(user, "PATCH", `/v1/threads/${chat.threadId}`, { name: "by another API" });
    const list = await chat.client.threads();
    await until("the name", () => list.find(chat.threadId)?.name === "by another API");
    list.close();
    await reloaded(world, chat);
  });
});
