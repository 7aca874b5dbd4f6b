"use client";

import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { Busy } from "../runs.js";
import type { Message, PlacedTurn, Run, StartedRun, State, Thread } from "../types.js";
import type { InterruptAnswer, SendInput } from "./input.js";
import { useShownThread } from "./shown-thread.js";
import type { Forking, Send, ThreadSnapshot } from "./snapshot.js";
import type { PageTools } from "./tool-runner.js";

export interface UseThreadOptions {
  /** The agent that executes runs, if not the thread's own; also the agent of a thread that the first message creates. */
  readonly agentId?: string;
  /**
   * Tools of the page, by name: agents of runs that are started here can call them, and calls without a result are executed
   * here, by one page of several. Components with the same thread share their tools.
   */
  readonly tools?: PageTools;
}

/**
 * Result of `useThread`. Methods belong to the thread for which they were returned, even after a switch to another thread: they are about
 * the branch of it that is shown, `shownThreadId`.
 */
export interface UseThread<S = State, M extends Message = Message> extends ThreadSnapshot<S, M> {
  /**
   * Starts a run with a text, a message, or a custom input; creates the thread if it does not exist. A message of the user is
   * shown at once, with `delivery` until it is in the log. With `busy`, a turn is queued while another run is active: the result
   * then has `queued`, in place of `run`.
   */
  readonly send: Send<{ readonly busy?: Busy | undefined }>;
  /**
   * Sends a message whose `delivery` has failed again, with the same ids. A message that has arrived nevertheless does not
   * arrive twice.
   */
  retry(messageId: string): Promise<StartedRun | PlacedTurn>;
  /** Removes a message whose `delivery` has failed, and what was sent with it. */
  discard(messageId: string): void;
  /**
   * Replaces a message in a fork of the thread, which is shown in its place in the same tick: `shownThreadId` is the id of the fork.
   * The message and everything after it stay in the thread itself only. With `stop`, the active run of the thread is stopped. If the run
   * is refused, the edited message stays, as `failed`: `retry` sends it again, `discard` leads back.
   */
  edit(messageId: string, input: SendInput, options?: { readonly stop?: boolean }): Promise<StartedRun>;
  /** Has an answer made again, in a fork of the thread: see `edit`. If the run is refused, the thread is shown as it was. */
  regenerate(messageId: string, options?: { readonly stop?: boolean }): Promise<StartedRun>;
  /**
   * Shows a branch of the conversation, in all components with this thread id. What the branches have in common stays on screen. With another
   * id, or when the last component has left, the thread itself is shown again.
   */
  showBranch(threadId: string): void;
  /** Has lists show a branch of the conversation, in place of the present one. */
  listBranch(threadId: string): Promise<Thread>;
  /** Requests a stop of the active run, regardless of its producer. */
  stop(): Promise<Run | undefined>;
  /** Answers all open interrupts. */
  resume(answers: readonly InterruptAnswer[]): Promise<StartedRun>;
  /**
   * Adds the result of a tool call that the page executed; the result is dropped (undefined) if the page has left the
   * thread.
   */
  addToolResult(toolCallId: string, result: unknown): Promise<StartedRun | undefined>;
  /** Replaces the messages of a queued turn. Like all changes of the queue, it resolves when it is shown, and rejects if it is refused. */
  editTurn(runId: string, input: SendInput): Promise<void>;
  /** Moves a queued turn before another one; to the end if `before` is null. */
  moveTurn(runId: string, before: string | null): Promise<void>;
  /** Removes a queued turn; it leaves no run. */
  removeTurn(runId: string): Promise<void>;
  /** Begins a queued turn as soon as possible: it becomes the first, the queue is released, and the active run is stopped. */
  startTurn(runId: string): Promise<void>;
  /** Holds the queue: no turn begins until it is released. */
  holdQueue(): Promise<void>;
  /** Releases the queue, whatever holds it. */
  releaseQueue(): Promise<void>;
  /** Loads older messages. */
  fetchMoreMessages(): Promise<void>;
  /** Marks everything shown so far as read; sends a request only if there is something new. Never rejects. */
  markRead(): Promise<void>;
}

/**
 * Returns a live thread: its messages as they stream, its state, its run. Pass null if no thread is selected. `S` and `M` are
 * the types of its state and messages, which are not checked.
 */
export function useThread<S = State, M extends Message = Message>(
  threadId: string | null,
  { agentId, tools }: UseThreadOptions = {},
): UseThread<S, M> {
  const thread = useShownThread(threadId);
  const binding = useMemo(() => {
    const { store, open: shown, show } = thread;
    const begin = ({ threadId, started }: Forking) => {
      show(threadId);
      return started;
    };
    return {
      ...thread,
      register: (source: () => PageTools) => thread.attach(({ tools }) => tools.register(source, { agentId })),
      methods: {
        send: (async (input: SendInput, options?: { readonly busy?: Busy | undefined }) =>
          store().send(input, { agentId, ...options })) as UseThread["send"],
        retry: async (messageId: string) => store().retry(messageId),
        discard: (messageId: string) => shown()?.discard(messageId),
        edit: async (messageId: string, input: SendInput, options?: { readonly stop?: boolean }) =>
          begin(store().branches.edit(messageId, input, { agentId, ...options })),
        regenerate: async (messageId: string, options?: { readonly stop?: boolean }) =>
          begin(store().branches.regenerate(messageId, { agentId, ...options })),
        showBranch: (branch: string) => {
          shown()?.leadTo(branch);
          show(branch);
        },
        listBranch: async (threadId: string) => store().branches.list(threadId),
        stop: async () => shown()?.stop(),
        resume: async (answers: readonly InterruptAnswer[]) => store().resume(answers, { agentId }),
        addToolResult: async (toolCallId: string, result: unknown) =>
          shown()?.addToolResult(toolCallId, result, { agentId }),
        editTurn: async (runId: string, input: SendInput) => store().queue.edit(runId, input),
        moveTurn: async (runId: string, before: string | null) => store().queue.move(runId, before),
        removeTurn: async (runId: string) => store().queue.remove(runId),
        startTurn: async (runId: string) => store().queue.start(runId),
        holdQueue: async () => store().queue.hold(),
        releaseQueue: async () => store().queue.release(),
        fetchMoreMessages: async () => shown()?.fetchMoreMessages(),
        markRead: async () => shown()?.markRead(),
      },
    };
  }, [thread, agentId]);
  const snapshot = useSyncExternalStore(binding.subscribe, binding.getSnapshot, binding.getServerSnapshot);
  const latest = useRef<PageTools>(NO_TOOLS);
  const hasTools = tools !== undefined;
  useEffect(() => {
    latest.current = tools ?? NO_TOOLS;
  });
  useEffect(() => (hasTools ? binding.register(() => latest.current) : undefined), [binding, hasTools]);
  return useMemo(() => ({ ...(snapshot as ThreadSnapshot<S, M>), ...binding.methods }), [snapshot, binding]);
}

const NO_TOOLS: PageTools = {};
