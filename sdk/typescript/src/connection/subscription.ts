// What somebody follows: a cursor, whom to tell, and what carries it. It outlives connections.

import { ClosedError, type ThreadlineError } from "../errors.js";
import type { Cursor, Taken } from "./follow.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import type { Wanted } from "./transport.js";

/** Whom a subscription tells, synchronously and in order. What a listener throws is thrown again, outside. */
export interface Told<Item> {
  readonly onItem: (item: Item) => void;
  /** Nothing more will come: trying again cannot help. Without it the error is thrown where nobody catches it. */
  readonly onError?: (error: ThreadlineError) => void;
  /** Ends it, as `close()` does. */
  readonly signal?: AbortSignal;
}

/** A subscription in the hands of who asked for it. */
export interface Followed {
  /** The position of the last thing that was delivered: seq in a thread, position in the feed. */
  readonly cursor: number;
  /** The log that the cursor belongs to, once it is known. */
  readonly epoch: string | undefined;
  /** Nothing more is delivered. */
  close(): void;
}

/** What carries subscriptions. */
export interface Carrier {
  /** An id that no other request has. */
  nextId(): string;
  /** It is to be read, from its cursor. */
  start(subscription: Carried): void;
  /** It is not to be read, for now or for ever. */
  stop(subscription: Carried, forEver: boolean): void;
}

/** A subscription as its carrier has it. */
export interface Carried extends Wanted {
  readonly key: string | undefined;
  /** The id of its last request. */
  readonly requestId: string;
  readonly paused: boolean;
  /** Takes a frame in and delivers what it brings. */
  take(frame: ServerFrame): Omit<Taken<never>, "items">;
  reconnecting(waitMs: number, error: ThreadlineError): void;
  /** It is over, for this reason. */
  fail(error: ThreadlineError): void;
}

/** An item that subscriptions of every kind have. */
interface Reconnecting {
  readonly type: "reconnecting";
  readonly waitMs: number;
  readonly error: ThreadlineError;
}

export class Subscription<Item> implements Followed, Carried {
  requestId = "";
  paused = false;
  readonly #cursor: Cursor<Item>;
  readonly #told: Told<Item>;
  readonly #carrier: Carrier;
  readonly #abort = () => this.close();
  #over = false;

  constructor(cursor: Cursor<Item>, told: Told<Item>, carrier: Carrier) {
    this.#cursor = cursor;
    this.#told = told;
    this.#carrier = carrier;
    told.signal?.addEventListener("abort", this.#abort, { once: true });
    carrier.start(this);
  }

  get key(): string | undefined {
    return this.#cursor.key;
  }

  get cursor(): number {
    return this.#cursor.at;
  }

  get epoch(): string | undefined {
    return this.#cursor.epoch;
  }

  close(): void {
    if (this.#over) return;
    this.#end();
    this.#carrier.stop(this, true);
  }

  /** Reads no more for now. */
  pause(): void {
    if (this.#over || this.paused) return;
    this.paused = true;
    this.#carrier.stop(this, false);
  }

  /** Reads on from the cursor. */
  resume(): void {
    if (this.#over || !this.paused) return;
    this.paused = false;
    this.#carrier.start(this);
  }

  request(): SubscribeRequest {
    this.requestId = this.#carrier.nextId();
    return this.#cursor.request(this.requestId);
  }

  take(frame: ServerFrame): Omit<Taken<never>, "items"> {
    // What was under way when it was paused is read again later.
    if (this.#over || this.paused) return {};
    const { items, ...rest } = this.#cursor.take(frame);
    // Before it is told: whoever hears of the end may follow the same again.
    if (rest.done || (rest.error && !rest.error.retryable)) this.#carrier.stop(this, true);
    for (const item of items) this.#tell(item);
    if (rest.done) this.#end();
    if (rest.error && !rest.error.retryable) this.fail(rest.error);
    return rest;
  }

  reconnecting(waitMs: number, error: ThreadlineError): void {
    const item: Reconnecting = { type: "reconnecting", waitMs, error };
    if (!this.paused) this.#tell(item as Item);
  }

  fail(error: ThreadlineError): void {
    if (this.#over) return;
    this.#end();
    const { onError } = this.#told;
    if (onError) guarded(() => onError(error));
    // Whoever closes the client knows.
    else if (!(error instanceof ClosedError)) throwOutside(error);
  }

  #tell(item: Item): void {
    if (!this.#over) guarded(() => this.#told.onItem(item));
  }

  #end(): void {
    this.#over = true;
    this.#told.signal?.removeEventListener("abort", this.#abort);
  }
}

/** Calls a listener, whose faults are not ours. */
export function guarded(call: () => void): void {
  try {
    call();
  } catch (error) {
    throwOutside(error);
  }
}

function throwOutside(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
