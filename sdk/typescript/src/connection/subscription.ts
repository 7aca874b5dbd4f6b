// A subscription: a cursor, its listener, and its carrier. It outlives connections.

import { ConfigError, type ThreadlineError } from "../errors.js";
import { guarded } from "../platform.js";
import type { Cursor, Taken } from "./follow.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import type { Wanted } from "./transport.js";

/**
 * The listener of a subscription, called synchronously and in order. An error that a listener throws is rethrown
 * asynchronously.
 */
export interface Told<Item> {
  readonly onItem: (item: Item) => void;
  /**
   * Called when the subscription has ended because retrying cannot help, or with a `ClosedError` because the client was closed.
   */
  readonly onError: (error: ThreadlineError) => void;
  /** Aborting this signal ends the subscription, like `close()`. */
  readonly signal?: AbortSignal;
}

/** A subscription, as seen by its creator. */
export interface Followed {
  /** The position of the last delivered item: seq in a thread, position in the feed. */
  readonly cursor: number;
  /** The epoch of the cursor, once it is known. */
  readonly epoch: string | undefined;
  /** Ends the subscription. Nothing more is delivered. */
  close(): void;
}

/** A carrier of subscriptions. */
export interface Carrier {
  /** Returns an id that no other request has. */
  nextId(): string;
  /** Starts to read the subscription, from its cursor. */
  start(subscription: Carried): void;
  /** Stops reading the subscription, temporarily or permanently. */
  stop(subscription: Carried, forEver: boolean): void;
}

/** A subscription, as seen by its carrier. */
export interface Carried extends Wanted {
  readonly key: string | undefined;
  /** The id of the last request. */
  readonly requestId: string;
  readonly paused: boolean;
  /** Takes a frame in and delivers its items. */
  take(frame: ServerFrame): Omit<Taken<never>, "items">;
  reconnecting(waitMs: number, error: ThreadlineError): void;
  /** Ends the subscription with this error. */
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
    if (!told.onError) throw new ConfigError("onError is missing: it is called when following has ended with an error");
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

  /** Stops reading temporarily. */
  pause(): void {
    if (this.#over || this.paused) return;
    this.paused = true;
    this.#carrier.stop(this, false);
  }

  /** Resumes reading from the cursor. */
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
    // Frames in flight at the time of the pause are read again later.
    if (this.#over || this.paused) return {};
    const { items, ...rest } = this.#cursor.take(frame);
    // Stopped before the listener is notified, since the listener may follow the same thread again.
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
    guarded(() => this.#told.onError(error));
  }

  #tell(item: Item): void {
    if (!this.#over) guarded(() => this.#told.onItem(item));
  }

  #end(): void {
    this.#over = true;
    this.#told.signal?.removeEventListener("abort", this.#abort);
  }
}
