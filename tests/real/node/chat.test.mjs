// The AG-UI client against the agents that Threadline runs. AGENTS names them; all of them can do the first part.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { agree, get, base, events, log, messagesOf, open, plain, post } from "./support.mjs";
import { reload, texts, user, warnings } from "./support.mjs";

const agents = process.env.AGENTS.split(",");
const options = { timeout: 60_000 };

describe("the AG-UI client", { concurrency: true }, () => {
  for (const agent of agents) {
    test(`${agent}: a new chat, and a follow-up of the same client`, options, async () => {
      const client = open(agent);
      client.addMessage(user("Good morning"));
      const { newMessages } = await client.runAgent();
      assert.ok(newMessages.length > 2, "reasoning, tools and an answer");
      await agree(client);
      assert.notDeepEqual(plain(client.state), {}, "both agents share a state");
      const before = client.messages.length;
      client.addMessage(user("And then?"));
      await client.runAgent();
      assert.ok(client.messages.length > before + 1);
      await agree(client);
      assert.deepEqual(texts(client.messages, "user"), ["Good morning", "And then?"]);
      // The client sent the whole history, and the log has it once.
      const stored = (await log(client.threadId)).flatMap(({ event }) => event.input?.messages ?? []);
      assert.deepEqual(stored, client.messages.filter((message) => message.role === "user"));
    });

    test(`${agent}: a client that knows only the thread's id continues, and the agent knows the history`, options, async () => {
      const first = open(agent);
      first.addMessage(user("Good morning"));
      await first.runAgent();
      const second = open(agent, first.threadId);
      second.addMessage(user("What did I say?"));
      await second.runAgent();
      const { messages } = await messagesOf(first.threadId);
      assert.deepEqual(messages.slice(0, first.messages.length), plain(first.messages));
      assert.deepEqual(messages.slice(first.messages.length), plain(second.messages));
      if (agent === "trips") {
        // The agent answers a follow-up only if it receives the message before it, and the current trip.
        assert.match(texts(second.messages).at(-1), /You asked: "What did I say\?"/);
      }
      // A client that opens the chat now has all of it.
      await agree(await reload(agent, first.threadId));
    });

    test(`${agent}: left in the middle, the rest is fetched by the same request`, options, async () => {
      const client = open(agent);
      client.addMessage(user("Good morning"));
      const [threadId, runId] = [client.threadId, randomUUID()];
      let sent;
      client.fetch = (url, init) => fetch(url, { ...init, body: (sent = init.body) });
      let count = 0;
      await client.runAgent({ runId }, { onEvent: () => void (++count === 20 && client.abortRun()) });
      assert.ok(count >= 20);
      const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: sent };
      const { epoch } = await (await fetch(`${base}/v1/threads/${threadId}`)).json();
      const headers = { ...request.headers, "Last-Event-ID": `${epoch}:20` };
      const response = await fetch(client.url, { ...request, headers });
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("threadline-run-id"), runId);
      const rest = events(await response.text());
      const all = await log(threadId);
      assert.deepEqual(rest, all.slice(20).map(({ seq, event }) => [seq, event]));
      assert.equal(rest.at(-1)[1].type, "RUN_FINISHED");
      assert.deepEqual(new Set(all.map((envelope) => envelope.runId)), new Set([runId]));
      // The same client, the same run, from its beginning: the chat is whole again.
      const again = open(agent, threadId, { initialMessages: [JSON.parse(sent).messages[0]] });
      await again.runAgent({ runId });
      await agree(again);
      assert.equal((await log(threadId)).length, all.length);
    });

    test(`${agent}: a run that is stopped reports its end, and the same client continues`, options, async () => {
      const client = open(agent);
      client.addMessage(user("Good morning"));
      const runId = randomUUID();
      let count = 0;
      const end = () => post(`/v1/threads/${client.threadId}/runs/${runId}/stop`);
      await client.runAgent({ runId }, { onEvent: () => void (++count === 30 && end()) });
      assert.equal((await get(`/v1/threads/${client.threadId}/runs/${runId}`)).status, "stopped");
      await agree(client);
      // The history has a truncated answer. (Without a new message after it, pydantic-ai would refuse the history.)
      const asked = client.messages.length;
      client.addMessage(user("Go on"));
      await client.runAgent();
      assert.ok(client.messages.length > asked + 1);
      await agree(client);
    });

    test(`${agent}: a second client in a busy thread receives the conflict`, options, async () => {
      const first = open(agent);
      first.addMessage(user("Good morning"));
      const runId = randomUUID();
      let started;
      const underWay = new Promise((resolve) => (started = resolve));
      const run = first.runAgent({ runId }, { onRunStartedEvent: () => void started() });
      await underWay;
      const second = open(agent, first.threadId);
      second.addMessage(user("me too"));
      const error = await second.runAgent().then(() => assert.fail("it was let in"), (error) => error);
      assert.equal(error.status, 409);
      const problem = typeof error.payload === "string" ? JSON.parse(error.payload) : error.payload;
      assert.match(problem.type, /\/problems\/run-active$/);
      assert.equal(problem.run.runId, runId);
      assert.ok(problem.title && problem.detail && problem.help);
      // The client may follow the active run instead, and try again afterwards.
      await run;
      await agree(first);
      await second.runAgent();
      const { messages } = await messagesOf(first.threadId);
      assert.equal(texts(messages, "user").join(), "Good morning,me too");
    });
  }

  const tool = {
    name: "show_map",
    description: "Shows a place on the map",
    parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] },
  };

  test("demo: a tool of the front end, answered after a reload", options, async () => {
    const client = open("demo");
    client.addMessage(user("show_map please"));
    await client.runAgent({ tools: [tool] });
    await agree(client);
    const { pendingToolCallIds } = await messagesOf(client.threadId);
    assert.equal(pendingToolCallIds.length, 1);
    const reloaded = await reload("demo", client.threadId);
    const call = reloaded.messages.flatMap((message) => message.toolCalls ?? []).find(({ id }) => id === pendingToolCallIds[0]);
    assert.equal(call.function.name, "show_map");
    assert.equal(typeof JSON.parse(call.function.arguments).place, "string");
    reloaded.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "a map of Ghent" });
    await reloaded.runAgent({ tools: [tool] });
    await agree(reloaded);
    assert.match(texts(reloaded.messages).at(-1), /a map of Ghent/);
    assert.deepEqual((await messagesOf(client.threadId)).pendingToolCallIds, []);
  });

  test("demo: only the result of a tool is sent, and the server knows the call", options, async () => {
    const client = open("demo");
    client.addMessage(user("show_map please"));
    await client.runAgent({ tools: [tool] });
    const { pendingToolCallIds } = await messagesOf(client.threadId);
    const fresh = open("demo", client.threadId);
    fresh.addMessage({ id: randomUUID(), role: "tool", toolCallId: pendingToolCallIds[0], content: "a map of Bruges" });
    await fresh.runAgent({ tools: [tool] });
    assert.match(texts(fresh.messages).at(-1), /`show_map` has answered.*a map of Bruges/s);
    await agree(await reload("demo", client.threadId));
  });

  for (const [approved, answer] of [[true, /published/], [false, /not/]]) {
    test(`demo: an interrupt, answered with ${approved} after a reload`, options, async () => {
      const client = open("demo");
      client.addMessage(user("approve this"));
      await client.runAgent();
      assert.equal(client.pendingInterrupts.length, 1);
      await agree(client);
      const reloaded = await reload("demo", client.threadId);
      assert.deepEqual(plain(reloaded.pendingInterrupts), plain(client.pendingInterrupts));
      await assert.rejects(reloaded.runAgent(), /pending interrupt/);
      const [{ id }] = reloaded.pendingInterrupts;
      await reloaded.runAgent({ resume: [{ interruptId: id, status: "resolved", payload: { approved } }] });
      assert.deepEqual(reloaded.pendingInterrupts, []);
      assert.match(texts(reloaded.messages).at(-1), answer);
      await agree(reloaded);
    });
  }

  test("demo: an interrupt is reported to a client that does not know it, and answered once", options, async () => {
    const client = open("demo");
    const asked = user("approve this");
    client.addMessage(asked);
    const runId = randomUUID();
    await client.runAgent({ runId });
    const refused = (client, input) => client.runAgent(input).then(() => assert.fail("it was let in"), (error) => error);
    const type = (error) => JSON.parse(error.payload).type.split("/").at(-1);
    // A client that has only the thread's id, and asks for something else.
    const other = open("demo", client.threadId);
    other.addMessage(user("something else"));
    const open_ = await refused(other);
    assert.deepEqual([open_.status, type(open_)], [409, "interrupts-open"]);
    const [{ id }] = client.pendingInterrupts;
    assert.ok(open_.message.includes(id), "what a stock client shows says which");
    // One that has read the run's events, from the same run asked for again.
    const reader = open("demo", client.threadId, { initialMessages: [asked] });
    await reader.runAgent({ runId });
    await agree(reader);
    assert.deepEqual(plain(reader.pendingInterrupts), plain(client.pendingInterrupts));
    // And one that sends nothing but the answer.
    const fresh = open("demo", client.threadId);
    await fresh.runAgent({ resume: [{ interruptId: id, status: "cancelled" }] });
    assert.match(texts(fresh.messages).at(-1), /cancelled/);
    await agree(await reload("demo", client.threadId));
    assert.deepEqual((await messagesOf(client.threadId)).interrupts, []);
    // The first one does not know, and answers as well.
    const settled = await refused(client, { resume: [{ interruptId: id, status: "resolved", payload: { approved: true } }] });
    assert.deepEqual([settled.status, type(settled)], [409, "interrupt-settled"]);
    other.addMessage(user("Good morning"));
    await other.runAgent();
  });

  test("demo: a failed run reports its error, and the chat continues", options, async () => {
    const client = open("demo");
    client.addMessage(user("error"));
    let failed;
    await client.runAgent({}, { onRunErrorEvent: ({ event }) => void (failed = event) }).catch(() => {});
    assert.equal(failed?.type, "RUN_ERROR");
    await agree(client);
    client.addMessage(user("hello again"));
    await client.runAgent();
    await agree(client);
  });

  test("an agent that is not there", options, async () => {
    const client = open("nobody");
    client.addMessage(user("hello"));
    const error = await client.runAgent().then(() => assert.fail("it was let in"), (error) => error);
    assert.equal(error.status, 404);
    assert.match(JSON.parse(error.payload).type, /\/problems\/agent-not-found$/);
    assert.equal((await fetch(`${base}/v1/threads/${client.threadId}`)).status, 404);
    assert.deepEqual(warnings, []);
  });
});
