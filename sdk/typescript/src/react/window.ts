// The window of threads that a list shows: the newest ones, down to the last one loaded. Pure.

import { isFound } from "../search.js";
import type { FeedEntry, Thread } from "../types.js";

/** Filter of a thread list. */
export interface ThreadFilter {
  /** Only threads of this agent. */
  readonly agentId?: string;
  /** Includes archived threads. */
  readonly includeArchived?: boolean;
  /** Only threads whose name contains this text, ignoring case and accents. A text of only white space is ignored. */
  readonly search?: string;
}

/** The newest threads, in order, and whether there are older ones. */
export interface Window {
  readonly threads: readonly Thread[];
  readonly hasMore: boolean;
}

export function isShownBy(filter: ThreadFilter, thread: Thread): boolean {
  return (
    (filter.includeArchived || !thread.archived) &&
    (filter.agentId === undefined || thread.agentId === filter.agentId) &&
    (filter.search === undefined || isFound(thread.name, filter.search))
  );
}

/**
 * Compares two threads in the server's order: by last run, or last edit if there was none, newest first, then by id.
 * Negative if `one` comes first.
 */
export function compare(one: Thread, other: Thread): number {
  const [first, second] = [one.lastRunAt ?? one.updatedAt, other.lastRunAt ?? other.updatedAt];
  if (first !== second) return first > second ? -1 : 1;
  return one.threadId === other.threadId ? 0 : one.threadId < other.threadId ? -1 : 1;
}

/**
 * True if a thread sorts after all loaded ones, so that it belongs to a later page. Never in a search: its pages do not
 * show how far the server has searched, and a match can be shown early.
 */
export function isBeyond({ threads, hasMore }: Window, filter: ThreadFilter, thread: Thread): boolean {
  const last = threads.at(-1);
  return filter.search === undefined && hasMore && (last === undefined || compare(last, thread) < 0);
}

/** Returns the threads after a change; the same array if the window does not change. */
export function withEntry(window: Window, filter: ThreadFilter, { threadId, thread }: FeedEntry): readonly Thread[] {
  const { threads } = window;
  const at = threads.findIndex((shown) => shown.threadId === threadId);
  if (!thread || !isShownBy(filter, thread)) return at < 0 ? threads : threads.toSpliced(at, 1);
  if (at < 0 && isBeyond(window, filter, thread)) return threads;
  const others = at < 0 ? threads : threads.toSpliced(at, 1);
  const behind = others.findIndex((other) => compare(thread, other) < 0);
  return others.toSpliced(behind < 0 ? others.length : behind, 0, thread);
}

/** Returns the threads after another page, which may repeat some of them in other positions. */
export function withPage({ threads }: Window, page: readonly Thread[]): readonly Thread[] {
  const again = new Set(page.map(({ threadId }) => threadId));
  return [...threads.filter(({ threadId }) => !again.has(threadId)), ...page].sort(compare);
}
