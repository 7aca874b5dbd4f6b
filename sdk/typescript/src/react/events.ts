import { restingSeq } from "../log.js";
import { guarded } from "../platform.js";
import type { EventBatch, Thread, ThreadEvent } from "../types.js";

/** Place of an event in the log. */
export interface EventPlace {
  readonly seq: number;
  readonly runId: string;
  /** Time of the commit. */
  readonly at: string;
}

export type EventListener = (event: ThreadEvent, place: EventPlace) => void;

/**
 * The events that are appended while a page shows a thread, each reported once: also those that are read again because the
 * thread is loaded again, or arrive late because the connection was lost.
 */
export class LiveEvents {
  readonly #listeners = new Set<EventListener>();
  /** Seq of the newest event that was reported, or was there before; undefined until all stored events are known. */
  #heard: number | undefined;
  /** Seq up to `#heard` at which no run was active. */
  #resting = 0;
  /** The epoch of both; undefined if the thread did not exist. */
  #epoch: string | undefined;

  /** Calls a listener with every event that is appended from now on; returns a function that removes it. */
  listen(listener: EventListener): () => void {
    const own: EventListener = (event, place) => listener(event, place);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  /** The seq from which a replay has to start, so that no event is left out. Of a fork that the page has begun all own events are new. */
  start(thread: Thread, isFork = false): number {
    const resting = restingSeq(thread);
    if (isFork && this.#heard === undefined && thread.forkedFrom) {
      this.#heard = this.#resting = thread.forkedFrom.seq;
      this.#epoch = thread.epoch;
    }
    const isOther = this.#epoch !== undefined && this.#epoch !== thread.epoch;
    if (this.#heard === undefined || isOther || this.#listeners.size === 0) {
      this.reset();
      return resting;
    }
    return Math.min(resting, this.#resting);
  }

  hear(batches: readonly EventBatch[], epoch: string): void {
    if (this.#heard === undefined) return;
    this.#epoch = epoch;
    for (const { seq: first, runId, at, events } of batches) {
      for (const [index, event] of events.entries()) {
        const seq = first + index;
        if (seq <= this.#heard) continue;
        this.#heard = seq;
        for (const listener of [...this.#listeners]) guarded(() => listener(event, { seq, runId, at }));
      }
    }
  }

  caughtUp({ at, cursor, epoch }: { readonly at: number; readonly cursor: number; readonly epoch: string }): void {
    this.#heard ??= cursor;
    this.#resting = at;
    this.#epoch = epoch;
  }

  /** The thread does not exist: all of its events will be new. */
  missing(): void {
    this.#heard = 0;
    this.#resting = 0;
    this.#epoch = undefined;
  }

  reset(): void {
    this.#heard = undefined;
    this.#epoch = undefined;
  }
}
