import type { Threadline } from "../client.js";
import type { InboxOptions, InboxStore } from "./inbox.js";
import { INBOXES, LISTS, THREADS } from "./kinds.js";
import type { ThreadListOptions, ThreadListStore } from "./list.js";
import { sharedStore } from "./shared.js";
import type { ThreadStore } from "./thread.js";

/** The stores of a client for use without React, shared with the hooks of the page. */
class Stores {
  readonly #client: Threadline;

  constructor(client: Threadline) {
    this.#client = client;
  }

  thread(threadId: string): ThreadStore {
    return sharedStore(this.#client, THREADS, { threadId });
  }

  list(options: ThreadListOptions): ThreadListStore {
    return sharedStore(this.#client, LISTS, options);
  }

  inbox(options: InboxOptions): InboxStore {
    return sharedStore(this.#client, INBOXES, options);
  }
}

export function storesOf(client: Threadline): Stores {
  return new Stores(client);
}
