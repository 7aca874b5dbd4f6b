// Tests when branches are read, regardless of the order in which the feed, records and responses arrive.

import { expect, test } from "vitest";
import type { FeedEntry, Message, Thread, ThreadRef } from "../../src/index.js";
import { LiveBranches } from "../../src/react/branches.js";
import { until } from "../harness/until.js";

function branch(threadId: string, more: Partial<Thread> = {}): Thread {
  return {
    threadId,
    epoch: `epoch of ${threadId}`,
    branched: true,
    listed: false,
    forkedFrom: null,
    ...more,
  } as Thread;
}
const fork = (threadId: string, seq: number, more: Partial<Thread> = {}) =>
  branch(threadId, { forkedFrom: { threadId: "t", epoch: "epoch of t", seq }, ...more });
const message = (id: string): Message => ({ id, role: "user", content: "" });

// Loaded on demand, which these tests do not wait for.
import "../../src/react/partings.js";

/** Branches of the thread `t`, whose responses are controlled by the test. */
class Told {
  readonly branches: LiveBranches;
  readonly own: Pick<Thread, "branched" | "listed">[] = [];
  /** Seqs as of which messages were requested. */
  readonly asked: number[] = [];
  #reads: ((branches: readonly Thread[]) => void)[] = [];
  #current = new AbortController();

  constructor() {
    const ref = {
      threadId: "t",
      branches: () => new Promise<readonly Thread[]>((resolve) => this.#reads.push(resolve)),
      messages: async ({ at }: { at: number }) => {
        this.asked.push(at);
        return { messages: [message(`m${at}`)] };
      },
    } as unknown as ThreadRef;
    this.branches = new LiveBranches(ref, {
      signal: () => this.#current.signal,
      onChange: () => {},
      act: (task) => task(),
      fork: () => expect.unreachable(),
      onThread: (own) => this.own.push(own),
    });
  }

  get reads(): number {
    return this.#reads.length;
  }

  get shown(): string[] {
    return this.branches.all.map(({ threadId }) => threadId);
  }

  /** The messages at which branches part. */
  partings(...ids: string[]): (string | null)[] {
    return this.branches.partings(ids.map(message), false).map(({ messageId }) => messageId);
  }

  /** Reports a change in the feed; without a record the thread is not listed any more. */
  hears(threadId: string, thread: Thread | null): void {
    this.branches.hear({ cursor: 1, type: thread ? "upsert" : "delete", threadId, thread } as FeedEntry);
  }

  /** Answers the oldest read. */
  async answers(...branches: Thread[]): Promise<void> {
    await until("a read", () => this.reads > 0);
    this.#reads.shift()!(branches);
    await new Promise(setImmediate);
  }

  /** Begins another replay. */
  again(): void {
    this.#current.abort();
    this.#current = new AbortController();
  }
}

test("branches are read once, for a thread that has any", async () => {
  const told = new Told();
  told.branches.hearThread(branch("t", { branched: false, listed: true }));
  expect(told.reads).toBe(0);
  told.branches.hearThread(branch("t", { listed: true }));
  await told.answers(branch("t", { listed: true }), fork("a", 5));
  expect(told.shown).toEqual(["t", "a"]);
  // A run of the thread changes nothing about its branches.
  told.branches.hearThread(branch("t", { listed: true, tail: 9 }));
  told.hears("other", branch("other", { branched: false }));
  told.hears("foreign", branch("foreign", { forkedFrom: { threadId: "other", epoch: "e", seq: 1 } }));
  expect([told.reads, told.branches.all[0]?.tail]).toEqual([0, 9]);
});

test("branches are read again for a fork, a choice or a deletion, once for all that is heard meanwhile", async () => {
  const told = new Told();
  told.branches.hearThread(branch("t", { listed: true }));
  await told.answers(branch("t", { listed: true }), fork("a", 5));
  // The feed reports a choice as a deletion of the one and a change of the other.
  told.hears("t", null);
  told.hears("b", fork("b", 7, { listed: true }));
  expect(told.reads).toBe(1);
  await told.answers(branch("t"), fork("a", 5), fork("b", 7, { listed: true }));
  await told.answers(branch("t"), fork("a", 5), fork("b", 7, { listed: true }));
  expect([told.shown, told.own.at(-1)]).toEqual([["t", "a", "b"], { branched: true, listed: false }]);
  told.hears("b", null);
  await told.answers(branch("t", { listed: true }));
  expect([told.shown, told.reads]).toEqual([[], 0]);
});

test("a place is asked for its message once, and shown when that is known", async () => {
  const told = new Told();
  told.branches.load();
  await told.answers(branch("t"), fork("a", 5), fork("b", 5), fork("c", 0));
  expect(told.asked).toEqual([5]);
  expect(told.partings("m4", "m5", "m6")).toEqual(["m4", "m6"]);
  const partings = told.branches.partings([], false);
  expect(told.branches.partings([], false)).toBe(partings);
  told.branches.load();
  await told.answers(branch("t"), fork("a", 5), fork("c", 0));
  expect(told.asked).toEqual([5]);
});

test("a read of an earlier replay changes nothing", async () => {
  const told = new Told();
  told.branches.load();
  told.again();
  told.branches.reset();
  await told.answers(branch("t"), fork("a", 5));
  expect(told.shown).toEqual([]);
  told.branches.hearThread(branch("t"));
  await told.answers(branch("t"), fork("a", 5));
  expect(told.shown).toEqual(["t", "a"]);
});
