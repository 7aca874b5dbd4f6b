import { type Config, configure, type ThreadlineOptions } from "./config.js";
import { Http } from "./http.js";
import { ThreadRef, Threads } from "./threads.js";

/** A client of one server. It makes no connection before something is asked of it or followed. */
export class Threadline {
  /** A user's threads: the list, and new ones. */
  readonly threads: Threads;
  readonly #config: Config;
  readonly #http: Http;

  /** Throws a `ConfigError` if the options cannot work. */
  constructor(options: ThreadlineOptions) {
    this.#config = configure(options);
    this.#http = new Http(this.#config);
    this.threads = new Threads(this.#http);
  }

  /** One thread, by its id. No request is made. */
  thread(threadId: string): ThreadRef {
    return new ThreadRef(this.#http, threadId);
  }
}
