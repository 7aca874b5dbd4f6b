// Clients of the Durable Streams protocol read threads and runs, and go on at their offset after the server was killed.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client";
import { eventually } from "./chats.mjs";

const { THREADLINE: program, DATA: data, PORT: port } = process.env;
assert.ok(program && data && port, "THREADLINE, DATA and PORT are not set: these cases are run by `cargo test --test real`");
const base = `http://127.0.0.1:${port}`;
const streams = `${base}/streams/v1/stream/threads`;
let server;

async function start() {
  server = spawn(program, ["dev", "--listen", `127.0.0.1:${port}`, "--data", data], { stdio: "ignore" });
  await eventually("the server is ready", async () => (await fetch(`${base}/readyz`).catch(() => ({}))).ok);
}
async function kill() {
  server.kill("SIGKILL");
  await once(server, "exit");
}
async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  assert.ok(response.ok, `${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

before(start);
after(kill);

/** A thread with an active run that has two events. */
async function open() {
  const thread = randomUUID();
  await post("/v1/threads", { threadId: thread });
  await post(`/v1/threads/${thread}/runs`, { runId: "r", leaseSeconds: 600 });
  await append(thread, 1, [{ type: "RUN_STARTED", threadId: thread, runId: "r" }, { type: "A" }]);
  return thread;
}
const append = (thread, producerSeq, events) => post(`/v1/threads/${thread}/runs/r/events?producerSeq=${producerSeq}`, events);
const finish = (thread) => post(`/v1/threads/${thread}/runs/r/finish`, {});
const types = (items) => items.map(({ type }) => type);

/** Collects what a live read delivers. `error` is that of a read that was cut. */
function collect(response, seen = { items: [] }) {
  response.subscribeJson(async (batch) => {
    seen.items.push(...batch.items);
    seen.offset = batch.offset;
  });
  seen.closed = response.closed.catch((error) => void (seen.error = error));
  return seen;
}

for (const live of ["sse", "long-poll"]) {
  test(`a run is followed to its end by ${live}`, { timeout: 90_000 }, async () => {
    const thread = await open();
    const response = await stream({ url: `${streams}/${thread}/runs/r`, offset: "-1", live });
    const seen = collect(response);
    await eventually("what is there is read", () => seen.items.length === 2);
    await append(thread, 3, [{ type: "B" }]);
    await eventually("what comes is read", () => seen.items.length === 3);
    await finish(thread);
    await seen.closed;
    await eventually("the last message is taken", () => seen.items.length === 4);
    assert.deepEqual(types(seen.items), ["RUN_STARTED", "A", "B", "RUN_FINISHED"]);
    assert.equal(response.streamClosed, true);
  });

  test(`a thread is followed by ${live} from its offset after the server was killed`, { timeout: 90_000 }, async () => {
    const thread = await open();
    const url = `${streams}/${thread}`;
    const first = await stream({ url, offset: "-1", live: false });
    assert.deepEqual(types(await first.json()), ["RUN_STARTED", "A"]);
    const abort = new AbortController();
    const from = (offset) => stream({ url, offset, live, signal: abort.signal });
    const seen = collect(await from(first.offset));
    await append(thread, 3, [{ type: "B" }]);
    await eventually("what comes is read", () => seen.items.length === 1);
    await kill();
    await start();
    if (live === "sse") {
      // The client repeats requests that fail, but not an event stream that is cut.
      await eventually("the cut is told", () => seen.error);
      collect(await from(seen.offset), seen);
    }
    await append(thread, 4, [{ type: "C" }]);
    await finish(thread);
    await eventually("the read goes on", () => seen.items.length === 3);
    abort.abort();
    await seen.closed;
    assert.deepEqual(types(seen.items), ["B", "C", "RUN_FINISHED"]);
    const rest = await stream({ url, offset: seen.offset, live: false });
    assert.deepEqual(await rest.json(), []);
  });
}

test("docs/durable-streams.md: a run is followed until it has ended", { timeout: 90_000 }, async () => {
  await post("/v1/threads", { threadId: "chat" });
  await post("/v1/threads/chat/runs", { runId: "hello", leaseSeconds: 600, events: [{ type: "A" }] });
  await post("/v1/threads/chat/runs/hello/finish", {});
  const page = await readFile(new URL("../../../docs/durable-streams.md", import.meta.url), "utf8");
  const code = /```js\nimport .*\n([^]*?)```/.exec(page)[1].replace("http://localhost:7420", base);
  const AsyncFunction = (async () => {}).constructor;
  const said = [];
  await new AsyncFunction("stream", "console", code)(stream, { log: (...words) => said.push(words[0]) });
  await eventually("the messages are printed", () => said.length === 2);
  assert.deepEqual(said, ["A", "RUN_FINISHED"]);
});

test("the client finds the end of a stream, and is refused what it cannot do", { timeout: 90_000 }, async () => {
  const thread = await open();
  const handle = new DurableStream({ url: `${streams}/${thread}/runs/r` });
  const before = await handle.head();
  assert.deepEqual([before.exists, before.contentType, before.streamClosed], [true, "application/json", false]);
  await finish(thread);
  const after = await handle.head();
  assert.ok(after.streamClosed && after.offset > before.offset);
  await assert.rejects(handle.append(JSON.stringify({ type: "X" })), (error) => error.status === 405);
  await assert.rejects(stream({ url: `${streams}/none`, live: false }), (error) => error.status === 404);
});

test("the client writes plain streams", { timeout: 90_000 }, async () => {
  const url = `${base}/streams/v1/stream/plain/${randomUUID()}`;
  const handle = await DurableStream.create({ url, contentType: "application/json", ttlSeconds: 3_600 });
  await handle.append(JSON.stringify({ n: 1 }));
  const seen = collect(await stream({ url, offset: "-1", live: "sse" }));
  const producer = new IdempotentProducer(handle, "writer", { autoClaim: true });
  for (let n = 2; n <= 200; n += 1) producer.append(JSON.stringify({ n }));
  await producer.flush();
  await handle.close({ body: JSON.stringify({ n: 201 }) });
  await seen.closed;
  await eventually("all messages are read", () => seen.items.length === 201);
  assert.deepEqual(seen.items.map(({ n }) => n), Array.from({ length: 201 }, (_, index) => index + 1));
  await kill();
  await start();
  const again = await stream({ url, offset: "-1", live: false });
  assert.equal((await again.json()).length, 201);
  assert.ok((await handle.head()).streamClosed);
  await handle.delete();
  await assert.rejects(stream({ url, live: false }), (error) => error.status === 404);
});
