import { configure, type ThreadlineOptions } from "./config.js";
import { Connection } from "./connection/connection.js";
import type { FeedItem, FeedOptions } from "./connection/feed.js";
import { FEED_ITEMS, Items } from "./connection/items.js";
import type { ConnectionStatus } from "./connection/status.js";
import type { Followed, Told } from "./connection/subscription.js";
import { Http } from "./http.js";
import type { Cancellable } from "./runs.js";
import { ThreadRef, Threads } from "./threads.js";

/** A client of one server. It makes no connection before something is asked of it or followed. */
export class Threadline {
  /** A user's threads: the list, and new ones. */
  readonly threads: Threads;
  readonly #http: Http;
  readonly #connection: Connection;

  /** Throws a `ConfigError` if the options cannot work. */
  constructor(options: ThreadlineOptions) {
    const config = configure(options);
    this.#http = new Http(config);
    this.#connection = new Connection(config, this.#http);
    this.threads = new Threads(this.#http);
  }

  /** One thread, by its id. No request is made. */
  thread(threadId: string): ThreadRef {
    return new ThreadRef(this.#http, this.#connection, threadId);
  }

  /**
   * Follows the changes of a user's threads, from a cursor on and for ever: the threads that changed, as they are now. A list
   * and the feed after its `feedCursor` are complete together.
   */
  followFeed(options: FeedOptions & Told<FeedItem>): Followed {
    return this.#connection.followFeed(options);
  }

  /** The same as an iterator. It reads on when its items are taken, and keeps a bounded number until then. */
  feed(options: FeedOptions & Cancellable = {}): AsyncIterableIterator<FeedItem, undefined> {
    return new Items(FEED_ITEMS, options.signal, (told) => this.#connection.followFeed({ ...options, ...told }));
  }

  /** How what is followed is connected. The same object until something of it changes. */
  get status(): ConnectionStatus {
    return this.#connection.status;
  }

  /** Calls a listener with every change of the status; gives what ends that. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    return this.#connection.onStatus(listener);
  }

  /** Ends what is followed, for ever. Requests can still be made. */
  close(): void {
    this.#connection.close();
  }
}
