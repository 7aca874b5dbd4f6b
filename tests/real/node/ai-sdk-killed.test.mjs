// The server is killed in the middle of an answer, and started again: the page of the AI SDK resumes it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { after, before, test } from "node:test";
import * as ai6 from "ai6";
import * as ai7 from "ai7";
import { eventually, inputs, open, shown, startAgent, stopAgent, textOf, waiting } from "./chats.mjs";

const { THREADLINE: program, DATA: data, PORT: port } = process.env;
assert.ok(program && data && port, "THREADLINE, DATA and PORT are not set: these cases are run by `cargo test --test real`");
const base = `http://127.0.0.1:${port}`;
const api = `${base}/ai/scripted`;
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

for (const [version, ai] of [["6", ai6], ["7", ai7]]) {
  test(`ai ${version}: the answer goes on after the server was killed`, { timeout: 90_000 }, async () => {
    const [chat, word] = [open(ai, api), randomUUID()];
    const sent = chat.sendMessage({ text: `slow ${word}` });
    await eventually("half is there", () => chat.messages[1] && textOf(chat.messages[1]) === "half ");
    const { runId } = inputs.at(-1);
    await kill();
    await sent;
    assert.equal(chat.status, "error");
    await start();
    await eventually("the agent is asked again", () => inputs.filter((input) => input.runId === runId).length === 2);
    const resumed = chat.resumeStream();
    await eventually("the page has half again", () => chat.status === "streaming" && textOf(chat.messages[1]) === "half ");
    waiting.get(word)();
    await resumed;
    assert.equal(chat.status, "ready", chat.error?.message);
    assert.deepEqual(shown(chat), [["user", `slow ${word}`], ["assistant", "half whole"]]);
    const { messages } = await (await fetch(`${api}/${chat.id}`)).json();
    assert.deepEqual(messages.map(({ id }) => id), chat.messages.map(({ id }) => id));
    assert.equal(textOf(messages[1]), "half whole");
    assert.equal(messages[1].id, runId);
  });
}
