import type { Http } from "./http.js";
import type { ReadOptions } from "./runs.js";
import type { InterruptPage } from "./types.js";

/** Filter and position of a page of open interrupts. */
export interface InterruptListOptions extends ReadOptions {
  /** Only threads of this agent. */
  readonly agentId?: string;
  /** Threads per page, 1 to 100; 50 by default. */
  readonly limit?: number;
  /** `nextCursor` of the previous page. */
  readonly cursor?: string;
  /** The user whose interrupts are listed, if an API key is used without a user. */
  readonly userId?: string;
}

/** The open interrupts of a user's threads. */
export class OpenInterrupts {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /**
   * Returns a page of the open interrupts of all threads that are not archived and have no active run. Those of the thread whose run ended last come
   * first; those of one thread are on one page, oldest first.
   */
  list(options?: InterruptListOptions): Promise<InterruptPage> {
    return this.#http.read(["interrupts"], options);
  }
}
