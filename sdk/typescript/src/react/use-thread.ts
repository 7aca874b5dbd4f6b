"use client";

import { useMemo, useSyncExternalStore } from "react";
import { ConfigError } from "../errors.js";
import type { Run, StartedRun } from "../types.js";
import { useThreadline } from "./context.js";
import type { InterruptAnswer, SendInput } from "./input.js";
import { storesOf } from "./stores.js";
import { EMPTY_THREAD, type ThreadSnapshot, type ThreadStore } from "./thread.js";

export interface UseThreadOptions {
  /** The agent that does runs, if it is not the thread's own; also that of a thread which the first message makes. */
  readonly agentId?: string;
}

/** What `useThread` gives. Methods belong to the thread that they were given for, also after a switch to another one. */
export interface UseThread extends ThreadSnapshot {
  /** Begins a run with a text, a message, or an input of your own; makes the thread if it is not there. */
  send(input: SendInput): Promise<StartedRun>;
  /** Asks the run that is under way to stop, whoever began it. */
  stop(): Promise<Run | undefined>;
  /** Answers all interrupts that are open. */
  resume(answers: readonly InterruptAnswer[]): Promise<StartedRun>;
  /** The result of a tool call that the page has done; dropped (undefined) if the page has left the thread. */
  addToolResult(toolCallId: string, result: unknown): Promise<StartedRun | undefined>;
  /** Loads older messages. */
  fetchMoreMessages(): Promise<void>;
  /** Marks as read what is shown by now; asks the server only if that is something new. Never rejects. */
  markRead(): Promise<void>;
}

/** A thread, live: its messages as they stream, its state, its run. null: none is chosen. */
export function useThread(threadId: string | null, { agentId }: UseThreadOptions = {}): UseThread {
  const client = useThreadline();
  const binding = useMemo(() => {
    const all = storesOf(client);
    const store = (): ThreadStore => {
      if (threadId === null) throw new ConfigError("no thread is selected");
      return all.thread(threadId);
    };
    // What is about what is shown must not make a store: late results, above all.
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
