// Threadline as the runtime: the behavior that differs where the stream of a run is one HTTP response, without a Node runtime between.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { ended, reloaded, whole } from "../harness/agree.mjs";
import "../harness/leave.mjs";
import { until } from "../harness/until.mjs";
import { World } from "../harness/world.mjs";

const options = { timeout: 60_000 };

describe("Threadline as the runtime", { concurrency: true }, () => {
  let world;
  before(async () => {
    world = await World.start();
    // The client leaves one promise of a cut stream unhandled. A browser logs that, node:test treats it as a failure.
    const listeners = process.rawListeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", (error, promise) => {
      if (error.message !== "terminated") listeners.forEach((listener) => listener(error, promise));
    });
  });
  after(() => world?.end());

  const open = async (agentId) => (await world.open(undefined, agentId)).chat();
  const again = async (chat) => (await world.open(chat.client.user, chat.client.agentId)).chat(chat.threadId);

  test("the built-in agent", options, async () => {
    const chat = await open("demo");
    await chat.say("Good morning");
    await chat.say("And then?");
    assert.deepEqual(chat.client.errors, []);
    assert.deepEqual(chat.said.filter(([role]) => role === "user").map(([, text]) => text), ["Good morning", "And then?"]);
    assert.ok(chat.messages.some(({ toolCalls }) => toolCalls?.length), "the agent calls tools");
    assert.notDeepEqual(chat.agent.state, {});
    await whole(world, chat);
    await reloaded(world, chat);
  });

  test("a run whose stream is cut continues, and its tab receives all of it after reconnecting", options, async () => {
    const apart = await World.start({ threadline: world.threadline });
    const chat = (await apart.open()).chat();
    const run = chat.say("all cut 200 10");
    await chat.hears("cut20 ");
    assert.equal(apart.proxy.cut("/copilotkit/agent/scripted/run"), 1);
    await run;
    assert.ok(chat.client.errors.length > 0, "the client receives the error");
    chat.client.errors.length = 0;
    await chat.connect();
    await whole(apart, chat);
    assert.deepEqual(chat.said[1], ["assistant", words("cut", 200)]);
    assert.deepEqual(chat.agent.state, { name: "cut", steps: ["looked up"] });
    await chat.say("say after 5 1");
    assert.deepEqual(chat.client.errors, []);
    assert.deepEqual(chat.said.slice(-2), [["user", "say after 5 1"], ["assistant", words("after", 5)]]);
    await reloaded(apart, chat);
    await apart.end();
  });

  test("a tab that reconnects repeatedly, in the middle of texts, tool calls and state changes", options, async () => {
    const chat = await open();
    await chat.say("all before 5 1");
    const run = chat.say("all often 100 10");
    await chat.hears("often5 ");
    const tabs = [];
    for (let word = 10; word <= 90; word += 20) {
      await chat.hears(`often${word} `);
      const tab = await again(chat);
      tabs.push({ tab, watched: tab.connect() });
    }
    await run;
    for (const { tab, watched } of tabs) {
      await watched;
      await whole(world, tab, chat.said);
      assert.deepEqual(tab.agent.state, chat.agent.state);
      assert.deepEqual(tab.client.errors, []);
    }
  });

  test("a tab that only watches can stop the run", options, async () => {
    const chat = await open();
    const run = chat.say("say ash 1000 10");
    await chat.hears("ash10 ");
    const tab = await again(chat);
    const watched = tab.connect();
    await tab.hears("ash15 ");
    tab.stop();
    await Promise.all([run, watched]);
    const log = await ended(world, chat);
    assert.equal(log.at(-1).type, "RUN_FINISHED");
    assert.ok(log.length < 500, `${log.length} events`);
    await whole(world, chat);
    await reloaded(world, chat);
  });

  test("a run whose server was killed goes on when it is back, and the chat continues", options, async () => {
    const doomed = await World.start();
    const chat = (await doomed.open()).chat();
    const run = chat.say("say gone 2000 10");
    await chat.hears("gone20 ");
    await doomed.threadline.server.end();
    await run;
    assert.ok(chat.client.errors.length > 0);
    await doomed.threadline.serve();
    const tab = (await doomed.open(chat.client.user)).chat(chat.threadId);
    await tab.connect();
    const log = await whole(doomed, tab);
    assert.equal(log.at(-1).type, "RUN_FINISHED");
    assert.equal(log.filter(({ name }) => name === "threadline.attempt").length, 1);
    await until("the tab to be free", () => !tab.agent.isRunning);
    // Of the two attempts the tab shows the second, and nothing of the first.
    assert.deepEqual(tab.said.slice(1), [["assistant", words("gone", 2000)]]);
    tab.client.errors.length = 0;
    await tab.say("say on 5 1");
    assert.deepEqual(tab.said.at(-1), ["assistant", words("on", 5)]);
    assert.deepEqual(tab.client.errors, []);
    await doomed.end();
  });
});
