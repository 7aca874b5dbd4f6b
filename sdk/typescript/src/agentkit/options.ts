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

interface Connection extends Pick<ThreadlineOptions, "url" | "apiKey" | "project" | "fetch"> {
  /**
   * Time that the hooks of one run wait, together, for a server that is away, in milliseconds; 10,000 if not given. Then the run
   * rejects. Other runs of the thread are waited for all the same.
   */
  readonly timeout?: number;
}

/** What a thread is made for. */
export interface TitleContext<T extends StateData> {
  readonly state: State<T>;
  readonly input: string;
}

interface Behaviour<T extends StateData> {
  /**
   * Whose threads they are: every request is made as this user, who sees no thread of others. `state.data.userId` if not
   * given; without any the server's default user, which only its development mode has.
   */
  readonly user?: (state: State<T>) => string | undefined;
  /** The agent that threads and runs are of in lists; the network's name if not given. */
  readonly agentId?: string;
  /** The name of a new thread. Without it the server names the thread, where it does that. */
  readonly title?: (context: TitleContext<T>) => string | undefined;
  /**
   * Keeps `state.data` and `state.kv` in the thread too, and gives them to the networks that go on with it. Whoever may write
   * into the thread may change them, as its user's token may: keys that tools trust are `keep`t as `createState` was given them.
   * `userId` always is.
   */
  readonly persistState?: boolean | { readonly keep: readonly string[] };
}

/** Where the server is, or a client of it, which then acts as whoever it is, with its own `retries`. And how threads are kept. */
export type HistoryOptions<T extends StateData> = Behaviour<T> &
  ((Connection & { readonly client?: never }) | { readonly client: Threadline; readonly url?: never });

/** The user's message as the documented interface of AgentKit passes it to `appendResults`. */
export interface PassedUserMessage {
  readonly id?: string;
  readonly content: string;
  readonly role: "user";
  readonly timestamp: Date;
}

type HookContext<T extends StateData> = History.Context<T>;

/** The history of AgentKit's networks and agents, in Threadline. */
export interface ThreadlineHistory<T extends StateData> extends HistoryConfig<T> {
  /** Gives the run its thread; one that is not there is made when the first thing is saved in it. */
  createThread(context: History.CreateThreadContext<T>): Promise<{ threadId: string }>;
  /** All turns of a thread, the newest last; of a thread that does not exist, none. Every call gives new objects. */
  get(context: HookContext<T>): Promise<AgentResult[]>;
  /** Saves the user's message, once for each id. */
  appendUserMessage(
    context: HookContext<T> & { userMessage: { id: string; content: string; role: "user"; timestamp: Date } },
  ): Promise<void>;
  /** Saves results, once for each id, and the user's message if one is passed that is not there yet. */
  appendResults(
    context: HookContext<T> & { newResults: AgentResult[]; userMessage?: PassedUserMessage },
  ): Promise<void>;
  /** For an agent without a network, as its `lifecycle`: AgentKit gives its results to no other hook. */
  readonly lifecycle: { onFinish(args: Agent.LifecycleArgs.Result<T>): AgentResult };
  /** For `streaming: { publish }`: shows what is streamed in the thread while the network is at work. */
  publish(chunk: AgentMessageChunk): Promise<void>;
}
