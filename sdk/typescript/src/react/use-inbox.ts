"use client";

import { useMemo, useSyncExternalStore } from "react";
import type { StartedRun } from "../types.js";
import { useThreadline } from "./context.js";
import { EMPTY_INBOX, type InboxOptions, type InboxSnapshot } from "./inbox.js";
import type { InterruptAnswer } from "./input.js";
import { INBOXES } from "./kinds.js";
import { openStore, sharedStore } from "./shared.js";
import type { SendOptions } from "./snapshot.js";

/** Result of `useInbox`. */
export interface UseInbox extends InboxSnapshot {
  /**
   * Answers all open interrupts of a thread with a run of the agent that requested them. Resolves as soon as the run has
   * started; the thread leaves the inbox in all tabs and on all devices. Rejects if another client was first, or if an answer is missing.
   */
  answer(threadId: string, answers: readonly InterruptAnswer[], options?: SendOptions): Promise<StartedRun>;
  /** Loads the interrupts of further threads. */
  fetchMoreInterrupts(): Promise<void>;
}

/** Returns the open interrupts of all threads of a user, live across all tabs and devices. */
export function useInbox({ agentId, limit }: InboxOptions = {}): UseInbox {
  const client = useThreadline();
  const binding = useMemo(() => {
    const options: InboxOptions = { ...(agentId !== undefined && { agentId }), ...(limit !== undefined && { limit }) };
    const inbox = () => sharedStore(client, INBOXES, options);
    const open = () => openStore(client, INBOXES, options);
    return {
      subscribe: (listener: () => void) => inbox().subscribe(listener),
      getSnapshot: () => open()?.getSnapshot() ?? EMPTY_INBOX,
      methods: {
        answer: (threadId: string, answers: readonly InterruptAnswer[], run?: SendOptions) =>
          inbox().answer(threadId, answers, run),
        fetchMoreInterrupts: async () => open()?.fetchMoreInterrupts(),
      },
    };
  }, [client, agentId, limit]);
  const snapshot = useSyncExternalStore(binding.subscribe, binding.getSnapshot, serverSnapshot);
  return useMemo(() => ({ ...snapshot, ...binding.methods }), [snapshot, binding]);
}

function serverSnapshot(): InboxSnapshot {
  return EMPTY_INBOX;
}
