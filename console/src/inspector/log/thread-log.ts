// The inspector's view of a thread's log: its epoch, its tail, the loaded events, the runs, and the thread as of a seq. The log is
// live while a component shows it.

import {
  type EventBatch,
  type Followed,
  isProblem,
  type Thread,
  type ThreadItem,
  type Threadline,
  type ThreadRef,
} from "threadline";
import { Moments } from "../fold.ts";
import { EventPages } from "./pages.ts";
import { RunList } from "./runs.ts";

/** Listeners are notified of live events at most this often, in milliseconds. */
const FRAME_MS = 33;
/** How long a log without subscribers stays open: React unsubscribes and subscribes again. */
const LINGER_MS = 1_000;
/** Logs that are kept for each client. */
const MOST_LOGS = 8;

export interface LogSnapshot {
  readonly state: "loading" | "ready" | "missing" | "deleted" | "failed";
  /** Empty until it is known. */
  readonly epoch: string;
  readonly tail: number;
  /** The thread as it was when it was asked for. */
  readonly thread: Thread | null;
  /** Why it failed; or why events that were wanted could not be read. */
  readonly error: unknown;
  /** How often another log has taken the place of the one that was shown. */
  readonly replaced: number;
}

const BEGIN: LogSnapshot = { state: "loading", epoch: "", tail: 0, thread: null, error: null, replaced: 0 };

export class ThreadLog {
  readonly ref: ThreadRef;
  pages: EventPages;
  runs: RunList;
  moments: Moments;
  readonly #client: Threadline;
  readonly #listeners = new Set<() => void>();
  readonly #onBatches = new Set<(batches: readonly EventBatch[]) => void>();
  #snapshot = BEGIN;
  #over = new AbortController();
  #followed: Followed | undefined;
  #fresh: EventBatch[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #leaving: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;

  constructor(client: Threadline, threadId: string) {
    this.#client = client;
    this.ref = client.thread(threadId);
    [this.pages, this.runs, this.moments] = this.#parts("");
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    clearTimeout(this.#leaving);
    if (!this.#isOpen) this.#begin();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearTimeout(this.#leaving);
      this.#leaving = setTimeout(() => this.#end(), LINGER_MS);
    };
  };

  readonly getSnapshot = (): LogSnapshot => this.#snapshot;

  /** Whether a component shows the log, or did a moment ago. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Calls with what has just been appended, in order and without gaps while the epoch is the same. */
  onBatches(listener: (batches: readonly EventBatch[]) => void): () => void {
    this.#onBatches.add(listener);
    return () => this.#onBatches.delete(listener);
  }

  /** Asks for everything again. */
  readonly again = (): void => {
    if (this.#isOpen) this.#begin();
  };

  /** Tries again what could not be read. */
  readonly retry = (): void => {
    this.#publish({ error: null });
    this.pages.retry();
  };

  #begin(): void {
    this.#stop();
    this.#isOpen = true;
    this.#over = new AbortController();
    const { replaced } = this.#snapshot;
    this.#publish({ ...BEGIN, replaced });
    void this.#load(this.#over.signal);
  }

  async #load(signal: AbortSignal): Promise<void> {
    let thread: Thread;
    try {
      thread = await this.ref.get({ signal });
    } catch (error) {
      if (signal.aborted) return;
      return this.#publish({ state: isProblem(error, "thread-not-found") ? "missing" : "failed", error });
    }
    if (signal.aborted) return;
    const { epoch, tail } = thread;
    [this.pages, this.runs, this.moments] = this.#parts(epoch);
    this.pages.tail = tail;
    this.#publish({ state: "ready", epoch, tail, thread, error: null });
    void this.runs.open();
    this.#followed = this.ref.follow({
      after: tail,
      epoch,
      signal,
      onItem: (item) => this.#take(item),
      onError: (error) => {
        if (isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead")) return this.#replace();
        this.#stop();
        this.#publish({ state: isProblem(error, "thread-not-found") ? "deleted" : "failed", error });
      },
    });
  }

  #parts(epoch: string): [EventPages, RunList, Moments] {
    const { ref } = this;
    const pages = new EventPages(
      (after, limit, signal) => ref.events({ after, limit, epoch, signal }),
      (error) => this.#refused(error),
    );
    return [pages, new RunList(ref), new Moments(ref, epoch)];
  }

  #refused(error: unknown): void {
    if (isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead")) this.#replace();
    else this.#publish({ error });
  }

  #replace(): void {
    this.#publish({ replaced: this.#snapshot.replaced + 1 });
    this.#begin();
  }

  #take(item: ThreadItem): void {
    if (item.type === "ended") {
      this.#flush();
      this.#stop();
      return this.#publish({ state: "deleted" });
    }
    // The pages that are loaded later belong to another epoch.
    if (item.type === "rebased") return this.#begin();
    if (item.type !== "events") return;
    for (const batch of item.batches) this.pages.append(batch);
    this.#fresh.push(...item.batches);
    this.#timer ??= setTimeout(() => this.#flush(), FRAME_MS);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const fresh = this.#fresh;
    if (fresh.length === 0) return;
    this.#fresh = [];
    this.#publish({ tail: this.pages.tail });
    this.pages.changed();
    for (const listener of this.#onBatches) listener(fresh);
    if (fresh.some(({ events }) => events.some(({ type }) => RUN_EDGES.has(type)))) void this.runs.refresh();
  }

  #stop(): void {
    this.#over.abort();
    this.#followed?.close();
    this.#followed = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#fresh = [];
    this.pages.close();
    this.runs.close();
  }

  #end(): void {
    this.#stop();
    this.#isOpen = false;
    this.#snapshot = BEGIN;
    forget(this.#client, this);
  }

  #publish(change: Partial<LogSnapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...change };
    for (const listener of this.#listeners) listener();
  }
}

const RUN_EDGES = new Set(["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"]);

const logs = new WeakMap<Threadline, Map<string, ThreadLog>>();

/** The log of a thread: one for all components that show it. */
export function logOf(client: Threadline, threadId: string): ThreadLog {
  let all = logs.get(client);
  if (!all) logs.set(client, (all = new Map()));
  let log = all.get(threadId);
  if (log) return log;
  // A log that was rendered and never shown.
  for (const [id, each] of all) {
    if (all.size < MOST_LOGS) break;
    if (!each.isOpen) all.delete(id);
  }
  log = new ThreadLog(client, threadId);
  all.set(threadId, log);
  return log;
}

function forget(client: Threadline, log: ThreadLog): void {
  const all = logs.get(client);
  if (all?.get(log.ref.threadId) === log) all.delete(log.ref.threadId);
}
