import type { ConnectionStatus } from "../connection/status.js";
import type { ThreadlineError } from "../errors.js";
import { FRAME_MS } from "../limits.js";

/**
 * Something that is kept up to date as long as somebody listens, for `useSyncExternalStore` or without React. It opens with its
 * first listener, and closes a moment after the last one has left: React's StrictMode, which leaves and comes back at once,
 * opens it once.
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

  /** `onClose` is called whenever nobody listens any more. */
  constructor(initial: Snapshot, onClose?: () => void) {
    this.#initial = initial;
    this.#snapshot = initial;
    this.#onClose = onClose;
  }

  /** What there is; the same object until something of it changes. */
  readonly getSnapshot = (): Snapshot => this.#snapshot;

  /** Calls the listener after every change, at most once a frame; gives what ends that. */
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

  /** Somebody listens: connects. */
  protected abstract open(): void;

  /** Nobody does any more: nothing that is under way may have an effect. */
  protected abstract close(): void;

  /** What is to be published. */
  protected abstract look(): Snapshot;

  /** The most recent error, to be shown until something succeeds. */
  protected abstract setError(error: ThreadlineError | null): void;

  /** Shows an error that no call rejects with: of a read that is retried, or of a feed that has ended. */
  protected showError(error: ThreadlineError): void {
    this.setError(error);
    this.changed();
  }

  protected get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Something has changed: listeners hear of it now, or with the next frame. */
  protected changed(): void {
    if (!this.#isOpen || this.#frame !== undefined) return;
    const wait = this.#publishedAt + FRAME_MS - performance.now();
    if (wait <= 0) this.publish();
    else this.#frame = setTimeout(() => this.publish(), wait);
  }

  /** Listeners hear of it now. */
  protected publish(): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    if (!this.#isOpen) return;
    const next = this.look();
    if (isSame(next, this.#snapshot)) return;
    this.#publishedAt = performance.now();
    this.#snapshot = next;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Does something that a user asked for; the store stays open for it. What goes wrong is shown, and thrown. */
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

/** Why nothing has come yet: what is tried again and again does not fail before it is given up, and that is never. */
export function troubleOf(status: ConnectionStatus): ThreadlineError | null {
  return status.state === "reconnecting" ? status.error : null;
}

/** Whether two have the same members. */
function isSame(one: object, other: object): boolean {
  const members = new Map<string, unknown>(Object.entries(other));
  return Object.entries(one).every(([name, value]) => Object.is(members.get(name), value));
}
