import type { ConnectionStatus } from "../connection/status.js";
import type { ThreadlineError } from "../errors.js";
import type { Busy } from "../runs.js";
import type { Interrupt, Message, PlacedTurn, StartedRun, State, Thread, ToolCall } from "../types.js";
import type { SendInput } from "./input.js";
import type { Parting } from "./partings.js";
import { EMPTY_QUEUE, type QueueSnapshot } from "./queue.js";
import type { ThreadRun } from "./replay.js";

/** A message as a thread shows it: from the log, or on its way there. */
export type ShownMessage<M extends Message = Message> = M & {
  /** `sending`: not in the log yet. `failed`: it may never be; see `retry` and `discard`. Absent of a message in the log. */
  readonly delivery?: "sending" | "failed";
  /** The reason why the message has failed. */
  readonly deliveryError?: ThreadlineError;
};

/** Content of one branch that stays on screen until another one is loaded. */
export interface Kept extends Pick<ThreadSnapshot, "thread" | "state" | "branches" | "partings"> {
  /** The branch that it is of. */
  readonly threadId: string;
  /** The messages that the branches have in common. */
  readonly messages: readonly Message[];
  /** Settles when all requests before have been answered: a fork has its origin by then. */
  readonly ready: Promise<unknown>;
}

/** Fork that a run is about to begin. */
export interface Forking {
  /** Id of the fork; its store shows it at once. */
  readonly threadId: string;
  /** Settles with the run, or rejects with the refusal of its start. */
  readonly started: Promise<StartedRun>;
}

/** Snapshot of a thread, with the types of its state and messages: the package does not check them. */
export interface ThreadSnapshot<S = State, M extends Message = Message> {
  /** The id of the thread that is shown: that of the branch which has taken the place of the selected thread. null if none is selected. */
  readonly shownThreadId: string | null;
  /**
   * The record of the thread: its name, its agent, whether it is archived. null if the thread does not exist (yet). Until a branch is
   * loaded, the record of the thread that it was forked from: its `threadId` is not `shownThreadId` then.
   */
  readonly thread: Thread | null;
  /** The messages of the log, and after them those that this page has sent and that are not in the log yet; see `delivery`. */
  readonly messages: readonly ShownMessage<M>[];
  readonly state: S;
  /** Open interrupts, which wait for the answer of a person; see `resume`. */
  readonly interrupts: readonly Interrupt[];
  /**
   * Tool calls without a result, among the loaded messages. Complete when no run is active. Empty while initial data is shown
   * that the server may have newer events of.
   */
  readonly pendingToolCalls: readonly ToolCall[];
  /** The newest run received: its progress or its outcome. */
  readonly run: ThreadRun | null;
  readonly isRunning: boolean;
  /** True while a run that this page asked for has not been confirmed. */
  readonly isSending: boolean;
  /** The turns that wait for the active run to end; see `send`. */
  readonly queue: QueueSnapshot;
  /** The branches of the conversation, oldest first, the thread included; empty if it is the only one. See `edit`. */
  readonly branches: readonly Thread[];
  /** The places of the thread after which its branches differ, in order. */
  readonly partings: readonly Parting[];
  /** True until all stored events have been replayed. */
  readonly isLoading: boolean;
  /** The most recent error, or the reason why nothing can be loaded; null after the next success. */
  readonly error: ThreadlineError | null;
  readonly hasMoreMessages: boolean;
  readonly isFetchingMoreMessages: boolean;
  /** The connection status of the client. */
  readonly status: ConnectionStatus;
}

export const EMPTY_THREAD: ThreadSnapshot = {
  shownThreadId: null,
  thread: null,
  messages: [],
  state: {} as State,
  interrupts: [],
  pendingToolCalls: [],
  run: null,
  isRunning: false,
  isSending: false,
  queue: EMPTY_QUEUE,
  branches: [],
  partings: [],
  isLoading: true,
  error: null,
  hasMoreMessages: false,
  isFetchingMoreMessages: false,
  status: { state: "idle" },
};

/** Options of a new run. */
export interface SendOptions {
  readonly agentId?: string | undefined;
}

/** Options of a new run in a fork. */
export interface ForkRunOptions extends SendOptions {
  /** True to stop the active run of the thread, once the run of the fork has begun. */
  readonly stop?: boolean | undefined;
}

/** Options of a new run or turn. */
export interface TurnOptions extends SendOptions {
  /** Treatment of the request in a busy thread; `reject` by default. */
  readonly busy?: Busy | undefined;
}

/** Starts a run, or queues a turn. */
export interface Send<Options extends TurnOptions> {
  (input: SendInput, options?: Options & { readonly busy?: "reject" | undefined }): Promise<StartedRun>;
  (input: SendInput, options?: Options): Promise<StartedRun | PlacedTurn>;
}
