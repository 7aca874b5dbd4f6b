import type { Threadline } from "../client.js";
import type { Followed } from "../connection/subscription.js";
import { isProblem, type ThreadlineError } from "../errors.js";
import type { FeedEntry, ThreadPage } from "../types.js";
import type { ReadMark } from "./changes.js";

/** A listener of changes of threads. */
export interface FeedListener {
  readonly onEntry: (entry: FeedEntry) => void;
  /** The feed is another one: its user was erased, or the server has lost changes. Everything must be read again. */
  readonly onReplaced?: () => void;
  /** This page has marked a thread as read, or has failed to: see `readMark`. */
  readonly onRead?: () => void;
  /** The feed has ended. */
  readonly onError?: (error: ThreadlineError) => void;
}

/** The changes of a user's threads, followed once for all stores that show them. */
export class Feed {
  readonly #client: Threadline;
  readonly #listeners = new Set<FeedListener>();
  /** Read markers that this page has set, by thread. */
  readonly #marks = new Map<string, ReadMark>();
  #followed: Followed | undefined;
  /** The cursor from which the feed is followed. */
  #from = 0;

  constructor(client: Threadline) {
    this.#client = client;
  }

  get isFollowed(): boolean {
    return this.#followed !== undefined;
  }

  /** The read marker that this page has set, which the record of the thread may not have yet. */
  readonly readMark = (threadId: string): ReadMark | undefined => this.#marks.get(threadId);

  /** Sets the read marker of a thread for all lists of this page; undefined if the server has not taken it. */
  marked(threadId: string, mark: ReadMark | undefined): void {
    const before = this.#marks.get(threadId);
    if (before?.seq === mark?.seq && before?.epoch === mark?.epoch) return;
    if (mark === undefined) this.#marks.delete(threadId);
    else this.#marks.set(threadId, mark);
    for (const listener of [...this.#listeners]) listener.onRead?.();
  }

  /**
   * Adds a listener. To miss no change, a list joins first, then requests its page, then passes the page to `from`.
   */
  join(listener: FeedListener): () => void {
    this.#listeners.add(listener);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#followed?.close();
      this.#followed = undefined;
    };
  }

  /**
   * Starts at this cursor, up to which the caller has all changes. If other listeners started at a later cursor, entries
   * since then are delivered again. Repeated entries are harmless, since they show threads as they are.
   */
  from({ feedCursor: cursor, feedEpoch: epoch }: Pick<ThreadPage, "feedCursor" | "feedEpoch">): void {
    if (this.#listeners.size === 0 || (this.#followed && this.#from <= cursor)) return;
    this.#followed?.close();
    this.#from = cursor;
    this.#followed = this.#client.followFeed({
      after: cursor,
      epoch,
      onItem: (item) => {
        if (item.type !== "entries") return;
        for (const entry of item.entries) for (const listener of [...this.#listeners]) listener.onEntry(entry);
      },
      onError: (error) => {
        this.#followed = undefined;
        const isReplaced = isProblem(error, "log-replaced") || isProblem(error, "cursor-ahead");
        for (const listener of [...this.#listeners]) {
          if (isReplaced) listener.onReplaced?.();
          else listener.onError?.(error);
        }
      },
    });
  }
}
