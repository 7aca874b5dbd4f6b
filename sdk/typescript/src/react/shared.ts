import type { Threadline } from "../client.js";
import { Feed } from "./feed.js";

/** A kind of stores, of which the components of a page share one for each key. */
export interface Kind<Options, S> {
  readonly key: (options: Options) => string;
  readonly make: (client: Threadline, feed: Feed, options: Options, onClose: () => void) => S;
}

/** State that the components of a page share: one feed, and the open stores of each kind by their keys. */
interface Shared {
  readonly feed: Feed;
  readonly stores: Map<object, Map<string, unknown>>;
}

const clients = new WeakMap<Threadline, Shared>();

/** Returns the store if it is open. A lookup during rendering creates no store, since rendering must have no side effects. */
export function openStore<Options, S>(client: Threadline, kind: Kind<Options, S>, options: Options): S | undefined {
  return clients.get(client)?.stores.get(kind)?.get(kind.key(options)) as S | undefined;
}

/** Returns the store for these options, which is shared until it closes. */
export function sharedStore<Options, S>(client: Threadline, kind: Kind<Options, S>, options: Options): S {
  let shared = clients.get(client);
  if (!shared) clients.set(client, (shared = { feed: new Feed(client), stores: new Map() }));
  const { feed, stores } = shared;
  const open = (stores.get(kind) ?? new Map<string, unknown>()) as Map<string, S>;
  stores.set(kind, open);
  const key = kind.key(options);
  let found = open.get(key);
  if (!found) open.set(key, (found = kind.make(client, feed, options, () => open.delete(key))));
  return found;
}
