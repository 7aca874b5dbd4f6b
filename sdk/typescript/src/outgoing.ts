// Events of a run on their way to the log: numbered, in order, and kept for a while after they are acknowledged.

import { ClosedError, ConfigError } from "./errors.js";
import { BATCH_EVENTS, BATCH_SIZE, PENDING_EVENTS, PENDING_SIZE } from "./limits.js";
import { Sent } from "./sent.js";

/** The next request of a producer. */
export interface Batch {
  /** producerSeq of the first event. */
  readonly producerSeq: number;
  /** JSON texts of the events. */
  readonly texts: readonly string[];
  /** True for events that the server had acknowledged, and has lost. */
  readonly isAgain: boolean;
}

/** The events of one producer, as JSON texts. */
export class Outgoing {
  readonly #runId: string;
  /** Acknowledged events. */
  readonly #sent: Sent;
  /** Acknowledged events that the server has lost, oldest first: they are sent before the pending ones. */
  #lost: string[] = [];
  /** Unacknowledged events, oldest first, including those of the batch in flight. */
  readonly #pending: string[] = [];
  #pendingSize = 0;
  /** producerSeq of the first event to send. */
  #next: number;
  /** producerSeq of the first event of this producer: those before it began the run, or are of attempts before. */
  readonly #first: number;
  /** The highest producerSeq that the server has reported as stored. */
  #acknowledged: number;

  /** `producerSeq` is that of the last event that the run has already. */
  constructor(runId: string, producerSeq: number) {
    this.#runId = runId;
    this.#next = this.#first = producerSeq + 1;
    this.#acknowledged = producerSeq;
    this.#sent = new Sent(this.#next);
  }

  /** The highest producerSeq that the server has reported as stored. */
  get acknowledged(): number {
    return this.#acknowledged;
  }

  /** producerSeq of the next event to be added. */
  get nextSeq(): number {
    return this.#next + this.#lost.length + this.#pending.length;
  }

  /** True if all events are acknowledged. */
  get isEmpty(): boolean {
    return this.#pending.length === 0 && this.#lost.length === 0;
  }

  /** True if a producer that waits for room need not wait. */
  get hasRoom(): boolean {
    return this.#pending.length < PENDING_EVENTS && this.#pendingSize < PENDING_SIZE;
  }

  /** True if all events of this producer are kept. */
  get isWhole(): boolean {
    return this.#sent.first <= this.#first;
  }

  /** Adds events; throws a `ConfigError` if far too many are waiting. */
  add(texts: readonly string[]): void {
    if (this.#pending.length > 2 * PENDING_EVENTS || this.#pendingSize > 2 * PENDING_SIZE) {
      throw new ConfigError("events are appended faster than they can be sent: await each append");
    }
    for (const text of texts) {
      this.#pending.push(text);
      this.#pendingSize += text.length;
    }
  }

  /** The events of the next request. */
  batch(): Batch {
    const isAgain = this.#lost.length > 0;
    return { producerSeq: this.#next, texts: batchOf(isAgain ? this.#lost : this.#pending), isAgain };
  }

  /** The server has stored a batch, and the events up to `producerSeq`. */
  stored({ texts, isAgain }: Batch, producerSeq: number): void {
    (isAgain ? this.#lost : this.#pending).splice(0, texts.length);
    if (!isAgain) for (const text of texts) this.#pendingSize -= text.length;
    this.#sent.add(texts);
    this.#next += texts.length;
    this.#acknowledged = Math.max(this.#acknowledged, producerSeq);
  }

  /** Queues the acknowledged events from this producerSeq on again; throws a `ClosedError` if they are not kept any more. */
  rewind(producerSeq: number, cause?: unknown): void {
    if (producerSeq < this.#sent.first) throw this.lossAt(producerSeq, cause);
    this.#lost = [...this.#sent.takeFrom(producerSeq), ...this.#lost];
    this.#next = producerSeq;
    this.#acknowledged = producerSeq - 1;
  }

  /** The error of a loss that cannot be repaired. */
  lossAt(from: number, cause: unknown): ClosedError {
    const kept = `this producer keeps its events only from producerSeq ${this.#sent.first} on`;
    return new ClosedError(
      `the server has lost events of the run ${this.#runId} from producerSeq ${from} on, and ${kept}: start another run`,
      { cause },
    );
  }
}

/** The first events, as many as fit into one request. */
function batchOf(events: readonly string[]): string[] {
  let size = 0;
  let count = 0;
  for (const text of events) {
    if (count > 0 && (count === BATCH_EVENTS || size + text.length > BATCH_SIZE)) break;
    size += text.length;
    count += 1;
  }
  return events.slice(0, count);
}
