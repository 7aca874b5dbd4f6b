import { Threadline, type ThreadRef } from "threadline";
import type { AnyMessage } from "../../src/untrusted.ts";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { run } from "../../../sdk/typescript/test/conversation/generate.js";
import { Random } from "../../../sdk/typescript/test/harness/random.js";
import { Server } from "../../../sdk/typescript/test/harness/server.js";
import { log, makeThread, write } from "../../../sdk/typescript/test/harness/writer.js";
import { Moments, type Source } from "../../src/inspector/fold.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let server: Server;
let client: Threadline;
beforeAll(async () => {
  server = await Server.start();
  client = new Threadline({ url: server.url });
});
afterAll(async () => {
  client?.close();
  await server?.end();
});

const never = new AbortController().signal;

/** A thread, and a count of each request. */
class Counted implements Source {
  readonly asked = { events: 0, messages: 0, state: 0, runs: 0 };
  readonly #ref: ThreadRef;

  constructor(ref: ThreadRef) {
    this.#ref = ref;
  }

  readonly events: Source["events"] = (options) => (this.asked.events++, this.#ref.events(options));
  readonly messages: Source["messages"] = (options) => (this.asked.messages++, this.#ref.messages(options));
  readonly state: Source["state"] = (options) => (this.asked.state++, this.#ref.state(options));
  readonly runs: Source["runs"] = (options) => (this.asked.runs++, this.#ref.runs(options));
}

/** The server's answer. */
async function said(threadId: string, at: number): Promise<{ messages: readonly AnyMessage[]; state: unknown }> {
  const ref = client.thread(threadId);
  const [{ messages, hasMore }, { state }] = await Promise.all([ref.messages({ at }), ref.state({ at })]);
  expect(hasMore).toBe(false);
  return { messages, state };
}

async function opened(threadId: string): Promise<{ moments: Moments; source: Counted; tail: number }> {
  const { epoch, tail } = await client.thread(threadId).get();
  const source = new Counted(client.thread(threadId));
  return { moments: new Moments(source, epoch), source, tail };
}

/** A copy through JSON: lone surrogates differ between client and server. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

test("a moment equals the server's answer, in any order of steps", async () => {
  const random = new Random();
  let folded = 0;
  for (let thread = 0; thread < 6; thread += 1) {
    const threadId = await makeThread(server);
    for (let number = 0; number < 4; number += 1) {
      // Moments with numbered names are requested; others are folded here.
      const events = run(random, threadId, `r${number}`).filter(
        ({ type }) => thread % 2 === 0 || !type.startsWith("THINKING_"),
      );
      await server.request("PUT", `/v1/threads/${threadId}/runs/r${number}`, { body: events });
    }
    const { moments, source, tail } = await opened(threadId);
    let at = tail;
    for (let look = 0; look < 20; look += 1) {
      at = random.chance(0.6) ? at + random.pick([-1, 1, 2, -3]) : random.below(tail + 1);
      at = Math.min(Math.max(at, 0), tail);
      const { messages, state } = moments.peek(at) ?? (await moments.load(at, never));
      expect(plain({ messages, state }), `seed ${random.seed}, thread ${thread}, at ${at}`).toEqual(
        await said(threadId, at),
      );
      expect(moments.peek(at)?.messages).toBe(messages);
    }
    if (thread % 2 === 1 && source.asked.messages < 12) folded += 1;
  }
  expect(folded, "threads that were folded here").toBeGreaterThan(1);
});

test("steps back and forth send no request", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { runId: "a", deltas: 300, batch: 100 });
  await write(server, threadId, { runId: "b", deltas: 600, batch: 100 });
  const { moments, source } = await opened(threadId);
  await moments.load(500, never);
  const asked = { ...source.asked };
  for (let at = 501; at < 560; at += 1) expect(moments.peek(at), `at ${at}`).toBeDefined();
  for (let at = 559; at > 470; at -= 1) expect(moments.peek(at), `at ${at}`).toBeDefined();
  expect(source.asked).toEqual(asked);
  // One request for the projection before the run, and one for its events.
  expect(asked).toEqual({ events: 1, messages: 1, state: 1, runs: 1 });
  // Messages that an event does not change are the same objects.
  expect(moments.peek(500)!.messages[0]).toBe(moments.peek(520)!.messages[0]);
  await moments.load(320, never);
  expect(source.asked.messages).toBe(1);
});

test("an active run is folded up to its newest event", async () => {
  const threadId = await makeThread(server);
  let appended = 0;
  await write(server, threadId, { deltas: 100, batch: 10, stop: () => appended++ === 5 });
  const { length } = await log(server, threadId);
  expect(length).toBe(50);
  const { moments } = await opened(threadId);
  expect(await moments.load(50, never)).toEqual(await said(threadId, 50));
  expect(moments.peek(49)).toEqual(await said(threadId, 49));
});

test("a place that is only passed sends no request, and does not delay the next one", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 50 });
  const { moments, source } = await opened(threadId);
  const gone = AbortSignal.abort(new Error("gone"));
  await expect(moments.load(20, gone)).rejects.toThrow("gone");
  expect(source.asked.runs).toBe(0);
  const leave = new AbortController();
  const passing = moments.load(30, leave.signal);
  const staying = moments.load(40, never);
  leave.abort(new Error("gone"));
  await expect(passing).rejects.toThrow("gone");
  expect(await staying).toEqual(await said(threadId, 40));
});

test("a place beyond the tail, and another log, are refused", async () => {
  const threadId = await makeThread(server);
  await write(server, threadId, { deltas: 5 });
  const { moments, tail } = await opened(threadId);
  const { moments: late } = await opened(threadId);
  await expect(moments.load(tail + 1, never)).rejects.toMatchObject({ slug: "cursor-ahead" });
  await client.thread(threadId).delete();
  await makeThread(server, threadId);
  await write(server, threadId, { deltas: 5 });
  await expect(late.load(3, never)).rejects.toMatchObject({ slug: "log-replaced" });
});
