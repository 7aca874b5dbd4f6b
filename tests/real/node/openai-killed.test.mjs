// The server is killed in the middle of a response, and started again: OpenAI's client reads on from the last number that it has.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { eventually, inputs, startAgent, stopAgent, waiting } from "./chats.mjs";

const { THREADLINE: program, DATA: data, PORT: port } = process.env;
assert.ok(program && data && port, "THREADLINE, DATA and PORT are not set: these cases are run by `cargo test --test real`");
const base = `http://127.0.0.1:${port}`;
const client = new OpenAI({ baseURL: `${base}/openai/v1`, apiKey: "none" });
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

test("a stream goes on by its number after the server was killed", { timeout: 90_000 }, async () => {
  const stream = await client.responses.create({ model: "scripted", input: "slow killed", background: true, stream: true });
  const seen = [];
  // The end of a cut stream, seen once it is looked for.
  const cut = (async () => {
    for await (const event of stream) seen.push(event);
  })().catch((error) => error);
  await eventually("half is there", () => seen.some(({ delta }) => delta === "half "));
  const { id } = seen[0].response;
  const before = [...seen];
  const { runId } = inputs.at(-1);
  await kill();
  assert.ok((await cut) instanceof Error);
  await start();
  await eventually("the agent is asked again", () => inputs.filter((input) => input.runId === runId).length === 2);
  const last = before.at(-1).sequence_number;
  const rest = await client.responses.retrieve(id, { stream: true, starting_after: last });
  const later = [];
  const following = (async () => {
    for await (const event of rest) later.push(event);
  })();
  await eventually("the agent waits", () => waiting.has("killed"));
  waiting.get("killed")();
  await following;
  assert.ok(later[0].sequence_number > last);
  assert.equal(later.at(-1).type, "response.completed");
  assert.equal(later.at(-1).response.output[0].content[0].text, "half whole");
  // Every later replay has the same events under the same numbers.
  const whole = [];
  for await (const event of await client.responses.retrieve(id, { stream: true })) whole.push(event);
  assert.deepEqual(whole.filter(({ sequence_number }) => sequence_number > last), later);
  assert.equal((await client.responses.retrieve(id)).output_text, "half whole");
});
