// A reader's cursor moving over a thread's frames: which events to deliver, which to skip, and when the stream is
// inconsistent. Pure, and kept across connections.
//
//   request ──► (waits for its hello) ──hello──► (open) ──events: seq == cursor + 1──► delivered, cursor += 1
//                     │                            │      seq <= cursor ────────────► skipped
//               all else ignored                   │      seq >  cursor + 1 ────────► out of step: connect again
//                                                  ├──rebased──► the cursor continues under another epoch
//                                                  └──ended──► done

import { ConnectionError, ProblemError, ProtocolError, type ThreadlineError } from "../errors.js";
import type { EventBatch, QueueState } from "../types.js";
import type { FrameOf, ServerFrame, SubscribeRequest } from "./frames.js";

/** Items of a followed thread. */
export type ThreadItem =
  /** Connected to the log `epoch`, whose newest event is `tail`. Repeated after every reconnect. */
  | { readonly type: "hello"; readonly epoch: string; readonly tail: number }
  /** The next events: dense over the whole lifetime of a subscription, without gaps or duplicates. */
  | { readonly type: "events"; readonly batches: readonly EventBatch[] }
  /** All events up to `seq` were delivered; the following ones are live. */
  | { readonly type: "caughtUp"; readonly seq: number }
  /** No longer live: the following events are read from history. No event is lost. */
  | { readonly type: "fellBehind"; readonly seq: number }
  /**
   * The server has lost events, but none that this subscription has delivered: the following ones belong to the log
   * `epoch`. Whoever stores the cursor stores this epoch with it.
   */
  | { readonly type: "rebased"; readonly from: string; readonly epoch: string; readonly after: number }
  /**
   * The queue of the thread has changed, or has turns or is held when the reader has caught up: `ThreadRef.queue` returns the turns.
   * Only over sockets and event streams, and without `runId`. After a reconnect an empty queue is not reported.
   */
  | ({ readonly type: "queue" } & QueueState)
  /** The connection was lost; the next attempt follows after `waitMs`. */
  | { readonly type: "reconnecting"; readonly waitMs: number; readonly error: ThreadlineError }
  /** The last item: the run to which the subscription was limited has ended, or the thread was deleted. */
  | { readonly type: "ended"; readonly reason: "run-ended" | "thread-deleted" };

/** The result of a frame. */
export interface Taken<Item> {
  /** Items to deliver, even if there is an error. */
  readonly items: readonly Item[];
  /** True if the frame made progress, which resets the count of failures. */
  readonly progress?: boolean;
  /** True if nothing more will come. */
  readonly done?: boolean;
  /** A final refusal if it is not retryable; otherwise a new connection is required. */
  readonly error?: ThreadlineError;
}

/** A cursor that frames move. */
export interface Cursor<Item> {
  /** The thread; undefined for the feed. Subscriptions with the same key cannot share a socket. */
  readonly key: string | undefined;
  /** The position of the last delivered item. */
  readonly at: number;
  readonly epoch: string | undefined;
  /** Starts again from the cursor: frames before the response to this request are ignored. */
  request(id: string): SubscribeRequest;
  take(frame: ServerFrame): Taken<Item>;
}

export interface FollowOptions {
  /** The cursor: seq of the last event seen; 0, the default, for all events. */
  readonly after?: number;
  /** The epoch of the cursor. Required if the cursor is above 0. */
  readonly epoch?: string;
  /** Follows only this run, and ends with it. */
  readonly runId?: string;
}

/** The result of a frame that is ignored. */
export const NOTHING: Taken<never> = { items: [] };

export class Follow implements Cursor<ThreadItem> {
  readonly key: string;
  at: number;
  epoch: string | undefined;
  readonly #runId: string | undefined;
  #request = "";
  /** True once the hello of this request has arrived. */
  #open = false;
  /** True once the start of a subscription limited to a run is known: from there on its events are dense, too. */
  #placed: boolean;

  constructor(threadId: string, { after = 0, epoch, runId }: FollowOptions = {}) {
    this.key = threadId;
    this.at = after;
    this.epoch = epoch;
    this.#runId = runId;
    this.#placed = runId === undefined;
  }

  request(id: string): SubscribeRequest {
    this.#request = id;
    this.#open = false;
    return { id, threadId: this.key, after: this.at, epoch: this.epoch, runId: this.#runId };
  }

  take(frame: ServerFrame): Taken<ThreadItem> {
    if (frame.name === "error") return refusal(frame);
    if (frame.name === "hello") return frame.id === this.#request ? this.#hello(frame) : NOTHING;
    if (!this.#open) return NOTHING;
    switch (frame.name) {
      case "events":
        return this.#events(frame);
      case "caughtUp":
        return this.#reaches(frame.body.seq) ?? { items: [{ type: "caughtUp", seq: this.at }] };
      case "fellBehind":
        return { items: [{ type: "fellBehind", seq: this.at }] };
      case "rebased":
        return this.#rebased(frame);
      case "queue": {
        const { epoch, version, queued, held } = frame.body;
        return epoch === this.epoch ? { items: [{ type: "queue", epoch, version, queued, held }] } : NOTHING;
      }
      case "ended": {
        const { reason, seq } = frame.body;
        // The response to an unsubscribe belongs to an earlier request.
        if (reason === "unsubscribed") return NOTHING;
        if (reason === "log-replaced" || reason === "log-damaged") return { items: [], error: lost(frame) };
        const missing = reason === "run-ended" && this.#reaches(seq ?? 0);
        return missing || { items: [{ type: "ended", reason }], done: true };
      }
      default:
        return NOTHING;
    }
  }

  #hello({ body: { epoch, tail, after } }: FrameOf<"hello">): Taken<ThreadItem> {
    if (this.epoch !== undefined && this.epoch !== epoch) {
      const error = new ProtocolError(`the server sent log ${epoch} instead of ${this.epoch}`);
      return { items: [], error };
    }
    this.epoch = epoch;
    this.#open = true;
    if (!this.#placed) {
      // Skips the events of other runs, up to the first event of this one.
      this.at = Math.max(this.at, after);
      this.#placed = true;
    }
    return { items: [{ type: "hello", epoch, tail }] };
  }

  #events({ body: { epoch, batches } }: FrameOf<"events">): Taken<ThreadItem> {
    if (epoch !== this.epoch) return outOfStep(`events of another log (${epoch}) arrived`);
    const fresh: EventBatch[] = [];
    let error: ThreadlineError | undefined;
    for (const batch of batches) {
      const seen = this.at + 1 - batch.seq;
      if (seen < 0) {
        ({ error } = outOfStep(`seq ${batch.seq} arrived after seq ${this.at}`));
        break;
      }
      if (seen >= batch.events.length) continue;
      fresh.push(seen === 0 ? batch : { ...batch, seq: this.at + 1, events: batch.events.slice(seen) });
      this.at = batch.seq + batch.events.length - 1;
    }
    return {
      items: fresh.length > 0 ? [{ type: "events", batches: fresh }] : [],
      progress: fresh.length > 0,
      ...(error && { error }),
    };
  }

  #rebased({ body: { from, epoch, after } }: FrameOf<"rebased">): Taken<ThreadItem> {
    if (from !== this.epoch) return outOfStep("rebased");
    this.epoch = epoch;
    return this.#reaches(after) ?? { items: [{ type: "rebased", from, epoch, after: this.at }] };
  }

  /** Checks the server's statement that everything up to `seq` was sent. */
  #reaches(seq: number): Taken<never> | undefined {
    return seq > this.at ? outOfStep(`seq ${seq} was sent, ${this.at} arrived`) : undefined;
  }
}

/** A refused request. */
export function refusal({ body }: FrameOf<"error">): Taken<never> {
  return { items: [], error: new ProblemError(body, body.status ?? 0) };
}

/** The same error as for a request with this cursor: the end of a subscription and a refusal are handled alike. */
function lost({ body: { reason, ...facts } }: FrameOf<"ended">): ProblemError {
  const problem = { ...facts, type: `/problems/${reason}`, title: reason.replace("-", " ") };
  return new ProblemError(problem, reason === "log-damaged" ? 500 : 410);
}

function outOfStep(why: string): Taken<never> {
  return { items: [], error: new ConnectionError(`events are out of step: ${why}`) };
}
