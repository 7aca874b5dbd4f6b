// Tests that an unreachable server does not delay networks for long. Time is paused: only the waiting of the history
// counts.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { model, program, stateOf, useServer } from "./setup.js";
// Loaded on demand, which paused time does not wait for.
import "../../src/produce.js";

useServer();

const MOST_MS = 20_000;
/** Step of the paused time, and the real time before it. */
const [STEP_MS, REAL_MS] = [100, 5];
/** The real one, which no test has replaced yet. */
const wait = globalThis.setTimeout;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.stubGlobal("fetch", reachable);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const refused: typeof fetch = () => Promise.reject(new TypeError("connection refused"));
const swallowed: typeof fetch = (_, init) =>
  new Promise((_, reject) => init!.signal!.addEventListener("abort", () => reject(init!.signal!.reason as Error)));

/** Requests whose answers, from the reachable server or the model, are not complete yet: both work in real time. */
let pending = 0;
const real = globalThis.fetch;
const reachable: typeof fetch = async (...request) => {
  pending += 1;
  try {
    const response = await real(...request);
    const body = await response.arrayBuffer();
    return new Response(body.byteLength === 0 ? null : body, response);
  } finally {
    pending -= 1;
  }
};

/** Time at which the server became unreachable. */
let goneAt = 0;

/** Delay after which a run rejects, in paused time, which advances only while nothing else is running. */
async function rejects(run: Promise<unknown>): Promise<number> {
  let rejected: unknown;
  run.then(
    () => (rejected = new Error("it succeeded")),
    (error: unknown) => (rejected = error),
  );
  while (rejected === undefined) {
    while (pending > 0) await new Promise(setImmediate);
    // Real time for each step, for all that works in it, also on a busy machine.
    await new Promise((resolve) => wait(resolve, REAL_MS));
    if (rejected === undefined) await vi.advanceTimersByTimeAsync(STEP_MS);
  }
  expect(rejected).toMatchObject({ name: "ConnectionError" });
  return performance.now() - goneAt;
}

describe.each([
  ["is refused", refused],
  ["is swallowed", swallowed],
])("a server becomes unreachable, and a request %s", (_, away) => {
  test.each([undefined, "given"])("before a network starts (thread: %s)", async (threadId) => {
    goneAt = performance.now();
    const { network } = program({ fetch: away });
    expect(await rejects(network.run("hello", { state: stateOf(threadId) }))).toBeLessThan(MOST_MS);
    expect(model.asked).toHaveLength(0);
  });

  test.each([false, true])("while the model thinks (streamed: %s)", async (streamed) => {
    let isAway = false;
    model.answer = () => {
      if (!isAway) goneAt = performance.now();
      isAway = true;
      return model.asked.length < 3
        ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Rom" } }] }
        : { text: "Sunny." };
    };
    const { network, history } = program({ fetch: (url, init) => (isAway ? away : reachable)(url, init) });
    const streaming = { publish: history.publish, simulateChunking: true };
    const run = network.run("hello", { state: stateOf(), ...(streamed && { streaming }) });
    expect(await rejects(run)).toBeLessThan(MOST_MS);
  });
});
