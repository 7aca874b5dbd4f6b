import { backoff, sleep } from "../backoff.js";
import type { Followed } from "../connection/subscription.js";
import { Conversation } from "../conversation/index.js";
import { isForeign, type ThreadlineError } from "../errors.js";
import { MESSAGES_PAGE } from "../limits.js";
import { restingSeq } from "../log.js";
import type { ThreadRef } from "../threads.js";
import type { EventBatch, LastRun, Message, QueueState, Run, Thread } from "../types.js";
import type { Seed } from "./seed.js";

/** The newest run of a thread, as far as the page has received it. */
export interface ThreadRun {
  readonly runId: string;
  readonly agentId: string | null;
  /** `stopping`: a stop was requested, and the run has not ended yet. `stopped`: it has finished after that. */
  readonly status: "running" | "stopping" | "finished" | "stopped" | "error";
  /** Why the run failed. */
  readonly error: { readonly code: string | null; readonly message: string } | null;
}

/** Reads of a mounted component are retried forever; the status shows why. */
export const FOR_EVER = { retryFor: Number.POSITIVE_INFINITY };

/**
 * Repeats a read until Threadline itself responds. A response of an intermediary is passed to `onForeign`, and the read is
 * repeated with back-off; a refusal by Threadline is thrown. Rejects with the signal's reason when the signal is aborted.
 */
export async function patiently<T>(
  read: () => Promise<T>,
  signal: AbortSignal,
  onForeign: (error: ThreadlineError) => void = () => {},
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await read();
    } catch (error) {
      if (signal.aborted || !isForeign(error)) throw error;
      onForeign(error);
      await sleep(backoff(failures, Math.random(), error.retryAfterMs), signal);
    }
  }
}

export function isUnderWay(run: ThreadRun | null): run is ThreadRun {
  return run !== null && (run.status === "running" || run.status === "stopping");
}

export interface ReplayListener {
  /** Events were applied; `onChange` follows. */
  readonly onEvents: (batches: readonly EventBatch[]) => void;
  readonly onChange: () => void;
  /** All stored events have been replayed; the following ones are live. */
  readonly onCaughtUp: () => void;
  /** The following events belong to another epoch; those before are in both. */
  readonly onRebased: () => void;
  readonly onQueue: (state: QueueState) => void;
  readonly onDeleted: () => void;
  /** The replay has ended: the log was replaced, or this page may not read it any more. */
  readonly onError: (error: ThreadlineError) => void;
}

/**
 * One replay of a thread: the server's messages and state at a point between two runs, and the events after it, stored and
 * then live. A closed replay has no further effect.
 */
export class Replay {
  readonly thread: Thread;
  /** Seq of the event that the server's messages and state include. */
  readonly at: number;
  readonly conversation: Conversation;
  hasMore: boolean;
  run: ThreadRun | null = null;
  /** Id of the newest run with events in the log. */
  logged: string | undefined;
  readonly #ref: ThreadRef;
  /** Seq after which events are followed. */
  #after: number;
  /** Seq of the first event of the newest known run. An earlier run is never shown. */
  #newest: number;
  /** Start of that run, if the server has reported it. */
  #startedAt = "";
  #followed: Followed | undefined;
  /** Read markers: the one that the server has, and the one to send next. */
  #marked = 0;
  #read = 0;
  #marking: Promise<void> | undefined;

  /**
   * Loads the start of a replay: the newest messages, or `all` of them. `start` returns the seq, at which no run was active,
   * so that no stream of chunks is cut in the middle.
   */
  static async load(
    ref: ThreadRef,
    all: boolean,
    signal: AbortSignal,
    start: (thread: Thread) => number = restingSeq,
  ): Promise<Replay> {
    const thread = await ref.get({ signal, ...FOR_EVER });
    const at = start(thread);
    if (at === 0) return new Replay(ref, thread, at, new Conversation(), false);
    const where = { at, epoch: thread.epoch, signal, ...FOR_EVER };
    const [page, { state }] = await Promise.all([ref.messages({ ...where, limit: MESSAGES_PAGE }), ref.state(where)]);
    let { messages, hasMore } = page;
    while (all && hasMore) {
      const older = await ref.messages({ ...where, ...before(messages) });
      messages = [...older.messages, ...messages];
      hasMore = older.hasMore;
    }
    const { interrupts } = page;
    return new Replay(ref, thread, at, new Conversation({ messages, hasMore, state, interrupts }), hasMore);
  }

  /** The replay that continues after what the server has rendered. */
  static from(ref: ThreadRef, { thread, at, seq, batches, hasMore, ...start }: Seed): Replay {
    const replay = new Replay(ref, thread, at, new Conversation({ ...start, hasMore }), hasMore);
    for (const batch of batches) replay.#take(batch);
    replay.#after = seq;
    return replay;
  }

  private constructor(ref: ThreadRef, thread: Thread, at: number, conversation: Conversation, hasMore: boolean) {
    this.#ref = ref;
    this.thread = thread;
    this.at = at;
    this.conversation = conversation;
    this.hasMore = hasMore;
    this.#after = at;
    this.#newest = at + 1;
    if (thread.activeRun) this.began(thread.activeRun);
  }

  /** Seq of the newest event included. */
  get cursor(): number {
    return this.#followed?.cursor ?? this.#after;
  }

  /** The epoch of the newest event included. */
  get epoch(): string {
    return this.#followed?.epoch ?? this.thread.epoch;
  }

  /** Starts the replay, which ends when the signal is aborted. */
  follow(listener: ReplayListener, signal: AbortSignal): void {
    this.#followed = this.#ref.follow({
      after: this.#after,
      epoch: this.thread.epoch,
      signal,
      onItem: (item) => {
        if (item.type === "events") {
          for (const batch of item.batches) this.#take(batch);
          listener.onEvents(item.batches);
          listener.onChange();
        } else if (item.type === "caughtUp") {
          listener.onCaughtUp();
        } else if (item.type === "queue") {
          listener.onQueue(item);
        } else if (item.type === "rebased") {
          listener.onRebased();
        } else if (item.type === "ended") {
          listener.onDeleted();
        }
      },
      onError: listener.onError,
    });
  }

  /** Handles the server's report of an active run. The report may be late: the log knows better whether the run has ended. */
  began(run: Run): void {
    if (this.run?.runId === run.runId ? !isUnderWay(this.run) : run.endedAt !== null || run.firstSeq < this.#newest) {
      return;
    }
    this.#newest = run.firstSeq;
    this.#startedAt = run.startedAt;
    const status = run.stopRequested ? "stopping" : "running";
    this.run = { runId: run.runId, agentId: run.agentId, status, error: null };
  }

  /**
   * Handles the server's report that no run is active. A run without events has ended without a terminal event; others end
   * in the log. A report from before the run says nothing about it.
   */
  vanished({ lastRunAt }: Thread): void {
    if (!isUnderWay(this.run) || this.#newest <= this.cursor) return;
    if (lastRunAt !== null && lastRunAt >= this.#startedAt) this.run = null;
  }

  /** Handles the server's report how the newest run has ended: the log alone does not tell of stops by others. */
  ended({ runId, status }: LastRun): void {
    const { run } = this;
    if (run?.runId !== runId || (run.status !== "finished" && run.status !== "stopped")) return;
    if (status === "finished" || status === "stopped") this.run = { ...run, status };
  }

  /** Loads older messages. */
  async loadOlder(signal: AbortSignal): Promise<void> {
    const { messages } = this.conversation;
    const where = { at: this.at, epoch: this.epoch, limit: MESSAGES_PAGE, signal };
    const older = await this.#ref.messages({ ...where, ...before(messages) });
    this.conversation.prepend(older.messages, older.hasMore);
    this.hasMore = older.hasMore;
  }

  /**
   * Marks everything received so far as read, if that is more than `known`. Only one request is in flight: events received
   * meanwhile are marked with the next one. Resolves to the marker that the server has, when the last request has succeeded or
   * failed; a failure is retried by the next call.
   */
  async markRead(known: number, onMarked: (readSeq: number) => void): Promise<number> {
    if (this.cursor <= Math.max(this.#marked, known)) return Math.max(this.#marked, known);
    this.#read = this.cursor;
    const mark = async () => {
      try {
        for (let sent = 0; sent < this.#read;) {
          sent = this.#read;
          const { readSeq } = await this.#ref.markRead(sent, { epoch: this.epoch });
          this.#marked = readSeq;
          onMarked(readSeq);
        }
      } catch {
        // A failed request leaves the marker unchanged.
      } finally {
        this.#marking = undefined;
      }
    };
    this.#marking ??= mark();
    await this.#marking;
    return this.#marked;
  }

  #take({ seq, runId, events }: Seed["batches"][number]): void {
    this.conversation.apply(events);
    this.logged = runId;
    if (this.run?.runId !== runId) {
      // The feed may be ahead of the log, and report a later run.
      if (seq < this.#newest) return;
      // Any first event of the run shows that it is active.
      this.#newest = seq;
      this.run = { runId, agentId: null, status: "running", error: null };
    }
    const { agentId } = this.run;
    for (const event of events) {
      if (event.type === "RUN_FINISHED") {
        // The server judges the same way: a stop was requested before.
        const status: ThreadRun["status"] = /stop/.test(this.run.status) ? "stopped" : "finished";
        this.run = { runId, agentId, status, error: null };
      } else if (event.type === "RUN_ERROR") {
        const { code, message } = event;
        const error = {
          code: typeof code === "string" ? code : null,
          message: typeof message === "string" ? message : "",
        };
        this.run = { runId, agentId, status: "error", error };
      }
    }
  }
}

function before(messages: readonly Message[]): { before?: string } {
  const [first] = messages;
  return first ? { before: first.id } : {};
}
