import type { Threadline } from "../client.js";
import { trimmed } from "../search.js";
import { Feed } from "./feed.js";
import { type InboxOptions, InboxStore } from "./inbox.js";
import { type ThreadListOptions, ThreadListStore } from "./list.js";
import { ThreadStore } from "./thread.js";

/** State shared by the components of a page: one store for each thread, list and inbox that is shown, and one feed. */
class Stores {
  readonly #client: Threadline;
  readonly #feed: Feed;
  readonly #threads = new Map<string, ThreadStore>();
  readonly #lists = new Map<string, ThreadListStore>();
  readonly #inboxes = new Map<string, InboxStore>();

  constructor(client: Threadline) {
    this.#client = client;
    this.#feed = new Feed(client);
  }

  /** Returns the store if it is open. A lookup during rendering creates no store, since rendering must have no side effects. */
  openThread(threadId: string): ThreadStore | undefined {
    return this.#threads.get(threadId);
  }

  thread(threadId: string): ThreadStore {
    return shared(
      this.#threads,
      threadId,
      (onClose) => new ThreadStore(this.#client, this.#feed, threadId, { onClose }),
    );
  }

  openList(options: ThreadListOptions): ThreadListStore | undefined {
    return this.#lists.get(listKey(options));
  }

  list(options: ThreadListOptions): ThreadListStore {
    const make = (onClose: () => void) => new ThreadListStore(this.#client, this.#feed, options, { onClose });
    return shared(this.#lists, listKey(options), make);
  }

  openInbox(options: InboxOptions): InboxStore | undefined {
    return this.#inboxes.get(inboxKey(options));
  }

  inbox(options: InboxOptions): InboxStore {
    const make = (onClose: () => void) => new InboxStore(this.#client, this.#feed, options, { onClose });
    return shared(this.#inboxes, inboxKey(options), make);
  }
}

const stores = new WeakMap<Threadline, Stores>();

export function storesOf(client: Threadline): Stores {
  let found = stores.get(client);
  if (!found) stores.set(client, (found = new Stores(client)));
  return found;
}

function listKey({ agentId, includeArchived = false, limit, search = "" }: ThreadListOptions): string {
  return JSON.stringify([agentId, includeArchived, limit, trimmed(search)]);
}

function inboxKey({ agentId, limit }: InboxOptions): string {
  return JSON.stringify([agentId, limit]);
}

/** Returns the store with this key, which is removed when it closes. */
function shared<T>(all: Map<string, T>, key: string, make: (onClose: () => void) => T): T {
  let found = all.get(key);
  if (!found) all.set(key, (found = make(() => all.delete(key))));
  return found;
}
