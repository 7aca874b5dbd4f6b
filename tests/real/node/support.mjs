// The real client and the server, and how they are compared.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";

export const base = process.env.THREADLINE_URL;
assert.ok(base, "THREADLINE_URL is not set: these cases are run by `cargo test --test real`");

// The client logs every failed run, and every member that it does not know: the tests record both.
export const warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = () => {};

export const user = (content) => ({ id: randomUUID(), role: "user", content });
export const texts = (messages, role = "assistant") =>
  messages.filter((message) => message.role === role).map((message) => message.content);

/** An AG-UI client as an application has it: a URL, a thread, and whatever it knows already. */
export function open(agent, threadId = randomUUID(), known = {}) {
  return new HttpAgent({ url: `${base}/agui/${agent}`, threadId, ...known });
}

export async function get(path, headers = {}) {
  const response = await fetch(base + path, { headers });
  assert.equal(response.status, 200, path);
  return response.headers.get("content-type").startsWith("application/json") ? response.json() : response.text();
}

async function send(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(base + path, { method, headers, body: JSON.stringify(body) });
  assert.ok(response.ok, `${path}: ${response.status} ${await response.text()}`);
}
export const post = (path, body) => send("POST", path, body);
export const put = (path, body) => send("PUT", path, body);

export const messagesOf = (threadId) => get(`/v1/threads/${threadId}/messages`);
export const stateOf = async (threadId) => (await get(`/v1/threads/${threadId}/state`)).state;

/** What an application shows after a reload: everything it knows is from the server. */
export async function reload(agent, threadId) {
  const { messages, interrupts } = await messagesOf(threadId);
  const client = open(agent, threadId, { initialMessages: messages, initialState: (await stateOf(threadId)) ?? {} });
  client.pendingInterrupts = interrupts;
  return client;
}

/** The client and the server have the same conversation, ids included, and the client had nothing to complain of. */
export async function agree(client) {
  const { messages, interrupts } = await messagesOf(client.threadId);
  assert.deepEqual(plain(client.messages), messages);
  assert.deepEqual(plain(client.state), (await stateOf(client.threadId)) ?? {});
  assert.deepEqual(plain(client.pendingInterrupts), interrupts);
  assert.deepEqual(warnings, []);
}

/** As JSON has it: members that are undefined are not there. */
export const plain = (value) => JSON.parse(JSON.stringify(value));

/** The events of an SSE text: `[seq, event]`. */
export function events(text) {
  return text
    .split("\n\n")
    .filter((block) => block.includes("data: "))
    .map((block) => {
      const lines = block.split("\n");
      const field = (name) => lines.find((line) => line.startsWith(name))?.slice(name.length);
      return [Number(field("id: ").split(":")[1]), JSON.parse(field("data: "))];
    });
}

/** The events of a thread, from the log: `{seq, runId, event}`. */
export async function log(threadId) {
  const lines = await get(`/v1/threads/${threadId}/events`, { Accept: "application/x-ndjson" });
  return lines.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}
