import type { Threadline } from "../client.js";
import type { Followed } from "../connection/subscription.js";
import { isProblem, type ThreadlineError } from "../errors.js";
import type { FeedEntry } from "../types.js";

/** Who wants to know of changes of threads. */
export interface FeedListener {
  readonly onEntry: (entry: FeedEntry) => void;
  /** Changes may have been missed: the server's data was put back to an earlier state. */
  readonly onReplaced?: () => void;
  /** There will be no more changes. */
  readonly onError?: (error: ThreadlineError) => void;
}

/** The changes of a user's threads, followed once for everybody who shows something of them. */
export class Feed {
  readonly #client: Threadline;
  readonly #listeners = new Set<FeedListener>();
  #followed: Followed | undefined;
  /** The cursor that it is followed from. */
  #from = 0;

  constructor(client: Threadline) {
    this.#client = client;
  }

  get isFollowed(): boolean {
    return this.#followed !== undefined;
  }

  /** Who lists threads joins first, then asks for the list, then says where it ends (`from`): so nothing is missed. */
  join(listener: FeedListener): () => void {
    this.#listeners.add(listener);
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#followed?.close();
      this.#followed = undefined;
    };
  }

  /**
   * Somebody has all changes up to this cursor. If others have begun later, all that came since is told again: entries show
   * threads as they are, so this does no harm.
   */
  from(cursor: number): void {
    if (this.#listeners.size === 0 || (this.#followed && this.#from <= cursor)) return;
    this.#followed?.close();
    this.#from = cursor;
    this.#followed = this.#client.followFeed({
      after: cursor,
      onItem: (item) => {
        if (item.type !== "entries") return;
        for (const entry of item.entries) for (const listener of [...this.#listeners]) listener.onEntry(entry);
      },
      onError: (error) => {
        this.#followed = undefined;
        const isReplaced = isProblem(error, "cursor-ahead");
        for (const listener of [...this.#listeners]) {
          if (isReplaced) listener.onReplaced?.();
          else listener.onError?.(error);
        }
      },
    });
  }
}
