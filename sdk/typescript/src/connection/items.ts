import { ITERATOR_EVENTS } from "../limits.js";
import { reasonOf } from "../platform.js";
import type { FeedItem } from "./feed.js";
import type { ThreadItem } from "./follow.js";
import type { Subscription, Told } from "./subscription.js";

/** What an iterator needs to know about its items. */
export interface Kind<Item> {
  /** Number of events in an item. */
  weight(item: Item): number;
  /** True if no item follows this one. */
  isLast(item: Item): boolean;
  /** Items that report that the iterator is no longer live, because its consumer is too slow. */
  fellBehind(cursor: number): readonly Item[];
}

/** Items of a thread. */
export const THREAD_ITEMS: Kind<ThreadItem> = {
  weight: (item) => (item.type === "events" ? item.batches.reduce((sum, { events }) => sum + events.length, 0) : 1),
  isLast: (item) => item.type === "ended",
  fellBehind: (seq) => [{ type: "fellBehind", seq }],
};

/** Items of the feed. */
export const FEED_ITEMS: Kind<FeedItem> = {
  weight: (item) => (item.type === "entries" ? item.entries.length : 1),
  isLast: () => false,
  fellBehind: () => [],
};

interface Waiting<Item> {
  readonly resolve: (result: IteratorResult<Item, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A subscription as an async iterator, which starts with the first `next()`. A slow consumer loses nothing, and not much
 * more than `ITERATOR_EVENTS` events are buffered: beyond that the iterator stops listening, and resumes from its cursor
 * when the buffer is empty.
 */
export class Items<Item> implements AsyncIterableIterator<Item, undefined> {
  readonly #kind: Kind<Item>;
  readonly #signal: AbortSignal | undefined;
  readonly #begin: (told: Told<Item>) => Subscription<Item>;
  readonly #abort = () => {
    this.#items.length = 0;
    this.#end({ error: reasonOf(this.#signal!) });
  };
  /** Buffered items, oldest first. */
  readonly #items: Item[] = [];
  /** Pending calls of `next()`. There are either items or takers, never both. */
  readonly #takers: Waiting<Item>[] = [];
  #weight = 0;
  #begun = false;
  #subscription: Subscription<Item> | undefined;
  /** Set when no item will be added any more; the error, if there is one, is for the next taker. */
  #over: { readonly error?: unknown } | undefined;

  constructor(kind: Kind<Item>, signal: AbortSignal | undefined, begin: (told: Told<Item>) => Subscription<Item>) {
    this.#kind = kind;
    this.#signal = signal;
    this.#begin = begin;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    return new Promise((resolve, reject) => {
      this.#takers.push({ resolve, reject });
      if (!this.#begun) this.#start();
      this.#settle();
    });
  }

  return(): Promise<IteratorResult<Item, undefined>> {
    this.#begun = true;
    this.#items.length = 0;
    this.#end({});
    return Promise.resolve({ done: true, value: undefined });
  }

  #start(): void {
    this.#begun = true;
    if (this.#signal?.aborted) return this.#abort();
    this.#signal?.addEventListener("abort", this.#abort, { once: true });
    try {
      this.#subscription = this.#begin({
        onItem: (item) => this.#push(item),
        onError: (error) => this.#end({ error }),
      });
    } catch (error) {
      this.#end({ error });
    }
  }

  #push(item: Item): void {
    this.#items.push(item);
    this.#weight += this.#kind.weight(item);
    this.#settle();
    if (this.#kind.isLast(item)) return this.#end({});
    if (this.#weight <= ITERATOR_EVENTS || !this.#subscription || this.#subscription.paused) return;
    this.#subscription.pause();
    this.#items.push(...this.#kind.fellBehind(this.#subscription.cursor));
  }

  #end(over: { readonly error?: unknown }): void {
    this.#over ??= over;
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#subscription?.close();
    this.#settle();
  }

  #settle(): void {
    for (let taker = this.#takers[0]; taker; taker = this.#takers[0]) {
      const item = this.#items.shift();
      if (item === undefined && !this.#over) return;
      this.#takers.shift();
      if (item !== undefined) {
        this.#weight -= this.#kind.weight(item);
        taker.resolve({ done: false, value: item });
      } else if (this.#over && "error" in this.#over) {
        taker.reject(this.#over.error);
        this.#over = {};
      } else {
        taker.resolve({ done: true, value: undefined });
      }
    }
    if (this.#items.length === 0) {
      this.#weight = 0;
      this.#subscription?.resume();
    }
  }
}
