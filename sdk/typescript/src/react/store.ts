import type { ConnectionStatus } from "../connection/status.js";
import type { ThreadlineError } from "../errors.js";
import { FRAME_MS } from "../limits.js";
import { now } from "../platform.js";

/**
 * State that is kept up to date while it has listeners, for `useSyncExternalStore` or for use without React. A store opens
 * with its first listener, and closes shortly after its last one has left, so that React's StrictMode, which unsubscribes
 * and resubscribes at once, opens it only once.
 */
export abstract class Store<Snapshot extends object> {
  readonly #initial: Snapshot;
  #snapshot: Snapshot;
  readonly #listeners = new Set<() => void>();
  #isOpen = false;
  #closing: ReturnType<typeof setTimeout> | undefined;
  #frame: ReturnType<typeof setTimeout> | undefined;
  #publishedAt = Number.NEGATIVE_INFINITY;
  readonly #onClose: (() => void) | undefined;

  /** `onClose` is called whenever the store closes. */
  constructor(initial: Snapshot, onClose?: () => void) {
    this.#initial = initial;
    this.#snapshot = initial;
    this.#onClose = onClose;
  }

  /** Returns the current snapshot. The same object is returned until a member changes. */
  readonly getSnapshot = (): Snapshot => this.#snapshot;

  /** Calls the listener after every change, at most once per frame; returns a function that removes the listener. */
  readonly subscribe = (listener: () => void): (() => void) => {
    const own = () => listener();
    this.#listeners.add(own);
    clearTimeout(this.#closing);
    if (!this.#isOpen) {
      this.#isOpen = true;
      this.open();
    }
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return;
      this.#closing = setTimeout(() => this.#close(), 0);
    };
  };

  /** Called when the first listener subscribes: connects. */
  protected abstract open(): void;

  /** Called after the last listener has left: pending operations must have no effect from then on. */
  protected abstract close(): void;

  /** Computes the snapshot to publish. */
  protected abstract look(): Snapshot;

  /** Sets the most recent error, which is shown until the next success. */
  protected abstract setError(error: ThreadlineError | null): void;

  /** Shows an error that no call rejects with, such as that of a read being retried or of a feed that has ended. */
  protected showError(error: ThreadlineError): void {
    this.setError(error);
    this.changed();
  }

  protected get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Reports a change: listeners are notified immediately, or with the next frame. */
  protected changed(): void {
    if (!this.#isOpen || this.#frame !== undefined) return;
    const wait = this.#publishedAt + FRAME_MS - now();
    if (wait <= 0) this.publish();
    else this.#frame = setTimeout(() => this.publish(), wait);
  }

  /** Notifies the listeners immediately. */
  protected publish(): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    if (!this.#isOpen) return;
    const next = this.look();
    if (isSame(next, this.#snapshot)) return;
    this.#publishedAt = now();
    this.#snapshot = next;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Runs a task requested by the user, during which the store stays open. An error is shown and rethrown. */
  protected async act<T>(task: () => Promise<T>): Promise<T> {
    const leave = this.subscribe(() => {});
    try {
      const done = await task();
      this.setError(null);
      return done;
    } catch (error) {
      this.setError(error as ThreadlineError);
      throw error;
    } finally {
      this.publish();
      leave();
    }
  }

  #close(): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    this.#isOpen = false;
    this.#publishedAt = Number.NEGATIVE_INFINITY;
    this.#snapshot = this.#initial;
    this.close();
    this.#onClose?.();
  }
}

/**
 * The reason why no data has arrived yet, taken from the connection status, since reads that are retried forever never
 * fail.
 */
export function troubleOf(status: ConnectionStatus): ThreadlineError | null {
  return status.state === "reconnecting" ? status.error : null;
}

/** True if two snapshots have identical members. */
function isSame(one: object, other: object): boolean {
  const members = new Map<string, unknown>(Object.entries(other));
  return Object.entries(one).every(([name, value]) => Object.is(members.get(name), value));
}
