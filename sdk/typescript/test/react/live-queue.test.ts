// Tests what a queue shows, regardless of the order in which the log, the state of the queue and responses arrive.

import { expect, test } from "vitest";
import { ProblemError, type Queue, type QueuedRun, type Run, type ThreadRef } from "../../src/index.js";
import { LiveQueue } from "../../src/react/queue.js";
import type { Thread } from "../../src/types.js";
import { until } from "../harness/until.js";

/** A queue whose responses are controlled by the test. */
class Told {
  readonly queue: LiveQueue;
  readonly begun: string[] = [];
  cursor = 4;
  #reads: ((queue: Queue) => void)[] = [];
  #records = new Map<string, (record: Run | QueuedRun | Error) => void>();
  #current = new AbortController();

  constructor() {
    const ref = {
      threadId: "t",
      queue: {
        get: () => new Promise<Queue>((resolve) => this.#reads.push(resolve)),
        remove: async () => {},
      },
      runRecord: (runId: string) =>
        new Promise<Run | QueuedRun>((resolve, reject) =>
          this.#records.set(runId, (record) => (record instanceof Error ? reject(record) : resolve(record))),
        ),
    } as unknown as ThreadRef;
    this.queue = new LiveQueue(ref, {
      signal: () => this.#current.signal,
      cursor: () => this.cursor,
      onChange: () => {},
      onBegun: ({ runId }) => this.begun.push(runId),
      act: (task) => task(),
    });
  }

  get shown(): string[] {
    return this.queue.shown.items.map(({ runId, hasBegun }) => `${runId}${hasBegun ? " begins" : ""}`);
  }

  get reads(): number {
    return this.#reads.length;
  }

  /** Tells of a state of the queue. */
  hears(version: number, queued: number, epoch = "e"): void {
    this.queue.hear({ epoch, version, queued, held: null });
  }

  /** Answers the oldest read. */
  async answers(version: number, ...ids: string[]): Promise<void> {
    await until("a read", () => this.#reads.length > 0);
    const items = ids.map((runId) => ({ runId, agentId: "a", askedBy: null, at: "", messages: [] }));
    this.#reads.shift()!({ threadId: "t", epoch: "e", version, held: null, items });
    await settled();
  }

  /** Answers the question what became of a turn. */
  async record(runId: string, record: Partial<Run> | Error): Promise<void> {
    await until("the question", () => this.#records.has(runId));
    const answer = this.#records.get(runId)!;
    this.#records.delete(runId);
    answer(
      record instanceof Error ? record : ({ runId, status: "running", endedAt: null, firstSeq: 5, ...record } as Run),
    );
    await settled();
  }

  isAskedFor(runId: string): boolean {
    return this.#records.has(runId);
  }

  /** Begins another replay. */
  again(): void {
    this.#current.abort();
    this.#current = new AbortController();
  }
}

/** Resolves when all that follows from a response has happened. */
const settled = () => new Promise(setImmediate);
const missing = new ProblemError({ type: "/problems/run-not-found" }, 404);

async function holding(...ids: string[]): Promise<Told> {
  const told = new Told();
  told.hears(1, ids.length);
  await told.answers(1, ...ids);
  expect(told.shown).toEqual(ids);
  return told;
}

test("a turn stays until its run is in the log", async () => {
  const told = await holding("a", "b");
  told.hears(2, 1);
  await told.answers(2, "b");
  expect(told.shown).toEqual(["a", "b"]);
  await told.record("a", {});
  expect(told.shown).toEqual(["a begins", "b"]);
  expect(told.begun).toEqual(["a"]);
  told.queue.logged("a");
  expect(told.shown).toEqual(["b"]);
});

test("a turn leaves when its run is in the log, whatever arrives first", async () => {
  const told = await holding("a", "b");
  told.queue.logged("a");
  expect(told.shown).toEqual(["b"]);
  // A read from before the beginning does not bring it back.
  void told.queue.load();
  await told.answers(1, "a", "b");
  expect(told.shown).toEqual(["b"]);
  told.hears(2, 1);
  await told.answers(2, "b");
  expect(told.shown).toEqual(["b"]);

  // The log is ahead of the answer.
  told.hears(3, 0);
  told.cursor = 9;
  await told.record("b", { firstSeq: 7 });
  expect([told.shown, told.begun]).toEqual([[], []]);
});

test("a turn that was removed, or whose run has ended without events, leaves", async () => {
  const told = await holding("a", "b");
  told.hears(2, 0);
  expect(told.reads).toBe(0);
  expect(told.shown).toEqual(["a", "b"]);
  await told.record("a", missing);
  expect(told.shown).toEqual(["b"]);
  await told.record("b", {});
  expect(told.shown).toEqual(["b begins"]);
  told.queue.hearThread({ queued: 0, held: null, activeRun: null } as Thread, true);
  await told.record("b", { status: "abandoned", endedAt: "now" });
  expect(told.shown).toEqual([]);
});

test("a turn that the user removes leaves at once", async () => {
  const told = await holding("a", "b");
  told.hears(2, 1);
  await told.queue.remove("a");
  expect(told.shown).toEqual(["b"]);
  await told.answers(2, "b");
  expect(told.shown).toEqual(["b"]);
  expect(told.isAskedFor("a")).toBe(false);
});

test("changes during a read are read once, and an earlier version is ignored", async () => {
  const told = await holding("a");
  for (const version of [2, 3, 4]) told.hears(version, version);
  expect(told.reads).toBe(1);
  await told.answers(2, "a", "b");
  await told.answers(4, "a", "b", "c", "d");
  expect(told.reads).toBe(0);
  told.hears(3, 3);
  expect([told.reads, told.shown]).toEqual([0, ["a", "b", "c", "d"]]);
  // The queue of another log counts from the beginning.
  told.hears(1, 1, "f");
  expect(told.reads).toBe(1);
});

test("the record of the thread is enough where no state of the queue arrives", async () => {
  const told = new Told();
  const thread = (queued: number) => ({ queued, held: null, activeRun: null }) as unknown as Thread;
  told.queue.hearThread(thread(0), false);
  expect(told.reads).toBe(0);
  told.queue.hearThread(thread(1), false);
  await told.answers(1, "a");
  told.queue.hearThread(thread(1), true);
  expect(told.reads).toBe(0);
  // An edit changes neither number nor hold.
  told.queue.hearThread(thread(1), false);
  await told.answers(2, "a");
});

test("a read of an earlier replay changes nothing", async () => {
  const told = await holding("a");
  told.hears(2, 2);
  told.again();
  told.queue.reset();
  await told.answers(2, "a", "b");
  expect(told.shown).toEqual([]);
  void told.queue.load();
  await told.answers(2, "a", "b");
  expect(told.shown).toEqual(["a", "b"]);
});
