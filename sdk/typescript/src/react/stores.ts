import type { Threadline } from "../client.js";
import { trimmed } from "../search.js";
import { Feed } from "./feed.js";
import { type InboxOptions, InboxStore } from "./inbox.js";
import { type ThreadListOptions, ThreadListStore } from "./list.js";
import { ThreadStore } from "./thread.js";

/** State shared by the components of a page: one store for each thread, list and inbox that is shown, and one feed. */
interface Shared {
  readonly feed: Feed;
  readonly threads: Map<string, ThreadStore>;
  readonly lists: Map<string, ThreadListStore>;
  readonly inboxes: Map<string, InboxStore>;
}

const SHARED = new WeakMap<Threadline, Shared>();

function sharedOf(client: Threadline): Shared {
  let found = SHARED.get(client);
  if (!found) {
    found = { feed: new Feed(client), threads: new Map(), lists: new Map(), inboxes: new Map() };
    SHARED.set(client, found);
  }
  return found;
}

// One object for each kind, so that a page loads the code of the kinds that it uses.

/** The stores of threads. `open` creates none, since rendering must have no side effects. */
export const THREADS = {
  open: (client: Threadline, threadId: string) => sharedOf(client).threads.get(threadId),
  of: (client: Threadline, threadId: string): ThreadStore => {
    const { threads, feed } = sharedOf(client);
    return shared(threads, threadId, (onClose) => new ThreadStore(client, feed, threadId, { onClose }));
  },
};

/** The stores of lists. */
export const LISTS = {
  open: (client: Threadline, options: ThreadListOptions) => sharedOf(client).lists.get(listKey(options)),
  of: (client: Threadline, options: ThreadListOptions): ThreadListStore => {
    const { lists, feed } = sharedOf(client);
    return shared(lists, listKey(options), (onClose) => new ThreadListStore(client, feed, options, { onClose }));
  },
};

/** The stores of inboxes. */
export const INBOXES = {
  open: (client: Threadline, options: InboxOptions) => sharedOf(client).inboxes.get(inboxKey(options)),
  of: (client: Threadline, options: InboxOptions): InboxStore => {
    const { inboxes, feed } = sharedOf(client);
    return shared(inboxes, inboxKey(options), (onClose) => new InboxStore(client, feed, options, { onClose }));
  },
};

/** The stores of one client, for use without React. Those with `open` return a store only if it is open. */
class Stores {
  readonly #client: Threadline;

  constructor(client: Threadline) {
    this.#client = client;
  }

  openThread(threadId: string): ThreadStore | undefined {
    return THREADS.open(this.#client, threadId);
  }

  thread(threadId: string): ThreadStore {
    return THREADS.of(this.#client, threadId);
  }

  openList(options: ThreadListOptions): ThreadListStore | undefined {
    return LISTS.open(this.#client, options);
  }

  list(options: ThreadListOptions): ThreadListStore {
    return LISTS.of(this.#client, options);
  }

  openInbox(options: InboxOptions): InboxStore | undefined {
    return INBOXES.open(this.#client, options);
  }

  inbox(options: InboxOptions): InboxStore {
    return INBOXES.of(this.#client, options);
  }
}

/** The stores that the components of a page share. */
export function storesOf(client: Threadline): Stores {
  return new Stores(client);
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
