// The threads that a list shows: the newest ones, down to where it was loaded. Pure.

import { isFound } from "../search.js";
import type { FeedEntry, Thread } from "../types.js";

/** Which threads a list shows. */
export interface ThreadFilter {
  /** Only threads of this agent. */
  readonly agentId?: string;
  /** Archived threads, too. */
  readonly includeArchived?: boolean;
  /**
   * Only threads whose name has this text in it, whatever the case and the accents of its letters. White space alone is no
   * search.
   */
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

/** The server's order: by last run, else last edit, newest first, then by id. Negative if `one` comes first. */
export function compare(one: Thread, other: Thread): number {
  const [first, second] = [one.lastRunAt ?? one.updatedAt, other.lastRunAt ?? other.updatedAt];
  if (first !== second) return first > second ? -1 : 1;
  return one.threadId === other.threadId ? 0 : one.threadId < other.threadId ? -1 : 1;
}

/**
 * Whether a thread would stand behind all that are loaded, so that it comes with another page. Never in a search: how far it has
 * looked its pages do not say, and what is found otherwise may as well be shown.
 */
export function isBeyond({ threads, hasMore }: Window, filter: ThreadFilter, thread: Thread): boolean {
  const last = threads.at(-1);
  return filter.search === undefined && hasMore && (last === undefined || compare(last, thread) < 0);
}

/** The threads after a change. The same array if it shows nothing of it. */
export function withEntry(window: Window, filter: ThreadFilter, { threadId, thread }: FeedEntry): readonly Thread[] {
  const { threads } = window;
  const at = threads.findIndex((shown) => shown.threadId === threadId);
  if (!thread || !isShownBy(filter, thread)) return at < 0 ? threads : threads.toSpliced(at, 1);
  if (at < 0 && isBeyond(window, filter, thread)) return threads;
  const others = at < 0 ? threads : threads.toSpliced(at, 1);
  const behind = others.findIndex((other) => compare(thread, other) < 0);
  return others.toSpliced(behind < 0 ? others.length : behind, 0, thread);
}

/** The threads after another page, which may have some of them again, elsewhere. */
export function withPage({ threads }: Window, page: readonly Thread[]): readonly Thread[] {
  const again = new Set(page.map(({ threadId }) => threadId));
  return [...threads.filter(({ threadId }) => !again.has(threadId)), ...page].sort(compare);
}
