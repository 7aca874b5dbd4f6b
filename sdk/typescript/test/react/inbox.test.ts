// Tests what an inbox shows, regardless of whether a response or the feed arrives first.

import { afterEach, expect, test } from "vitest";
import {
  ConfigError,
  ConnectionError,
  type FeedEntry,
  type OpenInterrupt,
  ProblemError,
  type StartOptions,
  type Thread,
  type Threadline,
} from "../../src/index.js";
import type { FeedItem } from "../../src/index.js";
import { Feed } from "../../src/react/feed.js";
import { InboxStore } from "../../src/react/inbox.js";
import { until } from "../harness/until.js";

interface Query {
  readonly cursor?: string;
  readonly agentId?: string;
}

interface Page {
  readonly interrupts: readonly OpenInterrupt[];
  readonly nextCursor: string | null;
}

const YES = [{ interruptId: "i", status: "resolved", payload: true }] as const;

let leave: (() => void) | undefined;
afterEach(() => leave?.());

function open(threadId: string, id = "i", agentId: string | null = "helper"): OpenInterrupt {
  return { threadId, agentId, epoch: `epoch of ${threadId}`, interrupt: { id } } as OpenInterrupt;
}

function refusal(slug: string): ProblemError {
  return new ProblemError({ type: `/problems/${slug}`, title: slug }, 409);
}

/** An inbox whose responses and feed are controlled by the test. */
class Told {
  readonly store: InboxStore;
  readonly asked: Query[] = [];
  readonly started: (StartOptions & { threadId: string })[] = [];
  readonly #pages: ((page: Page | Error) => void)[] = [];
  readonly #starts: ((error?: Error) => void)[] = [];
  #feed: { onItem(item: FeedItem): void; onError?(error: unknown): void } | undefined;
  #cursor = 0;

  constructor(options: { agentId?: string } = {}) {
    const client = {
      interrupts: {
        list: ({ cursor, agentId, signal }: Query & { signal: AbortSignal }) => {
          this.asked.push({ ...(cursor && { cursor }), ...(agentId && { agentId }) });
          return new Promise((resolve, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
            this.#pages.push((page) =>
              page instanceof Error ? reject(page) : resolve({ ...page, feedCursor: 1, feedEpoch: "f" }),
            );
          });
        },
      },
      thread: (threadId: string) => ({
        get: async () => ({ threadId, agentId: threadId === "of nobody" ? null : "of the thread", epoch: "e" }),
        start: (options: StartOptions) => {
          this.started.push({ threadId, ...options });
          return new Promise((resolve, reject) => {
            this.#starts.push((error) => (error ? reject(error) : resolve({ run: { runId: "answer" } })));
          });
        },
      }),
      onStatus: () => () => {},
      status: { state: "live", transport: "websocket" },
      followFeed: (listener: { onItem(item: FeedItem): void; onError?(error: unknown): void }) => {
        this.#feed = listener;
        return { close: () => {} };
      },
    } as unknown as Threadline;
    this.store = new InboxStore(client, new Feed(client), options);
    leave = this.store.subscribe(() => {});
  }

  get now() {
    return this.store.getSnapshot();
  }

  get shown(): string {
    return this.now.interrupts.map(({ threadId, interrupt }) => `${threadId}:${interrupt.id}`).join();
  }

  /** Answers the request for a page. */
  async page(interrupts: readonly OpenInterrupt[] | Error, nextCursor: string | null = null): Promise<void> {
    await until("a request", () => this.#pages.length > 0);
    this.#pages.shift()!(interrupts instanceof Error ? interrupts : { interrupts, nextCursor });
    await settled();
  }

  /** Answers the request for a run. */
  async run(error?: Error): Promise<void> {
    await until("a start", () => this.#starts.length > 0);
    this.#starts.shift()!(error);
    await settled();
  }

  /** Reports a state of a thread over the feed; null if it was deleted. */
  async feed(threadId: string, state: Partial<Thread> | null): Promise<void> {
    this.#cursor += 1;
    const thread = state && ({ threadId, activeRun: null, archived: false, openInterrupts: 0, ...state } as Thread);
    const entry: FeedEntry = { cursor: this.#cursor, type: thread ? "upsert" : "delete", threadId, thread };
    this.#feed!.onItem({ type: "entries", cursor: this.#cursor, entries: [entry] });
    await settled();
  }

  fail(error: Error): void {
    this.#feed!.onError?.(error);
  }

  async expect(shown: string, requests: number): Promise<void> {
    await until(
      shown,
      () => this.shown === shown,
      () => this.shown,
    );
    await settled();
    expect(this.asked).toHaveLength(requests);
  }
}

/** Waits for everything that follows from what has arrived. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

const busy = { activeRun: {} as Thread["activeRun"], openInterrupts: 1 };

test("the feed removes threads without a request, and only threads that wait are read again", async () => {
  const told = new Told();
  await told.page([open("a"), open("b", "1"), open("b", "2"), open("c"), open("d")]);
  await told.expect("a:i,b:1,b:2,c:i,d:i", 1);
  await told.feed("other", {});
  await told.feed("other", busy);
  await told.feed("b", busy);
  await told.feed("c", { openInterrupts: 1, archived: true });
  await told.feed("d", null);
  await told.expect("a:i", 1);
  await told.feed("e", { openInterrupts: 1 });
  await told.page([open("e"), open("a")]);
  await told.expect("e:i,a:i", 2);
});

test("a response brings no thread back that has stopped waiting since the request", async () => {
  const told = new Told();
  await told.page([open("a"), open("b")]);
  await told.feed("c", { openInterrupts: 1 });
  await told.feed("a", busy);
  await told.page([open("c"), open("a"), open("b")]);
  await told.expect("c:i,b:i", 2);
});

test("changes during a request are read by one further request", async () => {
  const told = new Told();
  await told.page([open("a")]);
  for (const threadId of ["b", "c", "d"]) await told.feed(threadId, { openInterrupts: 1 });
  // Thread a stops waiting, and waits again.
  await told.feed("a", busy);
  await told.feed("a", { openInterrupts: 1 });
  await told.page([open("b"), open("a", "old")]);
  await told.page([open("a", "new"), open("d"), open("c"), open("b")]);
  await told.expect("a:new,d:i,c:i,b:i", 3);
});

test("threads of other agents are left out", async () => {
  const told = new Told({ agentId: "helper" });
  await told.page([open("a")]);
  await told.feed("b", { openInterrupts: 1, agentId: "other" });
  await told.feed("a", { openInterrupts: 1, agentId: "other" });
  await told.expect("", 1);
  await told.feed("a", { openInterrupts: 1, agentId: "helper" });
  await told.page([open("a")]);
  await told.expect("a:i", 2);
  expect(told.asked).toEqual([{ agentId: "helper" }, { agentId: "helper" }]);
});

test("further pages are read with those before them, and show a thread once", async () => {
  const told = new Told();
  await told.page([open("a"), open("b")], "next");
  expect(told.now).toMatchObject({ hasMoreInterrupts: true, isFetchingMoreInterrupts: false });
  const more = told.store.fetchMoreInterrupts();
  expect(told.store.fetchMoreInterrupts()).toBe(more);
  await told.page([open("b", "new"), open("a")], "next");
  expect(told.now.isFetchingMoreInterrupts).toBe(true);
  await told.page([open("b", "old"), open("c")]);
  await more;
  await told.expect("b:new,a:i,c:i", 3);
  expect(told.now).toMatchObject({ hasMoreInterrupts: false, isFetchingMoreInterrupts: false });
  expect(told.asked).toEqual([{}, {}, { cursor: "next" }]);
});

test("the place of a thread that leaves is filled from the next page", async () => {
  const told = new Told();
  await told.page([open("a"), open("b")], "next");
  await told.feed("a", busy);
  await told.page([open("b"), open("c")]);
  await told.expect("b:i,c:i", 2);
  await told.feed("b", busy);
  await told.expect("c:i", 2);
});

test("a thread is marked until the inbox shows what came of the answer", async () => {
  const told = new Told();
  await told.page([open("a"), open("b")]);
  const answered = told.store.answer("a", YES);
  // The change is shown with the next frame at the latest.
  await until("the mark", () => told.now.answering.length > 0);
  expect(told.now.answering).toEqual(["a"]);
  // The agent asks something else before the response to the start arrives.
  await told.feed("a", busy);
  await told.feed("a", { openInterrupts: 1 });
  await told.run();
  expect((await answered).run.runId).toBe("answer");
  await told.page([open("a"), open("b")]);
  expect(told.now.answering).toEqual(["a"]);
  await told.page([open("a", "next"), open("b")]);
  await told.expect("a:next,b:i", 3);
  expect(told.now.answering).toEqual([]);
  const [start] = told.started;
  expect(start).toMatchObject({ threadId: "a", agentId: "helper", epoch: "epoch of a", input: { resume: YES } });
});

test("answers go to the agent that asked, to that of the thread, or to the one that is named", async () => {
  const told = new Told();
  await told.page([open("a"), open("of nobody", "i", null)]);
  void told.store.answer("a", YES);
  void told.store.answer("gone", YES);
  void told.store.answer("of nobody", YES, { agentId: "named" });
  for (let n = 0; n < 3; n += 1) await told.run();
  const agents = Object.fromEntries(told.started.map(({ threadId, agentId }) => [threadId, agentId]));
  expect(agents).toEqual({ a: "helper", gone: "of the thread", "of nobody": "named" });
  await expect(told.store.answer("of nobody", YES)).rejects.toBeInstanceOf(ConfigError);
});

test("a refused answer ends its own mark only", async () => {
  const told = new Told();
  await told.page([open("a"), open("b")]);
  const first = told.store.answer("a", YES);
  const again = told.store.answer("a", YES);
  const late = told.store.answer("a", YES);
  const other = told.store.answer("b", YES);
  const refused = refusal("run-active");
  await told.run();
  await Promise.all([told.run(refused), expect(again).rejects.toBe(refused)]);
  expect(told.now).toMatchObject({ answering: ["a", "a", "b"], error: refused });
  await told.page([open("b")]);
  expect(told.now).toMatchObject({ answering: ["b"], error: null });
  await Promise.all([told.run(refused), expect(late).rejects.toBe(refused)]);
  expect(told.now).toMatchObject({ answering: ["b"], error: refused });
  await told.run();
  await told.page([]);
  await Promise.all([first, other]);
  expect(told.now).toMatchObject({ answering: [], interrupts: [] });
});

test("a refusal of the first page is final, a later one leaves what is shown", async () => {
  const told = new Told();
  const forbidden = refusal("forbidden");
  await told.page(forbidden);
  expect(told.now).toMatchObject({ isLoading: false, error: forbidden });
  leave!();
  const later = new Told();
  await later.page([open("a")]);
  await later.feed("b", { openInterrupts: 1 });
  await later.page(forbidden);
  expect(later.now).toMatchObject({ isLoading: false, error: forbidden });
  await later.expect("a:i", 2);
  await later.feed("b", { openInterrupts: 1 });
  await later.page([open("b"), open("a")]);
  await later.expect("b:i,a:i", 3);
  expect(later.now.error).toBeNull();
});

test("a feed that was replaced is read anew, one that has ended shows why", async () => {
  const told = new Told();
  await told.page([open("a")]);
  told.fail(new ProblemError({ type: "/problems/log-replaced" }, 410));
  await told.page([open("b")]);
  await told.expect("b:i", 2);
  const error = new ConnectionError("no more");
  told.fail(error);
  await until("the error", () => told.now.error === error);
  await told.expect("b:i", 2);
});

test("an inbox that nobody shows forgets everything", async () => {
  const told = new Told();
  await told.page([open("a")], "next");
  const more = told.store.fetchMoreInterrupts();
  leave!();
  await settled();
  expect(told.now).toMatchObject({ interrupts: [], isLoading: true, hasMoreInterrupts: false });
  leave = told.store.subscribe(() => {});
  await until("another request", () => told.asked.length === 3);
  // Pages after the first one are not read before it.
  await told.store.fetchMoreInterrupts();
  // The response to the earlier request comes late.
  await told.page([open("old")]);
  await told.page([open("new")], "next");
  await more;
  await told.expect("new:i", 3);
});
