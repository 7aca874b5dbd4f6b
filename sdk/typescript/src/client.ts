import { Agents } from "./agents.js";
import { type Config, configure, type ThreadlineOptions } from "./config.js";
import { Connection } from "./connection/connection.js";
import type { FeedItem, FeedOptions } from "./connection/feed.js";
import { FEED_ITEMS, Items } from "./connection/items.js";
import type { ConnectionStatus } from "./connection/status.js";
import type { Followed, Told } from "./connection/subscription.js";
import { Conversations } from "./conversations.js";
import { Http, noteHttp } from "./http.js";
import { OpenInterrupts } from "./interrupts.js";
import type { Cancellable } from "./runs.js";
import { ThreadRef, Threads } from "./threads.js";

/** A client of one server. No connection is opened before the first request or subscription. */
export class Threadline {
  /** The user's threads: lists and creates them. */
  readonly threads: Threads;
  /** The open interrupts of all threads, which wait for answers. */
  readonly interrupts: OpenInterrupts;
  /** The agents to which runs can be delegated. */
  readonly agents: Agents;
  /** Conversations that are read and saved as a whole. */
  readonly conversations: Conversations;
  readonly #config: Config;
  readonly #http: Http;
  readonly #connection: Connection;

  /** Creates a client. Throws a `ConfigError` if the options are invalid. */
  constructor(options: ThreadlineOptions) {
    this.#config = configure(options);
    this.#http = new Http(this.#config);
    noteHttp(this, this.#http);
    this.#connection = new Connection(this.#config, this.#http);
    this.threads = new Threads(this.#http);
    this.interrupts = new OpenInterrupts(this.#http);
    this.agents = new Agents(this.#http);
    this.conversations = new Conversations(this.#http);
  }

  /** Returns a reference to a thread, by its id. No request is made. */
  thread(threadId: string): ThreadRef {
    return new ThreadRef(this.#http, this.#connection, threadId);
  }

  /** Follows the changes of a user's threads as an async iterator, which starts with the first `next()`. */
  feed(options: FeedOptions & Cancellable = {}): AsyncIterableIterator<FeedItem, undefined> {
    return new Items(FEED_ITEMS, options.signal, (told) => this.#connection.followFeed({ ...options, ...told }));
  }

  /** Follows the changes of a user's threads with a listener, starting immediately. */
  followFeed(options: FeedOptions & Told<FeedItem>): Followed {
    return this.#connection.followFeed(options);
  }

  /** The connection status of all subscriptions. The same object is returned until the status changes. */
  get status(): ConnectionStatus {
    return this.#connection.status;
  }

  /** Calls a listener on every change of the status; returns a function that removes the listener. */
  onStatus(listener: (status: ConnectionStatus) => void): () => void {
    return this.#connection.onStatus(listener);
  }

  /**
   * Closes the connection and ends all subscriptions, permanently. Iterators and pending calls reject with a `ClosedError`
   * immediately, and so does every later call. Requests that were already sent may still take effect. A run of this program
   * that is still active ends when its lease expires.
   */
  close(): void {
    this.#connection.close();
    this.#http.close();
  }
}
