"use client";

import { useMemo, useSyncExternalStore } from "react";
import { ConfigError } from "../errors.js";
import type { Run, StartedRun } from "../types.js";
import { useThreadline } from "./context.js";
import type { InterruptAnswer, SendInput } from "./input.js";
import { storesOf } from "./stores.js";
import { EMPTY_THREAD, type ThreadSnapshot, type ThreadStore } from "./thread.js";

export interface UseThreadOptions {
  /** The agent that executes runs, if not the thread's own; also the agent of a thread that the first message creates. */
  readonly agentId?: string;
}

/** Result of `useThread`. Methods belong to the thread for which they were returned, even after a switch to another thread. */
export interface UseThread extends ThreadSnapshot {
  /** Starts a run with a text, a message, or a custom input; creates the thread if it does not exist. */
  send(input: SendInput): Promise<StartedRun>;
  /** Requests a stop of the active run, regardless of its producer. */
  stop(): Promise<Run | undefined>;
  /** Answers all open interrupts. */
  resume(answers: readonly InterruptAnswer[]): Promise<StartedRun>;
  /**
   * Adds the result of a tool call that the page executed; the result is dropped (undefined) if the page has left the
   * thread.
   */
  addToolResult(toolCallId: string, result: unknown): Promise<StartedRun | undefined>;
  /** Loads older messages. */
  fetchMoreMessages(): Promise<void>;
  /** Marks everything shown so far as read; sends a request only if there is something new. Never rejects. */
  markRead(): Promise<void>;
}

/** Returns a live thread: its messages as they stream, its state, its run. Pass null if no thread is selected. */
export function useThread(threadId: string | null, { agentId }: UseThreadOptions = {}): UseThread {
  const client = useThreadline();
  const binding = useMemo(() => {
    const all = storesOf(client);
    const store = (): ThreadStore => {
      if (threadId === null) throw new ConfigError("no thread is selected");
      return all.thread(threadId);
    };
    // Methods about the shown content, such as late tool results, must not create a store.
    const shown = () => (threadId === null ? undefined : all.openThread(threadId));
    return {
      subscribe: (listener: () => void) => (threadId === null ? () => {} : store().subscribe(listener)),
      getSnapshot: () => (threadId === null ? NO_THREAD : (shown()?.getSnapshot() ?? EMPTY_THREAD)),
      getServerSnapshot: () => (threadId === null ? NO_THREAD : EMPTY_THREAD),
      methods: {
        send: async (input: SendInput) => store().send(input, { agentId }),
        stop: async () => shown()?.stop(),
        resume: async (answers: readonly InterruptAnswer[]) => store().resume(answers, { agentId }),
        addToolResult: async (toolCallId: string, result: unknown) =>
          shown()?.addToolResult(toolCallId, result, { agentId }),
        fetchMoreMessages: async () => shown()?.fetchMoreMessages(),
        markRead: async () => shown()?.markRead(),
      },
    };
  }, [client, threadId, agentId]);
  const snapshot = useSyncExternalStore(binding.subscribe, binding.getSnapshot, binding.getServerSnapshot);
  return useMemo(() => ({ ...snapshot, ...binding.methods }), [snapshot, binding]);
}

const NO_THREAD: ThreadSnapshot = { ...EMPTY_THREAD, isLoading: false };
