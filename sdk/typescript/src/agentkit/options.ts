import type {
  Agent,
  AgentMessageChunk,
  AgentResult,
  History,
  HistoryConfig,
  State,
  StateData,
} from "@inngest/agent-kit";
import type { Threadline } from "../client.js";
import type { ThreadlineOptions } from "../config.js";
import type { NewEvent } from "../types.js";

interface Connection extends Pick<ThreadlineOptions, "url" | "apiKey" | "project" | "fetch"> {
  /**
   * Total time that the hooks of one run wait for an unreachable server, in milliseconds; 10,000 by default. Waiting for
   * other runs of the thread does not count.
   */
  readonly timeout?: number;
}

/** Context for naming a new thread. */
export interface TitleContext<T extends StateData> {
  readonly state: State<T>;
  readonly input: string;
}

/** A run of the thread that could not be saved. */
export interface UnsavedRun {
  readonly threadId: string;
  /** The id of the run. It may have been stored, if only the response was lost. */
  readonly runId: string;
  /** The agent of the thread and the run, if there is one. */
  readonly agentId?: string;
  /** The owner of the thread, unless the `client` of the options determines it. */
  readonly userId?: string;
}

interface Rejecting {
  /**
   * Effect of an unreachable server on a run, after `timeout`: `"reject"` (default), or `"continue"`, where the model may not see
   * the history. Other errors always reject.
   */
  readonly onUnavailable?: "reject";
  readonly onUnsaved?: never;
}

interface Continuing {
  readonly onUnavailable: "continue";
  /**
   * Receives the events of each run of the thread that could not be saved: a message, results or the state. A hook waits for
   * it. `client.thread(threadId).putRun(runId, events)` saves them later, at most once, if the thread exists.
   */
  readonly onUnsaved: (events: readonly NewEvent[], run: UnsavedRun) => void | Promise<void>;
}

interface Behaviour<T extends StateData> {
  /**
   * The owner of the threads: every request is made as this user, who cannot see threads of other users.
   * `state.data.userId` by default; without either, the server's default user, which exists only in development mode.
   */
  readonly user?: (state: State<T>) => string | undefined;
  /** The agent of threads and runs in lists; the network's name by default. */
  readonly agentId?: string;
  /** The name of a new thread. By default the server names the thread, if it is configured to do so. */
  readonly title?: (context: TitleContext<T>) => string | undefined;
  /**
   * Also stores `state.data` and `state.kv` in the thread, and restores them for networks that continue it. Everyone with
   * write access to the thread, such as the holder of its user's token, can change them. Keys that tools trust should be
   * listed in `keep`: they stay as passed to `createState`. `userId` is always kept.
   */
  readonly persistState?: boolean | { readonly keep: readonly string[] };
}

/**
 * Options of the history: the address of the server or a client, which then keeps its own credentials and `retries`; and
 * how threads are stored.
 */
export type HistoryOptions<T extends StateData> = Behaviour<T> &
  (Rejecting | Continuing) &
  ((Connection & { readonly client?: never }) | { readonly client: Threadline; readonly url?: never });

/** The user's message, as AgentKit's documented interface passes it to `appendResults`. */
export interface PassedUserMessage {
  readonly id?: string;
  readonly content: string;
  readonly role: "user";
  readonly timestamp: Date;
}

type HookContext<T extends StateData> = History.Context<T>;

/** The history of AgentKit's networks and agents, stored in Threadline. */
export interface ThreadlineHistory<T extends StateData> extends HistoryConfig<T> {
  /** Assigns a thread to the run. A thread that does not exist is created when the first data is saved. */
  createThread(context: History.CreateThreadContext<T>): Promise<{ threadId: string }>;
  /**
   * Returns all turns of a thread, the newest last; an empty list if the thread does not exist. Every call returns new
   * objects.
   */
  get(context: HookContext<T>): Promise<AgentResult[]>;
  /** Saves the user's message, once for each id. */
  appendUserMessage(
    context: HookContext<T> & { userMessage: { id: string; content: string; role: "user"; timestamp: Date } },
  ): Promise<void>;
  /** Saves results, once for each id, and the user's message if it is passed and not saved yet. */
  appendResults(
    context: HookContext<T> & { newResults: AgentResult[]; userMessage?: PassedUserMessage },
  ): Promise<void>;
  /** The `lifecycle` of an agent without a network, since AgentKit passes its results to no other hook. */
  readonly lifecycle: {
    onResponse(args: Agent.LifecycleArgs.Result<T>): AgentResult;
    onFinish(args: Agent.LifecycleArgs.Result<T>): AgentResult;
  };
  /** The function for `streaming: { publish }`: shows the streamed output in the thread while the network is running. */
  publish(chunk: AgentMessageChunk): Promise<void>;
}
