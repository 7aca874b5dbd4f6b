// CopilotKit's core with nothing between it and Threadline: `runtimeUrl` is Threadline itself.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { words } from "../harness/agent.mjs";
import { plain } from "../harness/agree.mjs";
import { Chat, ThreadList } from "../harness/client.mjs";
import { serveAgent } from "../harness/endpoint.mjs";
import "../harness/leave.mjs";
import { can, load } from "../harness/packages.mjs";
import { until } from "../harness/until.mjs";
import { Threadline } from "../harness/world.mjs";
import { serveAsking } from "../harness/asking.mjs";

const { CopilotKitCore } = await load("@copilotkit/core");
const options = { timeout: 60_000 };
let scripted, asking, threadline;

before(async () => {
  [scripted, asking] = await Promise.all([serveAgent(), serveAsking()]);
  threadline = await Threadline.start("--agent", `scripted=${scripted.url}`, "--agent", `asking=${asking.url}`);
});
after(async () => {
  await threadline?.end();
  scripted?.server.close();
  asking?.server.close();
});

/** A tab of a person who has shown a token. */
class Tab {
  static async open(user = `user-${randomUUID()}`, { transport, agentId = "scripted" } = {}) {
    const json = { "Content-Type": "application/json" };
    const answer = await threadline.send(user, "POST", "/v1/tokens", { userId: user }, json);
    const tab = new Tab(user, (await answer.json()).token, transport, agentId);
    const connected = () => tab.core.runtimeConnectionStatus === "connected";
    await until("the runtime is known", connected, () => JSON.stringify(tab.errors.map(({ error }) => error.message)));
    return tab;
  }

  constructor(user, token, transport, agentId) {
    Object.assign(this, { user, agentId, runtime: `${threadline.url}/copilotkit`, errors: [] });
    this.headers = { Authorization: `Bearer ${token}` };
    const settings = transport && { runtimeTransport: transport };
    this.core = new CopilotKitCore({ runtimeUrl: this.runtime, headers: this.headers, ...settings });
    this.fetch = this.core.ɵruntimeFetch ?? fetch;
    this.core.subscribe({ onError: ({ error, code }) => void this.errors.push({ error, code }) });
  }

  chat(threadId = randomUUID()) {
    return new Chat(this, threadId);
  }

  /** The same thread in another tab of the same person. */
  async again(chat) {
    const tab = await Tab.open(this.user, { agentId: this.agentId });
    return tab.chat(chat.threadId);
  }

  async native(path, body) {
    const json = { "Content-Type": "application/json" };
    return (await threadline.send(this.user, body ? "POST" : "GET", path, body, json)).json();
  }
}

/** The chat has what the thread has, and so has everybody who opens it now. */
async function whole(chat, said) {
  const { client, threadId } = chat;
  if (said) assert.deepEqual(chat.said, said);
  const path = `/v1/threads/${encodeURIComponent(threadId)}`;
  const { messages } = await client.native(`${path}/messages`);
  const { state } = await client.native(`${path}/state`);
  const fresh = await client.again(chat);
  await fresh.connect();
  for (const { agent } of [chat, fresh]) {
    assert.deepEqual(plain(agent.messages), messages);
    assert.deepEqual(plain(agent.state), state);
  }
  assert.deepEqual(fresh.client.errors, []);
  // Coming back once more to what one has changes nothing.
  await fresh.connect();
  assert.deepEqual(plain(fresh.messages), messages);
  return fresh;
}

const quiet = (...chats) => chats.forEach(({ client }) => assert.deepEqual(client.errors, []));

describe("without a runtime", { concurrency: true }, () => {
  test("a new chat, and follow-ups at once", options, async () => {
    const chat = (await Tab.open()).chat();
    const said = [];
    for (let turn = 1; turn <= 5; turn++) {
      await chat.say(`say turn${turn} 6 1`);
      said.push(["user", `say turn${turn} 6 1`], ["assistant", words(`turn${turn}`, 6)]);
    }
    quiet(chat);
    const fresh = await whole(chat, said);
    await fresh.say("say back 3 1");
    await whole(fresh, [...said, ["user", "say back 3 1"], ["assistant", words("back", 3)]]);
  });

  test("state, a tool and its result", options, async () => {
    const chat = (await Tab.open()).chat();
    await chat.say("all rose 10 2");
    assert.deepEqual(chat.agent.state, { name: "rose", steps: ["looked up"] });
    await whole(chat);
    quiet(chat);
  });

  test("a tool of the front end, whose result goes on in a run of its own", options, async () => {
    const chat = (await Tab.open()).chat();
    chat.client.core.addTool({ name: "pick", handler: async ({ from }) => `the best ${from}` });
    await chat.say("front lily");
    await until("the answer", () => chat.said.at(-1)[1] === "lily was answered: the best lily");
    assert.deepEqual(chat.said.map(([role]) => role), ["user", "assistant", "tool", "assistant"]);
    await whole(chat);
    quiet(chat);
  });

  test("tabs that come in the middle of a run have every word once", options, async () => {
    const tab = await Tab.open();
    const chat = tab.chat();
    await chat.say("say before 5 1");
    const passive = await tab.again(chat);
    await passive.connect();
    const run = chat.say("say long 80 10");
    await chat.hears("long20 ");
    const fresh = await tab.again(chat);
    const connected = [fresh.connect(), passive.connect()];
    await Promise.all([fresh.hears("long30 "), passive.hears("long30 ")]);
    // As React does it in development: connected, let go, and connected again with what was heard so far.
    await passive.agent.detachActiveRun();
    connected.push(passive.connect());
    await Promise.all([run, ...connected]);
    const said = [["user", "say before 5 1"], ["assistant", words("before", 5)]];
    said.push(["user", "say long 80 10"], ["assistant", words("long", 80)]);
    for (const each of [fresh, passive]) assert.deepEqual(each.said, said);
    await whole(chat, said);
    quiet(chat, fresh, passive);
  });

  test("a second run is refused, and takes nothing away", options, async () => {
    const tab = await Tab.open();
    const chat = tab.chat();
    const run = chat.say("say first 60 10");
    await chat.hears("first10 ");
    const other = await tab.again(chat);
    await other.say("say second 5 1");
    assert.deepEqual([...new Set(other.client.errors.map(({ error }) => error.status))], [409]);
    await run;
    quiet(chat);
    await whole(chat, [["user", "say first 60 10"], ["assistant", words("first", 60)]]);
    await chat.say("say third 3 1");
    quiet(chat);
  });

  test("any tab stops a run", options, async () => {
    const tab = await Tab.open();
    const chat = tab.chat();
    const run = chat.say("say endless 2000 10");
    await chat.hears("endless5 ");
    const other = await tab.again(chat);
    const watching = other.connect();
    await other.hears("endless8 ");
    other.stop();
    await Promise.all([run, watching]);
    const { runs } = await tab.native(`/v1/threads/${chat.threadId}/runs`);
    assert.equal(runs[0].status, "stopped");
    await whole(chat);
    await chat.say("say on 3 1");
    quiet(chat, other);
    // And the one that asked for it.
    const mine = chat.say("say endless 2000 10");
    await until("its answer", () => chat.said.at(-1)[1]?.includes("endless5 "));
    chat.stop();
    await mine;
    await whole(chat);
  });

  test("an agent that fails leaves what it has said, and the thread goes on", options, async () => {
    const chat = (await Tab.open()).chat();
    await chat.say("fail tulip 5 1");
    assert.ok(chat.client.errors.some(({ error }) => error.message.includes("tulip was told to fail")));
    chat.client.errors.length = 0;
    const fresh = await whole(chat);
    await fresh.say("say again 3 1");
    quiet(fresh);
    assert.deepEqual((await whole(fresh)).said.at(-1), ["assistant", words("again", 3)]);
  });

  test("a run goes on when its tab is closed", options, async () => {
    const tab = await Tab.open();
    const chat = tab.chat();
    const run = chat.say("say alone 60 10");
    await chat.hears("alone5 ");
    chat.agent.abortController.abort();
    await chat.agent.detachActiveRun();
    await run;
    const fresh = await tab.again(chat);
    await fresh.connect();
    await whole(fresh, [["user", "say alone 60 10"], ["assistant", words("alone", 60)]]);
  });

  test("what others have put into the log is shown as far as the client knows it", options, async () => {
    const tab = await Tab.open();
    const chat = tab.chat("a/b é");
    const path = `/v1/threads/${encodeURIComponent(chat.threadId)}`;
    await tab.native("/v1/threads", { threadId: chat.threadId, agentId: "scripted" });
    const events = [
      { type: "NEWS", text: "of a later protocol" },
      { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant", timestamp: "today" },
      { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "pushed" },
      { type: "TOOL_CALL_START", toolCallId: "c", toolCallName: "f", parentMessageId: null },
    ];
    await tab.native(`${path}/runs`, { runId: "pushed", leaseSeconds: 60 });
    await tab.native(`${path}/runs/pushed/events?producerSeq=1`, events);
    const live = chat.connect();
    await chat.hears("pushed");
    await tab.native(`${path}/runs/pushed/fail`, { message: "broke" });
    await live;
    await whole(chat);
    assert.deepEqual(chat.client.errors.map(({ error }) => error.message), ["broke"], "told while it was new");
  });

  test("nobody sees another's thread", options, async () => {
    const chat = (await Tab.open()).chat();
    await chat.say("say secret 3 1");
    const stranger = (await Tab.open()).chat(chat.threadId);
    await stranger.connect();
    assert.deepEqual([stranger.said, stranger.client.errors], [[], []]);
    await stranger.say("say mine 3 1");
    assert.ok(stranger.client.errors.every(({ error }) => error.status === 409));
    await whole(chat, [["user", "say secret 3 1"], ["assistant", words("secret", 3)]]);
  });

  const asks = can.activity ? test : () => {};
  asks("an interrupt waits for whoever comes later", options, async () => {
    const tab = await Tab.open(undefined, { agentId: "asking" });
    const chat = tab.chat();
    await chat.say("please");
    const fresh = await tab.again(chat);
    const { interrupts } = await new Promise((resolve) => {
      fresh.agent.subscribe({ onRunFinishedEvent: (params) => void resolve(params) });
      fresh.connect();
    });
    await until("the end of coming back", () => !fresh.agent.isRunning);
    // The hooks for React give the answer the id of a run that has ended.
    const [{ id: interruptId }] = interrupts;
    const { runs } = await tab.native(`/v1/threads/${chat.threadId}/runs`);
    const resume = [{ interruptId, status: "resolved", payload: "yes" }];
    await fresh.client.core.runAgent({ agent: fresh.agent, resume, runId: runs[0].runId });
    assert.deepEqual(fresh.said.at(-1), ["assistant", "you said yes"]);
    quiet(chat, fresh);
    await whole(fresh);
  });

  test("suggestions are no threads", options, async () => {
    const tab = await Tab.open(undefined, { agentId: "asking" });
    const chat = tab.chat();
    await chat.say("please");
    const asked = asking.asked();
    const config = { instructions: "anything", available: "always", providerAgentId: "asking", consumerAgentId: "asking" };
    tab.core.addSuggestionsConfig(config);
    tab.core.reloadSuggestions("asking");
    await until("a suggestion", () => tab.core.getSuggestions("asking").suggestions.some(({ title }) => title === "More"));
    assert.ok(asking.asked() > asked);
    const { threads } = await tab.native("/v1/threads?includeArchived=true");
    assert.deepEqual(threads.map(({ threadId }) => threadId), [chat.threadId]);
  });

  test("lists are live in every tab", options, async () => {
    const here = await Tab.open();
    const there = await Tab.open(here.user);
    const lists = [new ThreadList(here), new ThreadList(there)];
    await Promise.all(lists.map((list) => list.settled()));
    const shows = (what, check) => Promise.all(lists.map((list) => list.shows(what, check)));
    const chat = here.chat();
    await here.native("/v1/threads", { threadId: chat.threadId, agentId: here.agentId });
    await shows("the new thread", (threads) => threads.length === 1 && threads[0].id === chat.threadId);
    if (can.activity) {
      const told = (type) => () =>
        lists[1].activity.some(({ threadId, eventType }) => threadId === chat.threadId && eventType === type);
      const run = chat.say("say one 500 10");
      await until("the run's beginning in the other tab", told("RUN_STARTED"));
      chat.stop();
      await run;
      await until("its end", told("RUN_FINISHED"));
    }
    await lists[0].store.renameThread(chat.threadId, "a name");
    await shows("the name", ([thread]) => thread.name === "a name");
    await lists[0].store.archiveThread(chat.threadId);
    await shows("no thread in the archive", (threads) => threads.length === 0);
    if (can.unarchive) {
      await lists[0].store.unarchiveThread(chat.threadId);
      await shows("the thread again", ([thread]) => thread?.name === "a name" && !thread.archived);
    }
    await lists[0].store.deleteThread(chat.threadId);
    await shows("nothing", (threads) => threads.length === 0);
    await assert.rejects(lists[0].store.renameThread(randomUUID(), "none"));
    quiet(chat);
    lists.forEach((list) => list.close());
  });

  test("one address for everything", options, async () => {
    const tab = await Tab.open(undefined, { transport: "single" });
    const chat = tab.chat();
    await chat.say("say one 5 1");
    const run = chat.say("say long 60 10");
    await until("its answer", () => chat.said.at(-1)[1]?.includes("long10 "));
    const other = (await Tab.open(tab.user, { transport: "single" })).chat(chat.threadId);
    const watching = other.connect();
    await other.hears("long20 ");
    other.stop();
    await Promise.all([run, watching]);
    await whole(chat);
    quiet(chat, other);
  });
});
