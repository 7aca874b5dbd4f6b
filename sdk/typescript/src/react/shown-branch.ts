import { isBud } from "./outbox.js";

/** The branch that the components of a page show in place of the thread that they name: all of them the same one. */
interface ShownBranch {
  threadId: string;
  readonly listeners: Set<() => void>;
}

const PAGES = new WeakMap<object, Map<string, ShownBranch>>();

/** The branch that is shown in place of a thread: the thread itself, until another one was chosen. */
export function shownBranch(client: object, threadId: string): string {
  return PAGES.get(client)?.get(threadId)?.threadId ?? threadId;
}

/**
 * Calls a listener when another branch is shown. Once the last listener has left, the thread itself is shown again, unless the branch is
 * yet to begin: a message that was not sent stays.
 */
export function joinBranch(client: object, threadId: string, onMove: () => void): () => void {
  let page = PAGES.get(client);
  if (!page) PAGES.set(client, (page = new Map()));
  let shown = page.get(threadId);
  if (!shown) page.set(threadId, (shown = { threadId, listeners: new Set() }));
  const { listeners } = shown;
  const own = () => onMove();
  listeners.add(own);
  return () => {
    listeners.delete(own);
    // StrictMode leaves and joins at once.
    setTimeout(() => {
      if (listeners.size > 0 || page.get(threadId) !== shown || isBud(client, shown.threadId)) return;
      page.delete(threadId);
    }, 0);
  };
}

/** Shows another branch, if a component shows the thread. */
export function showBranch(client: object, threadId: string, branch: string): void {
  const shown = PAGES.get(client)?.get(threadId);
  if (!shown || shown.listeners.size === 0 || shown.threadId === branch) return;
  shown.threadId = branch;
  for (const listener of [...shown.listeners]) listener();
}
