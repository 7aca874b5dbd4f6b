// Searches the events that a filter shows: through the log, a page at a time, and then through appended events. Only their seqs are
// kept.

import type { EventBatch, EventPage } from "threadline";
import { type Filter, matcher } from "./filter.ts";

/** Events of one request. */
const PAGE = 5_000;

export interface ScanSnapshot {
  /** Ascending. Grows in place: `found` says how many there are. */
  readonly seqs: readonly number[];
  readonly found: number;
  /** Seq up to which every event was checked. */
  readonly cursor: number;
  readonly state: "scanning" | "done" | "cancelled" | "failed";
  readonly error: unknown;
}

/** Reads the page after a cursor. */
export type ReadPage = (after: number, limit: number, signal: AbortSignal) => Promise<EventPage>;

export interface Range {
  /** No earlier event can be of the searched run. */
  readonly firstSeq: number;
  /** No later event either; undefined while the run is active. */
  readonly lastSeq: number | undefined;
}

export class Scan {
  readonly #read: ReadPage;
  readonly #isShown: ReturnType<typeof matcher>;
  readonly #end: number;
  readonly #seqs: number[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #over = new AbortController();
  #tail: number;
  #snapshot: ScanSnapshot;
  #isReading = false;

  /** Begins the search, up to `tail` and through the events given to `take`. */
  constructor(read: ReadPage, filter: Filter, tail: number, { firstSeq, lastSeq }: Range) {
    this.#read = read;
    this.#isShown = matcher(filter);
    this.#tail = tail;
    this.#end = lastSeq ?? Infinity;
    this.#snapshot = { seqs: this.#seqs, found: 0, cursor: firstSeq - 1, state: "scanning", error: null };
    void this.#run();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly getSnapshot = (): ScanSnapshot => this.#snapshot;

  /** The last seq to search. */
  get end(): number {
    return Math.min(this.#tail, this.#end);
  }

  /** Takes appended events. */
  take(batches: readonly EventBatch[]): void {
    let { cursor } = this.#snapshot;
    for (const batch of batches) {
      const last = batch.seq + batch.events.length - 1;
      this.#tail = Math.max(this.#tail, last);
      // A running scan reads them as pages; a cancelled one ignores them.
      if (this.#isReading || this.#snapshot.state !== "done" || batch.seq > cursor + 1) continue;
      batch.events.forEach((event, index) => {
        if (batch.seq + index > cursor && this.#isShown(event, batch.runId)) this.#seqs.push(batch.seq + index);
      });
      cursor = Math.max(cursor, last);
    }
    if (cursor !== this.#snapshot.cursor) this.#publish({ cursor });
  }

  /** Stops the search. Found events stay. */
  readonly cancel = (): void => {
    this.#over.abort();
    if (this.#snapshot.state === "scanning") this.#publish({ state: "cancelled" });
  };

  /** Ends the scan and drops its listeners. */
  close(): void {
    this.#over.abort();
    this.#listeners.clear();
  }

  async #run(): Promise<void> {
    const { signal } = this.#over;
    this.#isReading = true;
    try {
      while (this.#snapshot.cursor < this.end && !signal.aborted) {
        const { cursor } = this.#snapshot;
        const page = await this.#read(cursor, Math.min(PAGE, this.end - cursor), signal);
        if (signal.aborted) return;
        for (const { seq, runId, event } of page.events) if (this.#isShown(event, runId)) this.#seqs.push(seq);
        const last = page.events.at(-1)?.seq;
        this.#publish({ cursor: last ?? this.end });
      }
      if (!signal.aborted) this.#publish({ state: "done" });
    } catch (error) {
      if (!signal.aborted) this.#publish({ state: "failed", error });
    } finally {
      this.#isReading = false;
    }
  }

  #publish(change: Partial<ScanSnapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...change, found: this.#seqs.length };
    for (const listener of this.#listeners) listener();
  }
}
