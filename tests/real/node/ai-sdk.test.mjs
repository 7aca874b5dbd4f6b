// `Chat` of the AI SDK, versions 6 and 7 unchanged, against `/ai/{agent}`. The agent speaks AG-UI and is in `chats.mjs`.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { WebSocket } from "undici";
import * as ai6 from "ai6";
import * as ai7 from "ai7";
import { eventually, inputs, open as openAt, shown, startAgent, stopAgent, textOf, waiting } from "./chats.mjs";

const base = process.env.THREADLINE_URL;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");
const options = { timeout: 60_000 };

before(() => startAgent(base));
after(stopAgent);

const api = `${base}/ai/scripted`;
const open = (ai, known) => openAt(ai, api, known);
const load = async (id) => (await fetch(`${api}/${id}`)).json();

/** A message as JSON has it, without what only one version keeps: raw texts of arguments, ids of reasoning. */
function plain(messages) {
  const all = JSON.parse(JSON.stringify(messages));
  for (const message of all) {
    for (const part of message.parts) {
      delete part.rawInput;
      if (part.type === "reasoning") delete part.id;
    }
  }
  return all;
}

/** The page and the server have the same messages. */
async function agree(chat) {
  assert.deepEqual(plain(chat.messages), plain((await load(chat.id)).messages));
}

for (const [version, ai] of [["6", ai6], ["7", ai7]]) {
  describe(`ai ${version}`, () => {
    test("a chat and its history", options, async () => {
      const chat = open(ai);
      await chat.sendMessage({ text: "say Hello there" });
      await chat.sendMessage({ text: "search parcels" });
      assert.equal(chat.status, "ready", chat.error?.message);
      assert.deepEqual(shown(chat), [
        ["user", "say Hello there"],
        ["assistant", "Hellothere"],
        ["user", "search parcels"],
        ["assistant", "Two hits."],
      ]);
      const tool = chat.messages[3].parts.find((part) => part.type === "dynamic-tool");
      assert.deepEqual([tool.state, tool.input, tool.output], ["output-available", { q: "parcels" }, { hits: [1, 2] }]);
      assert.deepEqual(chat.messages[3].parts.map((part) => part.type).filter((type) => type === "step-start").length, 2);
      await agree(chat);
      // The agent was given the history from the log: the page sends all of it, and the door reads the last message.
      assert.equal(inputs.at(-1).messages.filter(({ role }) => role === "user").length, 2);
      // A page that loads the chat goes on with it.
      const { messages, activeRunId } = await load(chat.id);
      assert.equal(activeRunId, null);
      const again = open(ai, { id: chat.id, messages });
      await again.sendMessage({ text: "say more" });
      assert.deepEqual(shown(again).slice(0, 4), shown(chat));
      await agree(again);
    });

    test("a page that loads in the middle of an answer resumes it", options, async () => {
      const [chat, word] = [open(ai), randomUUID()];
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await eventually("half is there", () => chat.messages[1] && textOf(chat.messages[1]) === "half ");
      const { messages, activeRunId } = await load(chat.id);
      assert.equal(messages[1].id, activeRunId);
      const pages = [open(ai, { id: chat.id, messages: messages.slice(0, 1) }), open(ai, { id: chat.id, messages }), chat];
      const resumed = pages.slice(0, 2).map((page) => page.resumeStream());
      const hasHalf = (page) => page.status === "streaming" && textOf(page.messages[1]) === "half ";
      await eventually("all have half", () => pages.every(hasHalf));
      waiting.get(word)();
      await Promise.all([sent, ...resumed]);
      for (const page of pages) {
        assert.deepEqual(shown(page), [["user", `slow ${word}`], ["assistant", "half whole"]]);
        await agree(page);
      }
      // Nothing is active: 204, and nothing changes.
      await pages[0].resumeStream();
      assert.equal(pages[0].status, "ready");
      assert.equal(pages[0].messages.length, 2);
    });

    test("a connection that breaks in the middle", options, async () => {
      const word = randomUUID();
      const broken = new AbortController();
      let first = true;
      const fetchOnce = async (url, init) => {
        const response = await fetch(url, init);
        if (!first) return response;
        first = false;
        const reader = response.body.getReader();
        const body = new ReadableStream({
          async pull(controller) {
            if (broken.signal.aborted) return controller.error(new TypeError("network error"));
            const { done, value } = await Promise.race([
              reader.read(),
              new Promise((resolve) => broken.signal.addEventListener("abort", () => resolve({ done: false }))),
            ]);
            if (done) controller.close();
            else if (value) controller.enqueue(value);
            else controller.error(new TypeError("network error"));
          },
        });
        return new Response(body, { headers: response.headers });
      };
      const chat = open(ai, { transport: { fetch: fetchOnce } });
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await eventually("half is there", () => chat.messages[1] && textOf(chat.messages[1]) === "half ");
      broken.abort();
      await sent;
      assert.equal(chat.status, "error");
      const resumed = chat.resumeStream();
      await eventually("half is there again", () => chat.status === "streaming" && textOf(chat.messages[1]) === "half ");
      waiting.get(word)();
      await resumed;
      assert.deepEqual(shown(chat), [["user", `slow ${word}`], ["assistant", "half whole"]]);
      await agree(chat);
    });

    test("an answer made again, and a message edited, are branches of the chat", options, async () => {
      const chat = open(ai);
      await chat.sendMessage({ text: "say one" });
      const first = chat.messages[1].id;
      await chat.regenerate();
      assert.deepEqual(shown(chat), [["user", "say one"], ["assistant", "one"]]);
      assert.notEqual(chat.messages[1].id, first);
      await agree(chat);
      const second = chat.messages[1].id;
      await chat.regenerate({ messageId: second });
      assert.notEqual(chat.messages[1].id, second);
      await agree(chat);
      await chat.sendMessage({ text: "say two", messageId: chat.messages[0].id });
      assert.deepEqual(shown(chat), [["user", "say two"], ["assistant", "two"]]);
      await agree(chat);
      await chat.sendMessage({ text: "say three" });
      await agree(chat);
      await chat.sendMessage({ text: "say four", messageId: chat.messages[2].id });
      assert.deepEqual(shown(chat).map(([, text]) => text), ["say two", "two", "say four", "four"]);
      await agree(chat);
      const { branches } = await (await fetch(`${base}/v1/threads/${chat.id}/branches`)).json();
      assert.equal(branches.length, 5);
    });

    test("a tool of the page", options, async () => {
      const calls = [];
      const chat = open(ai, {
        onToolCall: ({ toolCall }) => {
          calls.push(toolCall.toolName);
          void chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: "Paris" });
        },
        sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
      });
      const tools = [{ name: "locate", description: "Where the user is", parameters: { type: "object" } }];
      await chat.sendMessage({ text: "locate" }, { body: { tools, plan: "gold" } });
      await eventually("the agent has answered", () => textOf(chat.messages[1]) === "You are in Paris." && chat.status === "ready");
      assert.deepEqual(calls, ["locate"]);
      assert.deepEqual(chat.messages.length, 2, "one answer, of two runs");
      assert.equal(inputs.find(({ threadId }) => threadId === chat.id).forwardedProps.plan, "gold");
      await agree(chat);
      // Tools of the agent are none of the page's.
      await chat.sendMessage({ text: "search parcels" });
      assert.deepEqual(calls, ["locate"]);
      await agree(chat);
    });

    test("an approval, given and denied", options, async () => {
      for (const approved of [true, false]) {
        const chat = open(ai, { sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses });
        await chat.sendMessage({ text: "mail" });
        const part = chat.messages[1].parts.find(({ type }) => type === "dynamic-tool");
        assert.equal(part.state, "approval-requested");
        await agree(chat);
        // What is not answered holds the chat.
        const other = open(ai, { id: chat.id, messages: chat.messages });
        await other.sendMessage({ text: "say more" });
        assert.match(other.error.message, /no entry for these open interrupts/);
        await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason: "too early" });
        const answer = approved ? "Sent." : "Not sent: too early";
        await eventually("the agent has answered", () => textOf(chat.messages[1]) === answer && chat.status === "ready");
        assert.equal(chat.messages.length, 2);
        const { messages } = await load(chat.id);
        const stored = messages[1].parts.find(({ type }) => type === "dynamic-tool");
        assert.equal(stored.state, approved ? "output-available" : "output-denied");
        assert.equal(textOf(messages[1]), answer);
      }
    });

    test("stop, busy, failures and what is missing", options, async () => {
      const [chat, word] = [open(ai), randomUUID()];
      const sent = chat.sendMessage({ text: `slow ${word}` });
      await eventually("half is there", () => chat.messages[1] && textOf(chat.messages[1]) === "half ");
      const other = open(ai, { id: chat.id, messages: (await load(chat.id)).messages });
      await other.sendMessage({ text: "say more" });
      assert.equal(other.status, "error");
      assert.match(other.error.message, /active/);
      const stopped = await fetch(`${api}/${chat.id}/stop`, { method: "POST" });
      assert.deepEqual(await stopped.json(), { success: true });
      await sent;
      assert.equal(chat.status, "ready");
      assert.deepEqual(shown(chat)[1], ["assistant", "half "]);
      await agree(chat);
      await chat.sendMessage({ text: "fail" });
      assert.deepEqual([chat.status, chat.error.message], ["error", "The agent cannot do that."]);
      chat.clearError();
      await chat.sendMessage({ text: "say fine" });
      assert.equal(textOf(chat.messages.at(-1)), "fine");
      assert.equal((await fetch(`${api}/${randomUUID()}`)).status, 404);
      assert.equal((await fetch(`${api}/${randomUUID()}/stream`)).status, 204);
      assert.equal((await fetch(`${base}/ai/nobody/${chat.id}/stream`)).status, 404);
    });
  });
}

describe("ai 7 over a socket", () => {
  const url = `${api.replace("http", "ws")}`;
  const transport = () => new ai7.WebSocketChatTransport({ url, webSocket: WebSocket });

  test("chats, resumes and refuses", options, async () => {
    const lines = [transport(), transport()];
    const [chat, word] = [open(ai7, { chatTransport: lines[0] }), randomUUID()];
    await chat.sendMessage({ text: "search parcels" });
    assert.equal(chat.status, "ready", chat.error?.message);
    assert.equal(textOf(chat.messages[1]), "Two hits.");
    await agree(chat);
    const sent = chat.sendMessage({ text: `slow ${word}` });
    await eventually("half is there", () => chat.messages[3] && textOf(chat.messages[3]) === "half ");
    const { messages } = await load(chat.id);
    const page = open(ai7, { id: chat.id, messages, chatTransport: lines[1] });
    // A second chat has its answers over the same connection meanwhile.
    const other = open(ai7, { chatTransport: lines[1] });
    const resumed = page.resumeStream();
    await other.sendMessage({ text: "say beside" });
    assert.equal(textOf(other.messages[1]), "beside");
    await eventually("the page has half", () => page.status === "streaming" && textOf(page.messages[3]) === "half ");
    const busy = open(ai7, { id: chat.id, messages, chatTransport: lines[1] });
    await busy.sendMessage({ text: "say more" });
    assert.match(busy.error.message, /holds the thread/);
    waiting.get(word)();
    await Promise.all([sent, resumed]);
    for (const one of [chat, page]) {
      assert.equal(textOf(one.messages[3]), "half whole");
      await agree(one);
    }
    await page.resumeStream();
    assert.equal(page.status, "ready", "nothing is active");
    // An aborted request ends its stream, and not the run.
    const [left, end] = [open(ai7, { chatTransport: lines[0] }), randomUUID()];
    const leaving = left.sendMessage({ text: `slow ${end}` });
    await eventually("half is there", () => left.messages[1] && textOf(left.messages[1]) === "half ");
    await left.stop();
    await leaving;
    waiting.get(end)();
    await eventually("the run ends", async () => (await load(left.id)).activeRunId === null);
    assert.equal(textOf((await load(left.id)).messages[1]), "half whole");
    lines.forEach((line) => line.close());
  });
});
