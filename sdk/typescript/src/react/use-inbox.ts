"use client";

import { useMemo, useSyncExternalStore } from "react";
import type { StartedRun } from "../types.js";
import { useThreadline } from "./context.js";
import { EMPTY_INBOX, type InboxOptions, type InboxSnapshot } from "./inbox.js";
import type { InterruptAnswer } from "./input.js";
import { INBOXES } from "./stores.js";
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
    return {
      subscribe: (listener: () => void) => INBOXES.of(client, options).subscribe(listener),
      getSnapshot: () => INBOXES.open(client, options)?.getSnapshot() ?? EMPTY_INBOX,
      methods: {
        answer: (threadId: string, answers: readonly InterruptAnswer[], run?: SendOptions) =>
          INBOXES.of(client, options).answer(threadId, answers, run),
        fetchMoreInterrupts: async () => INBOXES.open(client, options)?.fetchMoreInterrupts(),
      },
    };
  }, [client, agentId, limit]);
  const snapshot = useSyncExternalStore(binding.subscribe, binding.getSnapshot, serverSnapshot);
  return useMemo(() => ({ ...snapshot, ...binding.methods }), [snapshot, binding]);
}

function serverSnapshot(): InboxSnapshot {
  return EMPTY_INBOX;
}
