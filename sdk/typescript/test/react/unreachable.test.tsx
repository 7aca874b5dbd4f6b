// States of hooks and clients while the server is unreachable, and how long they wait for it. Time is paused, except in the
// last test.

import "./dom.js";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { cleanup } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ConnectionError, isProblem, Threadline, type ThreadlineOptions } from "../../src/index.js";
import { FRAME_MS } from "../../src/limits.js";
import { storesOf } from "../../src/react/index.js";
import { Server } from "../harness/server.js";
import { makeThread, write } from "../harness/writer.js";
import { connect, said, threadPage } from "./page.js";

// Loaded on demand, which paused time does not wait for.
import "../../src/produce.js";

const SECOND = 1_000;

/** An unreachable server, at first: the test sets how it handles a request. */
class Network {
  answer: (path: string, signal: AbortSignal, body: string) => Promise<Response> = refused;
  /** Times of requests, in milliseconds since the start of the test. */
  readonly asked: number[] = [];
  readonly #began = performance.now();

  readonly fetch: typeof fetch = (input, init) => {
    this.asked.push(performance.now() - this.#began);
    return this.answer(new URL(String(input)).pathname, init!.signal!, String(init!.body));
  };

  client(options: Partial<ThreadlineOptions> = {}): Threadline {
    const client = new Threadline({ url: "http://server", transports: ["long-poll"], fetch: this.fetch, ...options });
    clients.push(client);
    return client;
  }
}

/** Connections are refused. */
const refused = () => Promise.reject(new TypeError("connection refused"));
/** Packets are lost. */
const swallowed = (_: string, signal: AbortSignal) =>
  new Promise<Response>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));

const clients: Threadline[] = [];
afterEach(() => {
  cleanup();
  for (const client of clients.splice(0)) client.close();
  vi.useRealTimers();
});

/** The time and the error with which a call rejects. Time advances until then, for at most ten minutes. */
async function fails(call: Promise<unknown>): Promise<{ afterMs: number; error: unknown }> {
  const began = performance.now();
  let failed: { afterMs: number; error: unknown } | undefined;
  call.then(
    () => expect.unreachable(),
    (error: unknown) => (failed = { afterMs: performance.now() - began, error }),
  );
  for (let times = 0; times < 6_000 && !failed; times += 1) await vi.advanceTimersByTimeAsync(100);
  return failed ?? expect.unreachable();
}

describe("within a second", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  });

  const shown = (client: Threadline) => {
    const stores = storesOf(client);
    const [thread, list] = [stores.thread("t"), stores.list({})];
    thread.subscribe(() => {});
    list.subscribe(() => {});
    return [thread, list] as const;
  };

  test("a page reports an unreachable server, and the cause", async () => {
    const client = new Network().client();
    const stores = shown(client);
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(client.status).toMatchObject({ state: "reconnecting", error: expect.any(ConnectionError) as unknown });
    for (const store of stores) {
      expect(store.getSnapshot()).toMatchObject({ isLoading: true, error: expect.any(ConnectionError) as unknown });
    }
    // A change is published with the next frame, and the next attempt may start within it.
    for (let frames = 0; frames < 10 && stores[0].getSnapshot().status !== client.status; frames += 1) {
      await vi.advanceTimersByTimeAsync(FRAME_MS);
    }
    expect(stores[0].getSnapshot().status).toBe(client.status);
    // The status stays the same between two attempts.
    for (let times = 0; times < 3_000; times += 1) {
      await vi.advanceTimersByTimeAsync(100);
      expect(client.status.state).toBe("reconnecting");
      expect(stores[0].getSnapshot().error).toBeInstanceOf(ConnectionError);
    }
  });

  test("a page reports a server without a response as slow, and then as unreachable", async () => {
    const network = new Network();
    network.answer = swallowed;
    const client = network.client();
    const [thread] = shown(client);
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(client.status).toEqual({ state: "connecting", slow: true });
    expect(thread.getSnapshot().status).toBe(client.status);
    await vi.advanceTimersByTimeAsync(30 * SECOND);
    expect(thread.getSnapshot()).toMatchObject({ isLoading: true, status: { state: "reconnecting" } });
    expect(thread.getSnapshot().error).toBeInstanceOf(ConnectionError);
  });

  test("a connection that cannot be opened is reported, too", async () => {
    const network = new Network();
    network.answer = swallowed;
    const client = network.client();
    client.thread("t").follow({ onItem: () => {}, onError: () => {} });
    expect(client.status).toEqual({ state: "connecting" });
    await vi.advanceTimersByTimeAsync(SECOND);
    expect(client.status).toEqual({ state: "connecting", slow: true });
  });

  test("the first success wakes everything that waits, within five seconds", async () => {
    const network = new Network();
    const client = network.client();
    const answered = new Map<string, number>();
    const ids = Array.from({ length: 8 }, (_, at) => `t${at}`);
    for (const id of ids) {
      const call = client.thread(id).get({ retryFor: Number.POSITIVE_INFINITY });
      void call.then(() => answered.set(id, performance.now()));
    }
    await vi.advanceTimersByTimeAsync(60 * SECOND);
    expect(client.status).toMatchObject({ state: "reconnecting", error: expect.any(ConnectionError) as unknown });
    network.answer = async () => Response.json({});
    const back = performance.now();
    await vi.advanceTimersByTimeAsync(5 * SECOND);
    expect([...answered.keys()].sort()).toEqual(ids);
    const times = [...answered.values()];
    expect(Math.max(...times) - back).toBeLessThanOrEqual(5 * SECOND);
    expect(Math.max(...times) - Math.min(...times)).toBeLessThanOrEqual(10);
    expect(client.status).toEqual({ state: "idle" });
  });

  test("a call that fails alone is not repeated with each success of others", async () => {
    const network = new Network();
    let failures = 0;
    network.answer = async (path) => {
      if (!path.endsWith("/bad")) return Response.json({});
      failures += 1;
      return refused();
    };
    const client = network.client();
    void fails(client.thread("bad").get({ retryFor: 10 * SECOND }));
    for (let times = 0; times < 100; times += 1) {
      await client.thread("good").get();
      await vi.advanceTimersByTimeAsync(SECOND / 10);
    }
    // As often as without the others: the expected waits add up to 10 s with the seventh.
    expect(failures).toBeGreaterThan(2);
    expect(failures).toBeLessThan(25);
  });

  test("trouble that is over is no longer reported", async () => {
    const network = new Network();
    const client = network.client();
    const seen: string[] = [];
    client.onStatus(({ state }) => seen.push(state));
    const call = client.threads.list();
    await vi.advanceTimersByTimeAsync(SECOND / 10);
    network.answer = async () => Response.json({ threads: [], nextCursor: null, feedCursor: 0, feedEpoch: "f" });
    await vi.advanceTimersByTimeAsync(10 * SECOND);
    await call;
    expect(client.status).toEqual({ state: "idle" });
    expect(new Set(seen)).toEqual(new Set(["reconnecting", "idle"]));
    network.answer = refused;
    await fails(client.threads.list());
    expect(client.status).toEqual({ state: "idle" });
  });
});

describe("the retry time", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  });

  const run = { runId: "r", producerSeq: 1, firstSeq: 1, endedAt: null, stopRequested: false };
  const begun = (body: string) => ({ ...(JSON.parse(body) as object), run, epoch: "e", attempt: 1 });

  test.each([
    ["is refused", refused],
    ["is swallowed", swallowed],
  ])("is short for reads and writes, and long for producers, if a request %s", async (_, answer) => {
    const network = new Network();
    network.answer = answer;
    const client = network.client();
    const thread = client.thread("t");
    const input = { messages: [{ role: "user", content: "Hi" } as const] };
    for (const call of [() => thread.get(), () => thread.rename("n"), () => thread.start({ agentId: "a", input })]) {
      const { afterMs, error } = await fails(call());
      expect(error).toBeInstanceOf(ConnectionError);
      expect(afterMs).toBeLessThanOrEqual(11.2 * SECOND);
      expect(network.asked.length).toBeGreaterThan(0);
    }
    network.answer = async (path, signal, body) =>
      path.endsWith("/runs") ? Response.json(begun(body)) : answer(path, signal);
    const { afterMs } = await fails(
      thread.run({}, (run) => run.append({ type: "CUSTOM", name: "n", value: 0 }).then(() => run.flush())),
    );
    expect(afterMs).toBeGreaterThanOrEqual(60 * SECOND);
    expect(afterMs).toBeLessThan(130 * SECOND);
  });

  test("is set by the options for each kind, and by the options of a single call", async () => {
    const client = new Network().client({ retries: { reads: 3 * SECOND, writes: 20 * SECOND, producers: 0 } });
    const thread = client.thread("t");
    expect((await fails(thread.get())).afterMs).toBeLessThanOrEqual(4.2 * SECOND);
    expect((await fails(thread.rename("n"))).afterMs).toBeGreaterThanOrEqual(20 * SECOND);
    expect((await fails(thread.putRun("r", []))).afterMs).toBeLessThanOrEqual(SECOND);
    expect((await fails(thread.get({ retryFor: 0 }))).afterMs).toBeLessThanOrEqual(SECOND);
    expect((await fails(thread.get({ retryFor: 40 * SECOND }))).afterMs).toBeGreaterThanOrEqual(40 * SECOND);
  });

  test("can be shared by a series of calls", async () => {
    const retries = { reads: 10 * SECOND, writes: 10 * SECOND, producers: 10 * SECOND, together: true };
    const network = new Network();
    const thread = network.client({ retries }).thread("t");
    expect((await fails(thread.get())).afterMs).toBeGreaterThanOrEqual(10 * SECOND);
    await vi.advanceTimersByTimeAsync(10 * SECOND);
    expect((await fails(thread.rename("n"))).afterMs).toBeLessThanOrEqual(SECOND);
    network.answer = swallowed;
    expect((await fails(thread.get())).afterMs).toBeLessThanOrEqual(2 * SECOND);
    network.answer = async () => Response.json({});
    await thread.get();
    network.answer = refused;
    expect((await fails(thread.get())).afterMs).toBeGreaterThanOrEqual(10 * SECOND);
  });

  test("for another run is a minute while the server responds", async () => {
    const network = new Network();
    const active = { type: "/problems/run-active", title: "A run is active", status: 409, retryable: true };
    network.answer = async () => Response.json(active, { status: 409 });
    const retries = { producers: 5 * SECOND, together: true };
    const { afterMs, error } = await fails(network.client({ retries }).thread("t").putRun("r", []));
    expect(isProblem(error, "run-active")).toBe(true);
    expect(afterMs).toBeGreaterThanOrEqual(60 * SECOND);
    expect(afterMs).toBeLessThanOrEqual(61 * SECOND);
    // If the server becomes unreachable meanwhile, the normal retry time applies.
    const gone = new Network();
    gone.answer = (path, signal) => (gone.asked.length > 3 ? refused() : network.answer(path, signal, ""));
    const waiting = await fails(gone.client({ retries }).thread("t").putRun("r", []));
    expect(waiting.error).toBeInstanceOf(ConnectionError);
    expect(waiting.afterMs - gone.asked[3]!).toBeLessThanOrEqual(7 * SECOND);
  });
});

test("a page whose server starts late reports that, and then shows the thread", async () => {
  // An unused port, and later the server.
  const probe = createServer();
  await once(probe.listen(0, "127.0.0.1"), "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  let target = `http://127.0.0.1:${port}`;
  const moved: typeof fetch = (input, init) => fetch(String(input).replace(/^http:\/\/[^/]+/, target), init);
  const client = connect({ url: target, transports: ["long-poll"], fetch: moved });
  clients.push(client);
  const page = threadPage(client, "late");
  await page.until("the trouble", ({ status, error }) => status.state === "reconnecting" && error);
  expect(page.now).toMatchObject({ isLoading: true, thread: null });
  const server = await Server.start();
  try {
    await makeThread(server, "late");
    await write(server, "late", { deltas: 3 });
    target = server.url;
    await page.until("the thread", (now) => !now.isLoading && said(now).length === 1);
    expect(page.now).toMatchObject({ error: null, status: { state: "live" } });
  } finally {
    page.leave();
    client.close();
    await server.end();
  }
});
