"use client";

import { useMemo, useSyncExternalStore } from "react";
import type { NewThread } from "../threads.js";
import type { Thread } from "../types.js";
import { useThreadline } from "./context.js";
import { LISTS } from "./kinds.js";
import { type DeleteBranches, EMPTY_LIST, type ThreadListOptions, type ThreadListSnapshot } from "./list.js";
import { openStore, sharedStore } from "./shared.js";

/**
 * Result of `useThreads`. Promises resolve when the list shows the change; they reject if it is refused or not confirmed
 * within 15 s.
 */
export interface UseThreads extends ThreadListSnapshot {
  /** Loads the next older threads. A page of a search may add none even if more pages follow. */
  fetchMoreThreads(): Promise<void>;
  /** Creates a thread, with the list's agent by default. */
  createThread(options?: Omit<NewThread, "signal">): Promise<Thread>;
  /** Renames a thread; null removes the name. */
  renameThread(threadId: string, name: string | null): Promise<void>;
  archiveThread(threadId: string): Promise<void>;
  unarchiveThread(threadId: string): Promise<void>;
  /** Deletes a thread and all of its log, permanently; with `branches` all branches of its conversation. */
  deleteThread(threadId: string, options?: DeleteBranches): Promise<void>;
}

/** Returns a user's threads, live across all tabs and devices. */
export function useThreads({ agentId, includeArchived, limit, search }: ThreadListOptions = {}): UseThreads {
  const client = useThreadline();
  const binding = useMemo(() => {
    const options: ThreadListOptions = {
      ...(agentId !== undefined && { agentId }),
      ...(includeArchived !== undefined && { includeArchived }),
      ...(limit !== undefined && { limit }),
      ...(search !== undefined && { search }),
    };
    const list = () => sharedStore(client, LISTS, options);
    const open = () => openStore(client, LISTS, options);
    return {
      subscribe: (listener: () => void) => list().subscribe(listener),
      getSnapshot: () => open()?.getSnapshot() ?? EMPTY_LIST,
      methods: {
        fetchMoreThreads: async () => open()?.fetchMoreThreads(),
        createThread: (thread?: Omit<NewThread, "signal">) => list().createThread(thread),
        renameThread: (threadId: string, name: string | null) => list().renameThread(threadId, name),
        archiveThread: (threadId: string) => list().archiveThread(threadId),
        unarchiveThread: (threadId: string) => list().unarchiveThread(threadId),
        deleteThread: (threadId: string, branches?: DeleteBranches) => list().deleteThread(threadId, branches),
      },
    };
  }, [client, agentId, includeArchived, limit, search]);
  const snapshot = useSyncExternalStore(binding.subscribe, binding.getSnapshot, serverSnapshot);
  return useMemo(() => ({ ...snapshot, ...binding.methods }), [snapshot, binding]);
}

function serverSnapshot(): ThreadListSnapshot {
  return EMPTY_LIST;
}
