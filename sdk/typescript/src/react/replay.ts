import { backoff, sleep } from "../backoff.js";
import type { Followed } from "../connection/subscription.js";
import { Conversation } from "../conversation/index.js";
import { isForeign, type ThreadlineError } from "../errors.js";
import { MESSAGES_PAGE } from "../limits.js";
import { restingSeq } from "../log.js";
import type { ThreadRef } from "../threads.js";
import type { EventBatch, Message, Run, Thread } from "../types.js";

/** The newest run of a thread, as far as a page has seen it. */
export interface ThreadRun {
  readonly runId: string;
  readonly agentId: string | null;
  /** `stopping`: it was asked to stop, and has not ended yet. */
  readonly status: "running" | "stopping" | "finished" | "error";
  /** Why it ended badly. */
  readonly error: { readonly code: string | null; readonly message: string } | null;
}

/** A page waits as long as somebody looks at it; what it waits for shows in its status. */
export const FOR_EVER = { retryFor: Number.POSITIVE_INFINITY };

/**
 * Reads until Threadline itself answers. An answer of something in between goes to `onForeign`, and the read is repeated with
 * back-off; a refusal by Threadline is thrown. Rejects with the signal's reason when that is aborted.
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
  readonly onChange: () => void;
  /** Everything there was has been replayed; what follows is live. */
  readonly onCaughtUp: () => void;
  readonly onDeleted: () => void;
  /** It is over: the log was replaced, or this page may not read it any more. */
  readonly onError: (error: ThreadlineError) => void;
}

/**
 * One replay of a thread: what the server shows of it between two runs, and the events after that, replayed and then live. Once it
 * is closed nothing of it has any effect.
 */
export class Replay {
  readonly thread: Thread;
  /** What the server shows stands after this event. */
  readonly at: number;
  readonly conversation: Conversation;
  hasMore: boolean;
  run: ThreadRun | null = null;
  readonly #ref: ThreadRef;
  /** Seq of the first event of the newest run that is known; no run before it can be the one to be shown. */
  #newest: number;
  #followed: Followed | undefined;
  /** Up to where the server knows, and is to know, that it was read. */
  #marked = 0;
  #read = 0;
  #marking: Promise<void> | undefined;

  /** Loads what a thread begins with: the newest messages, or `all` of them. */
  static async load(ref: ThreadRef, all: boolean, signal: AbortSignal): Promise<Replay> {
    const thread = await ref.get({ signal, ...FOR_EVER });
    // Where no run is under way: streams of chunks are never cut in the middle.
    const at = restingSeq(thread);
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

  private constructor(ref: ThreadRef, thread: Thread, at: number, conversation: Conversation, hasMore: boolean) {
    this.#ref = ref;
    this.thread = thread;
    this.at = at;
    this.conversation = conversation;
    this.hasMore = hasMore;
    this.#newest = at + 1;
    if (thread.activeRun) this.began(thread.activeRun);
  }

  /** Seq of the newest event that is in it. */
  get cursor(): number {
    return this.#followed?.cursor ?? this.at;
  }

  /** Begins to replay, until the signal is aborted. */
  follow(listener: ReplayListener, signal: AbortSignal): void {
    this.#followed = this.#ref.follow({
      after: this.at,
      epoch: this.thread.epoch,
      signal,
      onItem: (item) => {
        if (item.type === "events") {
          for (const batch of item.batches) this.#take(batch);
          listener.onChange();
        } else if (item.type === "caughtUp") {
          listener.onCaughtUp();
        } else if (item.type === "ended") {
          listener.onDeleted();
        }
      },
      onError: listener.onError,
    });
  }

  /** A run is active, by what the server says of it, which may be late: the log knows better what it has ended. */
  began(run: Run): void {
    if (this.run?.runId === run.runId ? !isUnderWay(this.run) : run.endedAt !== null || run.firstSeq < this.#newest) {
      return;
    }
    this.#newest = run.firstSeq;
    const status = run.stopRequested ? "stopping" : "running";
    this.run = { runId: run.runId, agentId: run.agentId, status, error: null };
  }

  /** No run is active, by what the server says: one that has said nothing has ended without a word. Others end in the log. */
  vanished(): void {
    if (isUnderWay(this.run) && this.#newest > this.cursor) this.run = null;
  }

  /** Loads older messages. */
  async loadOlder(signal: AbortSignal): Promise<void> {
    const { messages } = this.conversation;
    const where = { at: this.at, epoch: this.thread.epoch, limit: MESSAGES_PAGE, signal };
    const older = await this.#ref.messages({ ...where, ...before(messages) });
    this.conversation.prepend(older.messages, older.hasMore);
    this.hasMore = older.hasMore;
  }

  /**
   * Says that all that is in it was read, if that is more than is `known`. One request at a time: what is read meanwhile goes with the
   * next. Resolves when the last of them was answered, or was not: then there is nothing more to be done until the next call.
   */
  async markRead(known: number, onMarked: (readSeq: number) => void): Promise<void> {
    if (this.cursor <= Math.max(this.#marked, known)) return;
    this.#read = this.cursor;
    const mark = async () => {
      try {
        for (let sent = 0; sent < this.#read;) {
          sent = this.#read;
          const { readSeq } = await this.#ref.markRead(sent);
          this.#marked = readSeq;
          onMarked(readSeq);
        }
      } catch {
        // As it was, then.
      } finally {
        this.#marking = undefined;
      }
    };
    this.#marking ??= mark();
    await this.#marking;
  }

  #take({ seq, runId, events }: EventBatch): void {
    this.conversation.apply(events);
    if (this.run?.runId !== runId) {
      // The feed may be ahead of the log, and know of a later run.
      if (seq < this.#newest) return;
      // Whatever its first event is: that there is one says that the run is active.
      this.#newest = seq;
      this.run = { runId, agentId: null, status: "running", error: null };
    }
    const { agentId } = this.run;
    for (const { type, code, message } of events) {
      if (type === "RUN_FINISHED") {
        this.run = { runId, agentId, status: "finished", error: null };
      } else if (type === "RUN_ERROR") {
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
