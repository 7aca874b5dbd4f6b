import type { Thread } from "../types.js";
import { isShownBy, type ThreadFilter } from "./window.js";

/** What a change makes of a thread; null if it is deleted. */
export type Change = (thread: Thread) => Thread | null;

/** Read marker of a thread, within an epoch of its log. */
export interface ReadMark {
  readonly seq: number;
  readonly epoch: string;
}

/** Changes of threads that are on their way to the server, applied to what a list has received. */
export class Changes {
  readonly #filter: ThreadFilter;
  #changes: readonly { readonly threadId: string; readonly change: Change }[] = [];
  #shown: { readonly received: readonly Thread[]; readonly threads: readonly Thread[] } | undefined;

  constructor(filter: ThreadFilter) {
    this.#filter = filter;
  }

  /** Applies a change from now on; returns a function that ends this. */
  add(threadId: string, change: Change): () => void {
    const own = { threadId, change };
    this.#changes = [...this.#changes, own];
    this.reset();
    return () => {
      this.#changes = this.#changes.filter((other) => other !== own);
      this.reset();
    };
  }

  /** A read marker has changed. */
  reset(): void {
    this.#shown = undefined;
  }

  /** Returns the threads with all changes. The same array is returned until one of them changes. */
  over(received: readonly Thread[], readMark: (threadId: string) => ReadMark | undefined): readonly Thread[] {
    if (this.#shown?.received === received) return this.#shown.threads;
    const threads = received.flatMap((thread) => this.#changed(thread, readMark(thread.threadId)) ?? []);
    const isSame = threads.length === received.length && threads.every((thread, at) => thread === received[at]);
    this.#shown = { received, threads: isSame ? received : threads };
    return this.#shown.threads;
  }

  #changed(received: Thread, mark: ReadMark | undefined): Thread | null {
    const isMarked = mark?.epoch === received.epoch && mark.seq > received.readSeq;
    let thread: Thread = isMarked ? { ...received, readSeq: mark.seq } : received;
    for (const { threadId, change } of this.#changes) {
      if (threadId !== received.threadId) continue;
      const changed = change(thread);
      if (!changed || !isShownBy(this.#filter, changed)) return null;
      thread = changed;
    }
    return thread;
  }
}
