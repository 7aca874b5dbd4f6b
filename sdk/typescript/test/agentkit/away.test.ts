// Tests that an unreachable server does not delay networks for long, and what becomes of their messages. Time is paused: only
// the waiting of the history counts.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { NewEvent, ThreadlineError } from "../../src/index.js";
import type { UnsavedRun } from "../../src/agentkit/index.js";
import { client, model, program, restored, stateOf, texts, useServer } from "./setup.js";
// Loaded on demand, which paused time does not wait for.
import "../../src/produce.js";

useServer();

const MOST_MS = 12_000;
/** The hooks do not wait at all; this leaves a busy machine some steps of the paused time. */
const AT_ONCE_MS = 3_000;
/** Step of the paused time, and the real time before it. */
const [STEP_MS, REAL_MS] = [100, 5];
/** The real one, which no test has replaced yet. */
const wait = globalThis.setTimeout;

beforeEach(() => {
  isAway = false;
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

/** True while the server is unreachable, and the time at which it became so. */
let [isAway, goneAt] = [false, 0];

function leave(): void {
  if (!isAway) goneAt = performance.now();
  isAway = true;
}

/** A server that can become unreachable, in this way. */
const leaving =
  (away: typeof fetch): typeof fetch =>
  (url, init) =>
    (isAway ? away : reachable)(url, init);

/** The result of a run, in paused time, which advances only while nothing else is running. */
async function outcome(run: Promise<unknown>): Promise<{ error?: ThreadlineError; afterMs: number }> {
  let ended: { error?: ThreadlineError } | undefined;
  run.then(
    () => (ended = {}),
    (error: ThreadlineError) => (ended = { error }),
  );
  while (!ended) {
    while (pending > 0) await new Promise(setImmediate);
    // Real time for each step, for all that works in it, also on a busy machine.
    await new Promise((resolve) => wait(resolve, REAL_MS));
    if (!ended) await vi.advanceTimersByTimeAsync(STEP_MS);
  }
  return { ...ended, afterMs: performance.now() - goneAt };
}

/** Delay after which a run rejects because of the server. */
async function rejects(run: Promise<unknown>): Promise<number> {
  const { error, afterMs } = await outcome(run);
  expect(error).toMatchObject({ name: "ConnectionError" });
  return afterMs;
}

/** Delay after which a run ends without an error. */
async function resolves(run: Promise<unknown>): Promise<number> {
  const { error, afterMs } = await outcome(run);
  expect(error).toBeUndefined();
  return afterMs;
}

/** A program whose runs continue without the server, and what it was handed over. */
function continuing(away: typeof fetch, options: object = {}) {
  const unsaved: { events: readonly NewEvent[]; run: UnsavedRun }[] = [];
  const onUnsaved = (events: readonly NewEvent[], run: UnsavedRun) => void unsaved.push({ events, run });
  const made = program({ fetch: leaving(away), onUnavailable: "continue", onUnsaved, ...options });
  /** What an application does with it when the server is back. */
  const save = async () => {
    for (const { events, run } of unsaved) {
      const { threadId, runId, agentId, userId } = run;
      const own = client(userId);
      await own.threads.create({ threadId, ...(agentId && { agentId }) }).catch(() => {});
      await own.thread(threadId).putRun(runId, events, run);
    }
  };
  return { ...made, unsaved, save };
}

describe.each([
  ["is refused", refused],
  ["is swallowed", swallowed],
])("a server becomes unreachable, and a request %s", (_, away) => {
  test.each([undefined, "given"])("before a network starts (thread: %s)", async (threadId) => {
    leave();
    const { network } = program({ fetch: leaving(away) });
    expect(await rejects(network.run("hello", { state: stateOf(threadId) }))).toBeLessThan(MOST_MS);
    expect(model.asked).toHaveLength(0);
  });

  test.each([false, true])("while the model thinks (streamed: %s)", async (streamed) => {
    model.answer = () => {
      leave();
      return model.asked.length < 3
        ? { text: "Let me see.", calls: [{ name: "weather", args: { city: "Rom" } }] }
        : { text: "Sunny." };
    };
    const { network, history } = program({ fetch: leaving(away) });
    const streaming = { publish: history.publish, simulateChunking: true };
    const run = network.run("hello", { state: stateOf(), ...(streamed && { streaming }) });
    expect(await rejects(run)).toBeLessThan(MOST_MS);
  });

  test.each([undefined, "another"])("before a network starts that continues (thread: %s)", async (given) => {
    leave();
    const { network, unsaved, save } = continuing(away);
    const state = stateOf(given && `${given} ${away.name}`);
    expect(await resolves(network.run("hello", { state }))).toBeLessThan(MOST_MS);
    expect(model.asked).toHaveLength(1);
    const { threadId } = state;
    const run = { threadId, runId: expect.stringMatching(/^ak:[ur]:/), agentId: "support", userId: "ann" };
    expect(unsaved.map((each) => each.run)).toEqual([run, run]);
    isAway = false;
    // Saved by the application, and once more.
    for (let time = 0; time < 2; time += 1) await resolves(save());
    expect(texts(await restored(threadId!))).toEqual(["user: hello", "helper: reply 1"]);
  });

  test.each([false, true])("while the model of a network thinks that continues (streamed: %s)", async (streamed) => {
    model.answer = () => (leave(), { text: "Sunny." });
    const { network, history, unsaved, save } = continuing(away);
    const state = stateOf();
    const streaming = { publish: history.publish };
    expect(await resolves(network.run("hello", { state, ...(streamed && { streaming }) }))).toBeLessThan(MOST_MS);
    expect(unsaved).toHaveLength(1);
    isAway = false;
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello"]);
    expect(JSON.stringify(unsaved[0]!.events)).toContain("Sunny.");
    // The run of the stream lasts until its lease expires.
    if (streamed) return;
    await resolves(save());
    expect(texts(await restored(state.threadId!))).toEqual(["user: hello", "helper: Sunny."]);
  });
});

test("after one run has waited in vain, the hooks of others fail at once for 5 s", async () => {
  let asked = 0;
  const counted: typeof fetch = (...request) => ((asked += 1), refused(...request));
  const { network } = program({ fetch: leaving(counted) });
  leave();
  expect(await rejects(network.run("one", { state: stateOf() }))).toBeGreaterThan(9_000);
  const [before, tries] = [performance.now(), asked];
  for (const thread of [undefined, "given"]) await rejects(network.run("two", { state: stateOf(thread) }));
  expect(performance.now() - before).toBeLessThan(AT_ONCE_MS);
  expect(asked).toBe(tries);
  await vi.advanceTimersByTimeAsync(5_000);
  isAway = false;
  const state = stateOf();
  await resolves(network.run("three", { state }));
  expect(texts(await restored(state.threadId!))).toEqual(["user: three", "helper: reply 1"]);
});

test("the hooks of a run wait 10 s in total, even if the server responds in between", async () => {
  /** Time of the first attempt of each request. */
  const attempts = new Map<string, number>();
  const flapping: typeof fetch = (url, init) => {
    const request = `${init?.method} ${String(url)}`;
    const first = attempts.get(request) ?? performance.now();
    attempts.set(request, first);
    return (performance.now() - first < 6_000 ? refused : reachable)(url, init);
  };
  goneAt = performance.now();
  const { network } = program({ fetch: flapping });
  expect(await rejects(network.run("hello", { state: stateOf("flapping") }))).toBeLessThan(MOST_MS);
  expect(attempts.size).toBeGreaterThan(1);
});

test("a message that could not be saved is saved before the answer, if the server is back", async () => {
  leave();
  const { network, unsaved } = continuing(refused);
  model.answer = async () => {
    await vi.advanceTimersByTimeAsync(5_000);
    isAway = false;
    return { text: "back" };
  };
  const state = stateOf("back in time");
  await resolves(network.run("hello", { state }));
  expect(unsaved.map(({ run }) => run.runId.slice(0, 5))).toEqual(["ak:u:"]);
  expect(texts(await restored("back in time"))).toEqual(["user: hello", "helper: back"]);
});

test("a stored state that could not be read is not replaced", async () => {
  const options = { persistState: true };
  await resolves(program(options).network.run("one", { state: stateOf("kept", { userId: "ann", count: 7 }) }));
  leave();
  const { network, unsaved } = continuing(refused, options);
  model.answer = async () => {
    await vi.advanceTimersByTimeAsync(5_000);
    isAway = false;
    return { text: "back" };
  };
  await resolves(network.run("two", { state: stateOf("kept", { userId: "ann", count: 0 }) }));
  expect((await client().thread("kept").state()).state).toMatchObject({ data: { count: 7 } });
  const events = unsaved.flatMap((each) => each.events).filter(({ type }) => type === "STATE_SNAPSHOT");
  expect(events).toMatchObject([{ snapshot: { data: { count: 0 } } }]);
});

test("a problem of the server's is no unavailability: the run rejects", async () => {
  await client("bob").threads.create({ threadId: "of bob" });
  const { network, unsaved } = continuing(refused);
  const { error } = await outcome(network.run("mine?", { state: stateOf("of bob") }));
  expect(error).toMatchObject({ slug: "thread-exists" });
  expect(unsaved).toEqual([]);
  expect(() => program({ onUnavailable: "continue" } as never)).toThrow("requires onUnsaved");
});
