// Behavior that only a client without a runtime needs of Threadline (VIA=direct): interrupts, suggestions, and events that no
// AG-UI agent would send. Chats and lists are in the other cases.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { plain } from "../harness/agree.mjs";
import "../harness/leave.mjs";
import { can } from "../harness/packages.mjs";
import { until } from "../harness/until.mjs";
import { Threadline, World } from "../harness/world.mjs";
import { serveAsking } from "../harness/asking.mjs";

const options = { timeout: 60_000 };
// Releases that know interrupts also announce runs in other tabs.
const asks = can.activity ? test : () => {};

describe("without a runtime", { concurrency: true }, () => {
  let asking, world;
  before(async () => {
    asking = await serveAsking();
    world = await World.start({ threadline: await Threadline.start("--agent", `asking=${asking.url}`) });
  });
  after(async () => {
    await world?.end();
    await world?.threadline.end();
    asking?.server.close();
  });

  const open = async (agentId) => (await world.open(undefined, agentId)).chat();
  const again = async (chat) => (await world.open(chat.client.user, chat.client.agentId)).chat(chat.threadId);
  const post = (chat, path, body) =>
    world.threadline.send(chat.client.user, "POST", path, body, { "Content-Type": "application/json" });

  /** Asserts that the chat has the messages and state of its thread, and that a tab opened now has them too. */
  async function whole(chat) {
    const [{ messages }, { state }] = [await world.native(chat, "messages"), await world.native(chat, "state")];
    const fresh = await again(chat);
    await fresh.connect();
    for (const { agent } of [chat, fresh]) {
      assert.deepEqual(plain(agent.messages), messages);
      assert.deepEqual(plain(agent.state), state);
    }
    assert.deepEqual(fresh.client.errors, []);
    return fresh;
  }

  test("tabs that connect during a run, and reconnect with half of it, have every word once", options, async () => {
    const chat = await open();
    await chat.say("all before 5 1");
    const passive = await again(chat);
    await passive.connect();
    const run = chat.say("say long 80 10");
    await chat.hears("long20 ");
    const connected = [passive.connect()];
    await passive.hears("long30 ");
    // As React does it in development: connected, detached, and connected again.
    await passive.agent.detachActiveRun();
    connected.push(passive.connect());
    await Promise.all([run, ...connected]);
    assert.deepEqual(passive.said.at(-1), ["assistant", words("long", 80)]);
    assert.deepEqual(plain(passive.messages), plain(chat.messages));
    const fresh = await whole(passive);
    // Connecting again without new events changes nothing.
    await fresh.connect();
    assert.deepEqual(plain(fresh.messages), plain(chat.messages));
  });

  test("events of another producer are shown as far as the client knows their types", options, async () => {
    const chat = (await world.open()).chat("a/b é");
    const path = `/v1/threads/${encodeURIComponent(chat.threadId)}`;
    await post(chat, "/v1/threads", { threadId: chat.threadId, agentId: "scripted" });
    const events = [
      { type: "NEWS", text: "of a later protocol" },
      { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant", timestamp: "today" },
      { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "pushed" },
      { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: null },
    ];
    await post(chat, `${path}/runs`, { runId: "pushed", leaseSeconds: 60 });
    await post(chat, `${path}/runs/pushed/events?producerSeq=1`, events);
    const live = chat.connect();
    await chat.hears("pushed");
    await post(chat, `${path}/runs/pushed/fail`, { message: "broke" });
    await live;
    assert.deepEqual(chat.client.errors.map(({ error }) => error.message), ["broke"], "reported while it was new");
    await whole(chat);
  });

  test("a user can neither read nor change another user's thread of the same id", options, async () => {
    const chat = await open();
    await chat.say("say secret 3 1");
    const intruder = (await world.open()).chat(chat.threadId);
    await intruder.connect();
    assert.deepEqual([intruder.said, intruder.client.errors], [[], []]);
    await intruder.say("say mine 3 1");
    assert.deepEqual(intruder.client.errors, []);
    assert.deepEqual(intruder.said, [["user", "say mine 3 1"], ["assistant", words("mine", 3)]]);
    assert.deepEqual(chat.said, [["user", "say secret 3 1"], ["assistant", words("secret", 3)]]);
    await whole(chat);
  });

  asks("an interrupt waits for a tab that is opened later", options, async () => {
    const chat = await open("asking");
    await chat.say("please");
    const fresh = await again(chat);
    const waiting = [];
    fresh.agent.subscribe({ onRunFinishedEvent: ({ interrupts }) => void waiting.push(...(interrupts ?? [])) });
    await fresh.connect();
    const [{ id: interruptId }] = waiting;
    // The React hooks give the answer the id of a run that has ended.
    const { runs } = await world.native(chat, "runs");
    const resume = [{ interruptId, status: "resolved", payload: "yes" }];
    await fresh.client.core.runAgent({ agent: fresh.agent, resume, runId: runs[0].runId });
    assert.deepEqual(fresh.said.at(-1), ["assistant", "you said yes"]);
    assert.deepEqual([chat.client.errors, fresh.client.errors], [[], []]);
    await whole(fresh);
  });

  test("suggestions create no threads", options, async () => {
    const chat = await open("asking");
    await chat.say("please");
    const { core, user } = chat.client;
    const of = { available: "always", providerAgentId: "asking", consumerAgentId: "asking" };
    core.addSuggestionsConfig({ instructions: "anything", ...of });
    core.reloadSuggestions("asking");
    await until("a suggestion", () => core.getSuggestions("asking").suggestions.some(({ title }) => title === "More"));
    const { threads } = await (await world.threadline.get(user, "/v1/threads?includeArchived=true")).json();
    assert.deepEqual(threads.map(({ threadId }) => threadId), [chat.threadId]);
  });
});
