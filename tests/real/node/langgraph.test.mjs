// `StreamController` of LangGraph's SDK, which `useStream` is built on, versions 1.11 and 1.15 unchanged, against `/langgraph`, with
// server-sent events and over a socket. The agent speaks AG-UI and is in `chats.mjs`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import * as sdk11 from "langgraph11";
import * as stream11 from "langgraph11/stream";
import * as sdk15 from "langgraph15";
import * as stream15 from "langgraph15/stream";
import { WebSocket } from "undici";
import { eventually, inputs, startAgent, stopAgent, waiting } from "./chats.mjs";

const base = process.env.THREADLINE_URL;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");
const options = { timeout: 60_000 };
const apiUrl = `${base}/langgraph`;

before(() => startAgent(base));
after(stopAgent);

const textOf = (message) =>
  typeof message.content === "string"
    ? message.content
    : message.content.filter(({ type }) => type === "text").map(({ text }) => text).join("");

// The SDK refuses to open a socket with headers, and so with a key.
const socket = { transport: "websocket", webSocketFactory: (url) => new WebSocket(url) };
for (const [version, { Client }, { StreamController }, transport] of [
  ["1.11", sdk11, stream11, {}],
  ["1.15", sdk15, stream15, {}],
  ["1.11 over a socket", sdk11, stream11, socket],
  ["1.15 over a socket", sdk15, stream15, socket],
]) {
  /** A page with a thread: a new one, or one that it loads. */
  const open = async (threadId, more = {}) => {
    const apiKey = transport === socket ? null : "any";
    const client = new Client({ apiUrl, apiKey, callerOptions: { maxRetries: 1 } });
    const controller = new StreamController({ assistantId: "scripted", client, threadId, ...transport, ...more });
    if (threadId) await controller.hydrate(threadId);
    const now = () => controller.rootStore.getSnapshot();
    return {
      client,
      controller,
      now,
      say: (text, rest) => controller.submit({ messages: [{ type: "human", content: text }] }, rest),
      shown: () => now().messages.map((message) => [message.getType(), textOf(message)]),
      close: () => controller.dispose(),
    };
  };
  /** The page shows this, once it has taken in what its two streams bring. */
  const shows = async (page, expected) => {
    const same = () => JSON.stringify(page.shown()) === JSON.stringify(expected);
    await eventually("all is shown", same).catch(() => {});
    assert.deepEqual(page.shown(), expected);
  };
  const settled = (page) => eventually("the run has ended", () => !page.now().isLoading);

  describe(`langgraph-sdk ${version}`, () => {
    test("a thread and its history", options, async () => {
      const page = await open();
      await page.say("say Hello there");
      await shows(page, [["human", "say Hello there"], ["ai", "Hellothere"]]);
      await page.say("search parcels");
      await settled(page);
      const expected = [
        ["human", "say Hello there"], ["ai", "Hellothere"], ["human", "search parcels"], ["ai", ""], ["ai", ""],
        ["tool", '{"hits":[1,2]}'], ["ai", "Two hits."],
      ];
      await shows(page, expected);
      const { messages, values, toolCalls, error, threadId } = page.now();
      assert.equal(error, undefined);
      assert.equal(values.searches, 1);
      assert.deepEqual(messages[3].content, [{ type: "reasoning", reasoning: "I look it up." }]);
      assert.deepEqual(messages[4].tool_calls.map(({ name, args }) => [name, args]), [["search", { q: "parcels" }]]);
      assert.deepEqual(toolCalls.map(({ name, status }) => [name, status]), [["search", "finished"]]);
      // The agent was given the history from the log: the page sends the new message alone.
      assert.equal(inputs.at(-1).messages.filter(({ role }) => role === "user").length, 2);
      const again = await open(threadId);
      await shows(again, expected);
      await again.say("say more");
      await shows(again, [...expected, ["human", "say more"], ["ai", "more"]]);
      const state = await again.client.threads.getState(threadId);
      assert.deepEqual(state.values.messages.map(({ id }) => id), again.now().messages.map(({ id }) => id));
      assert.deepEqual(state.next, []);
      assert.equal((await again.client.threads.getHistory(threadId)).length, 3);
      await Promise.all([page.close(), again.close()]);
    });

    test("a page that loads in the middle of an answer shows all of it", options, async () => {
      const [page, word] = [await open(), randomUUID()];
      const sent = page.say(`slow ${word}`);
      await eventually("half is there", () => page.shown()[1]?.[1] === "half ");
      const other = await open(page.now().threadId);
      await eventually("the other page has half", () => other.shown()[1]?.[1] === "half ");
      assert.equal(other.now().isLoading, true);
      waiting.get(word)();
      await sent;
      await Promise.all([settled(page), settled(other)]);
      for (const one of [page, other]) {
        await shows(one, [["human", `slow ${word}`], ["ai", "half whole"]]);
      }
      await Promise.all([page.close(), other.close()]);
    });

    test("a run that is stopped keeps its half answer", options, async () => {
      const [page, word] = [await open(), randomUUID()];
      const sent = page.say(`slow ${word}`);
      await eventually("half is there", () => page.shown()[1]?.[1] === "half ");
      await page.controller.stop();
      await sent;
      const { threadId } = page.now();
      await eventually("the run has ended", async () => (await page.client.runs.list(threadId))[0].status === "interrupted");
      await page.say("say more");
      await shows(page, [["human", `slow ${word}`], ["ai", "half "], ["human", "say more"], ["ai", "more"]]);
      waiting.get(word)();
      await page.close();
    });

    test("a message is edited at the checkpoint before it", options, async () => {
      const page = await open();
      for (const word of ["one", "two"]) {
        await page.say(`say ${word}`);
        await eventually("the answer is shown", () => page.shown().at(-1)[1] === word);
      }
      const { threadId } = page.now();
      const history = () => page.client.threads.getHistory(threadId);
      await eventually("both runs have ended", async () => {
        const states = await history();
        return states.length === 2 && states[0].next.length === 0;
      });
      const [, { checkpoint }] = await history();
      await page.say("say three", { forkFrom: checkpoint.checkpoint_id });
      const expected = [["human", "say one"], ["ai", "one"], ["human", "say three"], ["ai", "three"]];
      await shows(page, expected);
      assert.deepEqual(inputs.at(-1).messages.map(({ role }) => role), ["user", "assistant", "user"]);
      const [newest, before] = await history();
      assert.equal(newest.parent_checkpoint.checkpoint_id, checkpoint.checkpoint_id);
      assert.deepEqual(before.values.messages.map(textOf), ["say one", "one", "say two", "two"]);
      await page.close();
      const later = await open(threadId);
      await shows(later, expected);
      await later.say("say four");
      await shows(later, [...expected, ["human", "say four"], ["ai", "four"]]);
      await later.close();
    });

    test("an interrupt is answered", options, async () => {
      const page = await open();
      await page.say("mail");
      await eventually("the interrupt is shown", () => page.now().interrupts.length === 1);
      const [{ id, value }] = page.now().interrupts;
      assert.equal(value.message, "Send?");
      const other = await open(page.now().threadId);
      assert.deepEqual(other.now().interrupts.map((interrupt) => interrupt.id), [id]);
      await page.controller.respond({ approved: true }, { interruptId: id });
      await eventually("it is answered", () => page.shown().at(-1)[1] === "Sent.");
      await settled(page);
      assert.deepEqual(page.now().interrupts, []);
      await eventually("the other page has the answer", () => other.shown().at(-1)[1] === "Sent.");
      await Promise.all([page.close(), other.close()]);
    });

    test("a run that fails is told", options, async () => {
      const page = await open();
      await page.say("fail").catch(() => {});
      await eventually("the failure is shown", () => page.now().error !== undefined);
      assert.match(String(page.now().error.message ?? page.now().error), /cannot do that/);
      const refused = await open(page.now().threadId);
      const params = { assistantId: "nobody", input: { messages: "x" } };
      await assert.rejects(refused.client.runs.create(page.now().threadId, "nobody", params), /404/);
      await Promise.all([page.close(), refused.close()]);
    });

    test("lists of threads, runs that wait, and assistants", options, async () => {
      const { client, ...page } = await open();
      const team = randomUUID();
      const made = await client.threads.create({ graphId: "scripted", metadata: { team } });
      const word = randomUUID();
      const input = (text) => ({ input: { messages: [{ type: "human", content: text }] } });
      const first = await client.runs.create(made.thread_id, "scripted", input(`slow ${word}`));
      await eventually("the agent is called", () => waiting.has(word));
      const second = await client.runs.create(made.thread_id, "scripted", { ...input("say two"), multitaskStrategy: "enqueue" });
      const waits = await client.runs.list(made.thread_id, { status: "pending", select: ["run_id", "kwargs"] });
      assert.deepEqual(waits.map(({ run_id, kwargs }) => [run_id, kwargs.input.messages[0].content]), [[second.run_id, "say two"]]);
      assert.equal((await client.threads.search({ status: "busy", metadata: { team } })).length, 1);
      const joined = client.runs.join(made.thread_id, second.run_id);
      waiting.get(word)();
      assert.deepEqual((await joined).messages.map(textOf), [`slow ${word}`, "half whole", "say two", "two"]);
      assert.equal((await client.runs.get(made.thread_id, first.run_id)).status, "success");
      const found = await client.threads.search({ metadata: { graph_id: "scripted", team } });
      assert.deepEqual(found.map(({ values }) => values.messages.length), [4]);
      assert.equal(await client.threads.count({ metadata: { team } }), 1);
      await client.threads.update(made.thread_id, { metadata: { team: `${team}2` } });
      assert.equal((await client.threads.get(made.thread_id)).metadata.team, `${team}2`);
      await client.threads.delete(made.thread_id);
      await assert.rejects(client.threads.get(made.thread_id), /404/);
      assert.ok((await client.assistants.search()).some(({ assistant_id }) => assistant_id === "scripted"));
      await page.close();
    });
  });
}
