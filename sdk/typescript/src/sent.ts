// Acknowledged events of a run, kept in case the server loses them: a failover or a restore may lose the newest commits.

import { SENT_SIZE } from "./limits.js";

interface Batch {
  readonly texts: readonly string[];
  readonly size: number;
}

/** The newest acknowledged events of one producer, as JSON texts, up to `SENT_SIZE`. */
export class Sent {
  readonly #batches: Batch[] = [];
  #size = 0;
  /** producerSeq of the first event that is kept; the one after the last if none is. */
  #first: number;
  /** producerSeq after the last event. */
  #next: number;

  constructor(next: number) {
    this.#first = next;
    this.#next = next;
  }

  get first(): number {
    return this.#first;
  }

  /** Keeps a batch that follows the last one. */
  add(texts: readonly string[]): void {
    const size = texts.reduce((sum, text) => sum + text.length, 0);
    this.#batches.push({ texts, size });
    this.#size += size;
    this.#next += texts.length;
    while (this.#size > SENT_SIZE) {
      const dropped = this.#batches.shift();
      if (!dropped) return;
      this.#size -= dropped.size;
      this.#first += dropped.texts.length;
    }
  }

  /** Removes the events from this producerSeq on, which must not be before `first`, and returns them. */
  takeFrom(producerSeq: number): string[] {
    const lost: (readonly string[])[] = [];
    while (this.#next > producerSeq) {
      const last = this.#batches.pop();
      if (!last) break;
      this.#size -= last.size;
      this.#next -= last.texts.length;
      const kept = Math.max(0, producerSeq - this.#next);
      lost.push(last.texts.slice(kept));
      if (kept > 0) this.add(last.texts.slice(0, kept));
    }
    return lost.reverse().flat();
  }
}
