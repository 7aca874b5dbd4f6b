// The loaded events of a log: in chunks, which are loaded when one of their events is wanted, and dropped when there are many.

import type { EventBatch, EventPage, LoggedEvent } from "threadline";
import type { AnyEvent } from "../../untrusted.ts";

/** Events of a chunk: chunk `k` has those after the cursor `k * CHUNK`. */
export const CHUNK = 200;
/** Chunks that are kept; wanted chunks are kept beyond this. */
export const MOST_CHUNKS = 60;
/** Characters of JSON that are kept; wanted chunks are kept beyond this. */
export const MOST_SIZE = 32_000_000;
/** Chunks that are loaded at the same time. */
const AT_ONCE = 3;

/** Reads the page after a cursor. It may be shorter than the limit. */
export type ReadEvents = (after: number, limit: number, signal: AbortSignal) => Promise<EventPage>;

interface Chunk {
  readonly events: (LoggedEvent | undefined)[];
  count: number;
  size: number;
}

export class EventPages {
  /** Seq of the newest event that there is. */
  tail = 0;
  readonly #read: ReadEvents;
  readonly #failed: (error: unknown) => void;
  /** The one that was wanted longest ago comes first. */
  readonly #chunks = new Map<number, Chunk>();
  /** How often each chunk is wanted; the one that was wanted last comes last. */
  readonly #wanted = new Map<number, number>();
  readonly #loading = new Set<number>();
  /** Not tried again before something asks for it: `retry`. */
  readonly #broken = new Set<number>();
  readonly #listeners = new Set<() => void>();
  readonly #over = new AbortController();
  #size = 0;
  #isScheduled = false;

  constructor(read: ReadEvents, failed: (error: unknown) => void = () => {}) {
    this.#read = read;
    this.#failed = failed;
  }

  /** How many chunks are kept, and how large they are. */
  get kept(): { readonly chunks: number; readonly size: number } {
    return { chunks: this.#chunks.size, size: this.#size };
  }

  /** The event, if it is at hand. Always the same object while it is. */
  peek(seq: number): LoggedEvent | undefined {
    return this.#chunks.get(chunkOf(seq))?.events[(seq - 1) % CHUNK];
  }

  /** Marks an event as wanted, until the returned function is called. */
  want(seq: number): () => void {
    if (seq < 1 || seq > this.tail) return () => {};
    const key = chunkOf(seq);
    const wants = this.#wanted.get(key) ?? 0;
    this.#wanted.delete(key);
    this.#wanted.set(key, wants + 1);
    this.#touch(key);
    this.#schedule();
    return () => {
      const left = (this.#wanted.get(key) ?? 1) - 1;
      if (left > 0) this.#wanted.set(key, left);
      else this.#wanted.delete(key);
    };
  }

  /** Takes events that have just been appended. `changed` notifies the listeners. */
  append({ seq, runId, at, events }: EventBatch): void {
    events.forEach((event, index) => this.#put({ seq: seq + index, runId, at, event }));
    this.tail = Math.max(this.tail, seq + events.length - 1);
    this.#evict();
  }

  /** Notifies the listeners of possible changes. */
  changed(): void {
    for (const listener of this.#listeners) listener();
    this.#schedule();
  }

  /** Tries again what failed. */
  retry(): void {
    this.#broken.clear();
    this.#schedule();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Nothing more is loaded. */
  close(): void {
    this.#over.abort();
    this.#wanted.clear();
  }

  /** Later, when all that is wanted at this moment is known. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    // A user who scrolls past thousands of rows needs those at which the scrolling stops.
    for (const key of [...this.#wanted.keys()].reverse()) {
      if (this.#loading.size >= AT_ONCE || this.#over.signal.aborted) return;
      if (this.#loading.has(key) || this.#broken.has(key) || !this.#lacks(key)) continue;
      this.#loading.add(key);
      void this.#load(key);
    }
  }

  async #load(key: number): Promise<void> {
    const { signal } = this.#over;
    try {
      const end = Math.min((key + 1) * CHUNK, this.tail);
      for (let after = key * CHUNK; after < end;) {
        const { events } = await this.#read(after, end - after, signal);
        if (signal.aborted) return;
        // An empty page before the tail: the thread is being deleted.
        if (events.length === 0) throw new Error(`there is no event after seq ${after}`);
        for (const event of events) this.#put(event);
        after = events.at(-1)!.seq;
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#broken.add(key);
      this.#failed(error);
    } finally {
      this.#loading.delete(key);
      this.#evict();
      if (!signal.aborted) this.changed();
    }
  }

  #lacks(key: number): boolean {
    const there = this.#chunks.get(key)?.count ?? 0;
    return there < Math.min(CHUNK, this.tail - key * CHUNK);
  }

  #put(logged: LoggedEvent): void {
    const key = chunkOf(logged.seq);
    let chunk = this.#chunks.get(key);
    if (!chunk) this.#chunks.set(key, (chunk = { events: [], count: 0, size: 0 }));
    const at = (logged.seq - 1) % CHUNK;
    if (chunk.events[at]) return;
    const size = sizeOf(logged.event);
    chunk.events[at] = logged;
    chunk.count += 1;
    chunk.size += size;
    this.#size += size;
  }

  #touch(key: number): void {
    const chunk = this.#chunks.get(key);
    if (!chunk) return;
    this.#chunks.delete(key);
    this.#chunks.set(key, chunk);
  }

  #evict(): void {
    // The newest chunk always stays, so that a live log has its end loaded.
    const last = chunkOf(this.tail);
    for (const [key, { size }] of this.#chunks) {
      if (this.#chunks.size <= MOST_CHUNKS && this.#size <= MOST_SIZE) return;
      if (this.#wanted.has(key) || this.#loading.has(key) || key === last) continue;
      this.#chunks.delete(key);
      this.#size -= size;
    }
  }
}

/** The chunk that an event is in. */
export function chunkOf(seq: number): number {
  return Math.floor((seq - 1) / CHUNK);
}

/** Characters of an event's JSON. */
function sizeOf(event: AnyEvent): number {
  return JSON.stringify(event).length;
}
