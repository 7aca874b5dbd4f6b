import { Agents } from "./agents.js";
import { type Config, configure, type ThreadlineOptions } from "./config.js";
import { Connection } from "./connection/connection.js";
import type { FeedItem, FeedOptions } from "./connection/feed.js";
import { FEED_ITEMS, Items } from "./connection/items.js";
import type { ConnectionStatus } from "./connection/status.js";
import type { Followed, Told } from "./connection/subscription.js";
import { Conversations } from "./conversations.js";
import { Http } from "./http.js";
import type { Cancellable } from "./runs.js";
import { ThreadRef, Threads } from "./threads.js";

/** A client of one server. It makes no connection before something is asked of it or followed. */
export class Threadline {
  /** A user's threads: the list, and new ones. */
  readonly threads: Threads;
  /** The agents that runs can be handed to. */
  readonly agents: Agents;
  /** Conversations read and saved whole. */
  readonly conversations: Conversations;
  readonly #config: Config;
  readonly #http: Http;
  readonly #connection: Connection;

  /** Throws a `ConfigError` if the options cannot work. */
  constructor(options: ThreadlineOptions) {
    this.#config = configure(options);
    this.#http = new Http(this.#config);
    this.#connection = new Connection(this.#config, this.#http);
    this.threads = new Threads(this.#http);
    this.agents = new Agents(this.#http);
    this.conversations = new Conversations(this.#http);
  }

  /** One thread, by its id. No request is made. */
  thread(threadId: string): ThreadRef {
    return new ThreadRef(this.#http, this.#connection, threadId);
  }

  /** Follows the changes of a user's threads; as an iterator, which begins with the first `next()`. */
  feed(options: FeedOptions & Cancellable = {}): AsyncIterableIterator<FeedItem, undefined> {
    return new Items(FEED_ITEMS, options.signal, (told) => this.#connection.followFeed({ ...options, ...told }));
  }

  /** The same with a listener, from now on. */
  followFeed(options: FeedOptions & Told<FeedItem>): Followed {
    return this.#connection.followFeed(options);
  }

  /** How what is followed is connected. The same object until something of it changes. */
  get status(): ConnectionStatus {
    return this.#connection.status;
  }

  /** Calls a listener with every change of the status; gives what ends that. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    return this.#connection.onStatus(listener);
  }

  /**
   * Ends the connection and everything that is followed, for ever. Iterators and calls that are under way reject with a
   * `ClosedError` at once, and so does every later one; what was sent may have had its effect. A run of this program that has
   * not ended by then ends with its lease.
   */
  close(): void {
    this.#connection.close();
    this.#http.close();
  }
}
