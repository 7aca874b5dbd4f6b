// The server is killed in the middle of an answer, and started again: the page of LangGraph's SDK connects again by itself, and takes
// the half answer back.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { Client } from "langgraph15";
import { StreamController } from "langgraph15/stream";
import { WebSocket } from "undici";
import { eventually, inputs, startAgent, stopAgent, waiting } from "./chats.mjs";

const { THREADLINE: program, DATA: data, PORT: port } = process.env;
assert.ok(program && data && port, "THREADLINE, DATA and PORT are not set: these cases are run by `cargo test --test real`");
const base = `http://127.0.0.1:${port}`;
let server;

async function start() {
  server = spawn(program, ["dev", "--listen", `127.0.0.1:${port}`, "--data", data], { stdio: "ignore" });
  await eventually("the server is ready", async () => (await fetch(`${base}/readyz`).catch(() => ({}))).ok);
}
async function kill() {
  server.kill("SIGKILL");
  await once(server, "exit");
}

before(async () => {
  await start();
  await startAgent(base);
});
after(async () => {
  await kill();
  stopAgent();
});

const textOf = ({ content }) => (typeof content === "string" ? content : content.map(({ text }) => text ?? "").join(""));

const socket = { transport: "websocket", webSocketFactory: (url) => new WebSocket(url) };

/** A page shows an answer, the server is killed, and the answer goes on. */
async function goesOn(transport) {
  const word = randomUUID();
  const page = new StreamController({
    assistantId: "scripted",
    client: new Client({ apiUrl: `${base}/langgraph` }),
    maxReconnectAttempts: 100,
    reconnectDelayMs: () => 200,
    ...transport,
  });
  const shown = () => page.rootStore.getSnapshot().messages.map((message) => [message.getType(), textOf(message)]);
  const sent = page.submit({ messages: [{ type: "human", content: `slow ${word}` }] });
  await eventually("half is there", () => shown()[1]?.[1] === "half ");
  const { runId } = inputs.at(-1);
  await kill();
  await start();
  await eventually("the agent is asked again", () => inputs.filter((input) => input.runId === runId).length === 2);
  waiting.get(word)();
  await sent;
  await eventually("the answer is whole, and the half one is gone", () => shown().length === 2 && shown()[1][1] === "half whole");
  const { threadId } = page.rootStore.getSnapshot();
  const state = await (await fetch(`${base}/langgraph/threads/${threadId}/state`)).json();
  assert.deepEqual(state.values.messages.map(textOf), [`slow ${word}`, "half whole"]);
  await page.dispose();
}

test("the answer goes on after the server was killed", { timeout: 90_000 }, () => goesOn({}));
test("the answer goes on over another socket", { timeout: 90_000 }, () => goesOn(socket));
