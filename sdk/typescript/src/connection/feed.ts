// The cursor of the feed: like that of a thread, but positions have gaps, since only the newest entry of each thread is
// kept. So a gap is no loss, and a cursor never expires.

import { ConnectionError, type ThreadlineError } from "../errors.js";
import type { FeedEntry } from "../types.js";
import { type Cursor, NOTHING, refusal, type Taken } from "./follow.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";

/** Items of a followed feed. */
export type FeedItem =
  /** Connected to the feed `epoch`, starting from this cursor. Repeated after every reconnect. */
  | { readonly type: "hello"; readonly epoch: string; readonly cursor: number }
  /** Changed threads, in the order of their changes. */
  | { readonly type: "entries"; readonly entries: readonly FeedEntry[]; readonly cursor: number }
  /** All stored entries were delivered; the following ones are live. */
  | { readonly type: "caughtUp"; readonly cursor: number }
  /**
   * The feed continues under another epoch: it has its first entry, or the server has lost changes, but none that this
   * subscription has delivered. Whoever stores the cursor stores this epoch with it.
   */
  | { readonly type: "rebased"; readonly epoch: string; readonly cursor: number }
  /** The connection was lost; the next attempt follows after `waitMs`. */
  | { readonly type: "reconnecting"; readonly waitMs: number; readonly error: ThreadlineError };

export interface FeedOptions {
  /** The cursor: `feedCursor` of a list, or the cursor of the last item; 0, the default, for all entries. */
  readonly after?: number;
  /** The epoch of the cursor: `feedEpoch` of the list. Required if the cursor is above 0. */
  readonly epoch?: string;
  /** The user whose feed is followed, if an API key is used without a user. */
  readonly userId?: string;
}

export class FeedFollow implements Cursor<FeedItem> {
  readonly key = undefined;
  epoch: string | undefined;
  at: number;
  readonly #userId: string | undefined;
  #request = "";
  #open = false;

  constructor({ after = 0, epoch, userId }: FeedOptions = {}) {
    this.at = after;
    this.epoch = epoch;
    this.#userId = userId;
  }

  request(id: string): SubscribeRequest {
    this.#request = id;
    this.#open = false;
    return { id, after: this.at, epoch: this.epoch, userId: this.#userId };
  }

  take(frame: ServerFrame): Taken<FeedItem> {
    if (frame.name === "error") return refusal(frame);
    if (frame.name === "feedHello" && frame.id === this.#request) this.#open = true;
    if (!this.#open) return NOTHING;
    switch (frame.name) {
      case "feedHello":
      case "feedRebased": {
        const { epoch } = frame.body;
        this.epoch = epoch;
        return { items: [{ type: frame.name === "feedHello" ? "hello" : "rebased", epoch, cursor: this.at }] };
      }
      case "feed": {
        const entries: FeedEntry[] = [];
        for (const entry of frame.body.entries) {
          if (entry.cursor <= this.at) continue;
          this.at = entry.cursor;
          entries.push({ ...entry, thread: entry.thread ?? null });
        }
        this.at = Math.max(this.at, frame.body.cursor);
        if (entries.length === 0) return NOTHING;
        return { items: [{ type: "entries", entries, cursor: this.at }], progress: true };
      }
      case "feedCaughtUp":
        this.at = Math.max(this.at, frame.body.cursor);
        return { items: [{ type: "caughtUp", cursor: this.at }] };
      case "feedEnded":
        // The response to an unsubscribe belongs to an earlier request. Otherwise the next connection reports the cause:
        // the cursor belongs to another feed.
        if (frame.body.reason === "unsubscribed") return NOTHING;
        return { items: [], error: new ConnectionError("the feed was replaced") };
      default:
        return NOTHING;
    }
  }
}
