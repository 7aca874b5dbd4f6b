// An agent that does as it is told, chats of the AI SDK as a page has them, and waiting.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";

/** Calls of the agent: its inputs, newest last. */
export const inputs = [];
/** Continuations of agents that wait, by the text that they wait for. */
export const waiting = new Map();
const until = (name) => new Promise((resolve) => waiting.set(name, resolve));

/** Events of an agent that does as it is told: `say …`, `slow …`, `search …`, `find …`, `locate`, `mail`, `ask`, `fail`. */
async function* script({ threadId, runId, messages, resume }) {
  const last = messages.at(-1);
  const id = randomUUID();
  yield { type: "RUN_STARTED", threadId, runId };
  const finished = { type: "RUN_FINISHED", threadId, runId };
  const text = function* (words) {
    yield { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" };
    for (const word of words) yield { type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: word };
    yield { type: "TEXT_MESSAGE_END", messageId: id };
  };
  const call = function* (toolCallId, toolCallName, args) {
    yield { type: "TOOL_CALL_START", toolCallId, toolCallName };
    yield { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify(args) };
    yield { type: "TOOL_CALL_END", toolCallId };
  };
  if (resume?.length) {
    const { payload } = resume[0];
    if (payload.approved) {
      yield { type: "TOOL_CALL_RESULT", messageId: randomUUID(), toolCallId: `mail-${threadId}`, content: '{"sent":true}' };
    }
    yield* text([payload.approved ? "Sent." : `Not sent: ${payload.reason}`]);
  } else if (last.role === "tool") yield* text([`You are in ${last.content}.`]);
  else {
    const [verb, ...rest] = last.content.split(" ");
    if (verb === "say") yield* text(rest);
    else if (verb === "slow") {
      yield { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" };
      yield { type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: "half " };
      await until(rest.join(" "));
      yield { type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: "whole" };
      yield { type: "TEXT_MESSAGE_END", messageId: id };
    } else if (verb === "search") {
      yield { type: "REASONING_MESSAGE_START", messageId: `r-${id}`, role: "reasoning" };
      yield { type: "REASONING_MESSAGE_CONTENT", messageId: `r-${id}`, delta: "I look it up." };
      yield { type: "REASONING_MESSAGE_END", messageId: `r-${id}` };
      yield* call(`search-${id}`, "search", { q: rest.join(" ") });
      yield { type: "TOOL_CALL_RESULT", messageId: randomUUID(), toolCallId: `search-${id}`, content: '{"hits":[1,2]}' };
      yield { type: "CUSTOM", name: "chart", value: { points: [1, 2] } };
      yield { type: "STATE_SNAPSHOT", snapshot: { searches: 1 } };
      yield* text(["Two ", "hits."]);
    } else if (verb === "find") {
      yield* call(`find-${id}`, "find", { q: rest.join(" ") });
      yield { type: "TOOL_CALL_RESULT", messageId: randomUUID(), toolCallId: `find-${id}`, content: `hits of ${rest.join(" ")}` };
      yield* text(["Two ", "hits."]);
    } else if (verb === "locate") yield* call(`locate-${id}`, "locate", {});
    else if (verb === "mail") {
      yield* call(`mail-${threadId}`, "mail", { to: "ann" });
      const interrupts = [{ id: `i-${threadId}`, reason: "tool_call", message: "Send?", toolCallId: `mail-${threadId}` }];
      yield { ...finished, outcome: { type: "interrupt", interrupts } };
      return;
    } else if (verb === "ask") {
      yield { ...finished, outcome: { type: "interrupt", interrupts: [{ id: `i-${runId}`, reason: "input", message: "Sure?" }] } };
      return;
    } else {
      yield { type: "RUN_ERROR", message: "The agent cannot do that." };
      return;
    }
  }
  yield finished;
}

const server = createServer(async (request, response) => {
  const body = [];
  for await (const piece of request) body.push(piece);
  const input = JSON.parse(Buffer.concat(body).toString());
  inputs.push(input);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for await (const event of script(input)) {
    if (response.destroyed) return;
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
});

/** Starts the agent, and registers it under the name `scripted`. */
export async function startAgent(base) {
  if (!server.listening) {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  }
  const agent = { url: `http://127.0.0.1:${server.address().port}/` };
  const headers = { "Content-Type": "application/json" };
  const put = await fetch(`${base}/v1/agents/scripted`, { method: "PUT", headers, body: JSON.stringify(agent) });
  assert.equal(put.status, 200, await put.text());
}

export function stopAgent() {
  server.close();
  server.closeAllConnections();
}

/** A chat as a page has it, with the smallest state that the SDK takes. */
export function open(ai, api, { id = randomUUID(), messages = [], transport = {}, chatTransport, ...rest } = {}) {
  class State {
    messages = messages;
    status = "ready";
    error = undefined;
    pushMessage = (message) => void (this.messages = this.messages.concat(message));
    popMessage = () => void (this.messages = this.messages.slice(0, -1));
    replaceMessage = (at, message) => void (this.messages = this.messages.with(at, structuredClone(message)));
    snapshot = (value) => structuredClone(value);
  }
  class Chat extends ai.AbstractChat {}
  const state = new State();
  return new Chat({ id, state, transport: chatTransport ?? new ai.DefaultChatTransport({ api, ...transport }), ...rest });
}

export const textOf = (message) =>
  message.parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");
export const shown = (chat) => chat.messages.map((message) => [message.role, textOf(message)]);

export async function eventually(what, check) {
  const end = Date.now() + 30_000;
  while (!(await check())) {
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
