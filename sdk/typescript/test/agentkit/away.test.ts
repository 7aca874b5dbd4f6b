// Tests that an unreachable server does not delay networks for long. Time is paused: only the waiting of the history
// counts.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { model, program, stateOf, useServer } from "./setup.js";
// Loaded on demand, which paused time does not wait for.
import "../../src/produce.js";

useServer();

const MOST_MS = 20_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const refused: typeof fetch = () => Promise.reject(new TypeError("connection refused"));
const swallowed: typeof fetch = (_, init) =>
  new Promise((_, reject) => init!.signal!.addEventListener("abort", () => reject(init!.signal!.reason as Error)));

/** Requests that the reachable server has not answered yet: it works in real time. */
let pending = 0;
const reachable: typeof fetch = async (...request) => {
  pending += 1;
  try {
    return await fetch(...request);
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
    // Models run in real time.
    for (let turns = 0; turns < 20 && rejected === undefined; turns += 1) await new Promise(setImmediate);
    await vi.advanceTimersByTimeAsync(20);
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
