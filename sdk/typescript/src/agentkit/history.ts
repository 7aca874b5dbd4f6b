import type { AgentResult, NetworkRun, State, StateData } from "@inngest/agent-kit";
import { Threadline } from "../client.js";
import { ConfigError, isProblem } from "../errors.js";
import { newId } from "../ids.js";
import { HOOKS_TIMEOUT_MS } from "../limits.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent, Thread } from "../types.js";
import type { HistoryOptions, PassedUserMessage, ThreadlineHistory } from "./options.js";
import { contentKey, type KeyedResult } from "./record.js";
import { giveState, stateEvents, type StoredState, storedIn, takeState } from "./state.js";
import { once, type Step } from "./step.js";
import { Streams } from "./streams.js";
import { type Point, readTurns } from "./turns.js";
import { textUnit } from "./view.js";
import { put, resultRuns, runIdOf, type UserTurn, userRun, whole, type WholeRun } from "./whole.js";

/**
 * Stores the history of AgentKit's networks and agents in Threadline: `createNetwork({ history: threadlineHistory({ … })
 * })`.
 */
export function threadlineHistory<T extends StateData = StateData>(options: HistoryOptions<T>): ThreadlineHistory<T> {
  const history = new Recorder(options);
  // Bound methods, since AgentKit detaches the hooks from the object, and `publish` is passed on its own.
  return {
    createThread: (context) => history.createThread(context),
    get: (context) => history.get(context),
    appendUserMessage: (context) => history.appendUserMessage(context),
    appendResults: (context) => history.appendResults(context),
    lifecycle: { onFinish: (args) => history.onFinish(args) },
    publish: (chunk) => history.streams.take(chunk),
  };
}

type Hooks<T extends StateData> = ThreadlineHistory<T>;
type Context<T extends StateData, Hook extends keyof Hooks<T>> = Hooks<T>[Hook] extends (context: infer C) => unknown
  ? C
  : never;

/** Context that identifies the thread of a run. */
interface TargetContext<T extends StateData> {
  readonly threadId: string;
  readonly state: State<T>;
  readonly network?: NetworkRun<T>;
  readonly input: string;
}

/** The thread of a run. */
interface Target {
  readonly thread: ThreadRef;
  readonly agentId: string | undefined;
  /** Creates the thread, unless it is known to exist. */
  readonly make: () => Promise<void>;
}

/** The hooks of one history. */
class Recorder<T extends StateData> {
  readonly streams = new Streams();
  readonly #options: HistoryOptions<T>;
  /** Results returned by `get`. If an agent has the same history as its network, they are passed again as new results. */
  readonly #loaded = new WeakSet<AgentResult>();
  /** Results of agents without a network, by the network run that AgentKit creates for each of them. */
  readonly #alone = new WeakMap<NetworkRun<T>, AgentResult[]>();
  /** Network runs of such agents whose user message was saved. */
  readonly #asked = new WeakSet<NetworkRun<T>>();
  /** The last saved turn of each state. */
  readonly #turns = new WeakMap<State<T>, UserTurn>();
  readonly #clients = new WeakMap<State<T>, Threadline>();
  /** True if the thread of a state is known to exist, false if it is known not to. */
  readonly #exists = new WeakMap<State<T>, boolean>();
  /** The last known stored version of a state. */
  readonly #stored = new WeakMap<State<T>, StoredState>();

  constructor(options: HistoryOptions<T>) {
    this.#options = options;
    // Invalid options are refused immediately, and not with the first message.
    this.#clientOf(undefined);
  }

  async createThread(context: Context<T, "createThread">): Promise<{ threadId: string }> {
    const { state, input, step, network } = context;
    if (network && !isAlone(network) && !network.history) {
      throw new ConfigError(
        "pass the history to the network: AgentKit does not pass the answers of its agents to their own history",
      );
    }
    // A separate id, which every execution of an Inngest function keeps, so that a retry does not create a second thread.
    const threadId = state.threadId || (await once(step, "thread id", async () => newId()));
    const target = this.#target({ ...context, threadId });
    await this.#open(target, state, step, !state.threadId);
    if (isAlone(network) && input !== "") {
      // AgentKit has no hook for the message to an agent without a network.
      await this.#appendTurn(target, state, step, { content: input });
      if (network) this.#asked.add(network);
    }
    return { threadId };
  }

  async get({ threadId, state, step }: Context<T, "get">): Promise<AgentResult[]> {
    if (threadId === undefined) return [];
    const thread = this.#client(state).thread(threadId);
    // Only the small result is stored in the step, not the turns: up to this point the log never changes, so it can be read
    // at any time.
    const point = await once(step, "history", async () => {
      const found = await found404(thread.get());
      return found ? pointOf(found) : null;
    });
    if (!point) return [];
    const results = await readTurns(thread, point);
    for (const result of results) this.#loaded.add(result);
    return results;
  }

  async appendUserMessage(context: Context<T, "appendUserMessage">): Promise<void> {
    const { threadId, state, step, userMessage } = context;
    if (threadId === undefined) return;
    const { id, content, timestamp } = userMessage;
    const target = this.#target({ ...context, threadId });
    // Without the `createThread` hook AgentKit generates an id itself.
    if (!this.#exists.has(state)) await this.#open(target, state, step, false);
    await this.#appendTurn(target, state, step, { id, content, at: timestamp.getTime() });
  }

  async appendResults(context: Context<T, "appendResults">): Promise<void> {
    const { threadId, state, network, input, step, newResults, userMessage } = context;
    if (threadId === undefined) return;
    const alone = isAlone(network) ? this.#alone.get(network) : undefined;
    if (network && isAlone(network) && !alone && newResults.length === 0) {
      throw new ConfigError(
        "the answer of an agent without a network is not saved: AgentKit passes it to no hook of the history. Create the agent with" +
          " lifecycle: history.lifecycle, or have its own onFinish end with return history.lifecycle.onFinish(args)",
      );
    }
    const target = this.#target({ ...context, threadId });
    const results = [...newResults, ...(alone ?? [])].filter((result) => !this.#loaded.has(result));
    const keyed = await keyResults(results, step);
    const keys = keyed.map(({ key }) => key);
    if (userMessage && !isSaid(userMessage, this.#turns.get(state))) {
      const { id = keys[0] && `${keys[0]}:user`, content, timestamp } = userMessage;
      await this.#appendTurn(target, state, step, { ...(id && { id }), content, at: timestamp.getTime() });
    } else if (!userMessage && network && alone && input !== "" && !this.#asked.has(network)) {
      // Without the `createThread` hook the user's message has not been saved yet. Its time must not be after that of the
      // answer.
      this.#asked.add(network);
      await this.#appendTurn(target, state, step, { content: input, at: alone[0]?.createdAt.getTime() ?? Date.now() });
    }
    if (results.length === 0) return;
    await once(step, "append results", async () => {
      const streamed = await this.streams.streamed(threadId, keys);
      for (const run of await resultRuns(threadId, keyed, streamed)) await this.#save(target, run);
      if (this.#options.persistState) await this.#putState(target, state, keys);
      return null;
    });
    this.streams.forget(threadId, keys);
  }

  onFinish({ network, result }: Parameters<Hooks<T>["lifecycle"]["onFinish"]>[0]): AgentResult {
    if (network && isAlone(network)) this.#alone.set(network, [...(this.#alone.get(network) ?? []), result]);
    return result;
  }

  /** The thread of a context, accessed as the owner of its state. */
  #target({ threadId, state, network, input }: TargetContext<T>): Target {
    const client = this.#client(state);
    const thread = client.thread(threadId);
    const agentId = this.#options.agentId ?? (network && !isAlone(network) ? network.name : undefined);
    const make = async () => {
      const exists = this.#exists.get(state) ?? (await found404(thread.get())) !== undefined;
      if (!exists) {
        const name = this.#options.title?.({ state, input });
        await madeOnce(client, thread, { threadId, ...(name && { name }), ...(agentId !== undefined && { agentId }) });
      }
      this.#exists.set(state, true);
    };
    return { thread, agentId, make };
  }

  /** Called when a run starts to work on a thread. The thread is created when the first data is saved. */
  async #open(target: Target, state: State<T>, step: Step<T>, isNew: boolean): Promise<void> {
    const look = async () => {
      const found = await found404(target.thread.get());
      return found ? pointOf(found) : null;
    };
    const point = isNew ? null : await once(step, "open thread", look);
    this.#exists.set(state, point !== null);
    this.streams.open({ ...target, durable: step !== undefined });
    if (this.#options.persistState && point && point.tail > 0) await this.#hydrate(target.thread, state, point);
  }

  async #putState(target: Target, state: State<T>, keys: readonly string[]): Promise<void> {
    const { thread } = target;
    const now = takeState(state);
    const { state: current } = await thread.state();
    const events = stateEvents(current, this.#stored.get(state), now);
    if (events.length > 0) await this.#save(target, whole(thread.threadId, await runIdOf("s", keys), events));
    this.#stored.set(state, now);
  }

  async #hydrate(thread: ThreadRef, state: State<T>, { epoch, tail }: Point): Promise<void> {
    const stored = storedIn((await thread.state({ at: tail, epoch })).state);
    if (!stored) return;
    const { persistState } = this.#options;
    const kept = typeof persistState === "object" ? persistState.keep : [];
    giveState(state, stored, ["userId", ...kept]);
    this.#stored.set(state, stored);
  }

  async #appendTurn(
    target: Target,
    state: State<T>,
    step: Step<T>,
    said: { readonly id?: string; readonly content: string; readonly at?: number },
  ): Promise<void> {
    const { id = newId(), content, at = Date.now() } = said;
    // AgentKit generates a new id and time in each execution.
    const turn = { ...(await once(step, "message id", async () => ({ id, at }))), content };
    this.#turns.set(state, turn);
    await once(step, "append message", async () => {
      const run = await userRun(target.thread.threadId, turn);
      await this.#save(target, run, textUnit(turn.id, "user", content));
      return null;
    });
    // A thread that is deleted from now on is not created again.
    this.#exists.set(state, true);
  }

  /**
   * Saves into the open run of the thread, without the complete run's own start and end events; without an open run, as a
   * complete run.
   */
  async #save(
    { thread, agentId, make }: Target,
    run: WholeRun,
    events: readonly AgUiEvent[] = run.events.slice(1, -1),
  ): Promise<void> {
    const live = await this.streams.live(thread.threadId);
    if (await live?.write(events)) return;
    await make();
    await put(thread, run, agentId);
  }

  /** The client of the user that the state named when the run started, even if the state changes. */
  #client(state: State<T>): Threadline {
    let client = this.#clients.get(state);
    if (!client) {
      const { user } = this.#options;
      const { userId } = state.data as { userId?: unknown };
      client = this.#clientOf(user ? user(state) : typeof userId === "string" ? userId : undefined);
      this.#clients.set(state, client);
    }
    return client;
  }

  #clientOf(user: string | undefined): Threadline {
    const options = this.#options;
    if (options.client) return options.client;
    const { url, apiKey, project, timeout = HOOKS_TIMEOUT_MS, fetch } = options;
    return new Threadline({
      url,
      ...(apiKey !== undefined && { apiKey }),
      ...(project !== undefined && { project }),
      // Each run has its own client, so that its hooks share the retry time.
      retries: { reads: timeout, writes: timeout, producers: timeout, together: true },
      ...(fetch && { fetch }),
      ...(user !== undefined && { user }),
    });
  }
}

/** True if AgentKit created this network, which has no agents, for an agent without a network. */
function isAlone<T extends StateData>(network: NetworkRun<T> | undefined): boolean {
  return network === undefined || network.agents.size === 0;
}

/** True if a saved turn is this message: by its id, or by its text if it has none. */
function isSaid({ id, content }: PassedUserMessage, turn: UserTurn | undefined): boolean {
  return turn !== undefined && (id === undefined ? content === turn.content : id === turn.id);
}

/** Assigns every result a stable key, which is the same however often the result is saved. */
async function keyResults<T extends StateData>(results: AgentResult[], step: Step<T>): Promise<KeyedResult[]> {
  const keys = async () => Promise.all(results.map((result) => result.id ?? contentKey(result)));
  // In a network every result has an id. A result without one has a different time in each execution.
  const known = results.every(({ id }) => id !== undefined) ? await keys() : await once(step, "result keys", keys);
  const keyed = results.map((result, index) => ({ key: known[index] ?? "", result }));
  return keyed.filter(({ key }, index) => known.indexOf(key) === index);
}

/** `undefined` if the thread does not exist. */
async function found404(asked: Promise<Thread>): Promise<Thread | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isProblem(error, "thread-not-found")) return undefined;
    throw error;
  }
}

/** Creates a thread that may be created concurrently. A thread of another user is still refused. */
async function madeOnce(client: Threadline, thread: ThreadRef, made: { threadId: string }): Promise<Thread> {
  try {
    return await client.threads.create(made);
  } catch (error) {
    const found = isProblem(error, "thread-exists") ? await found404(thread.get()) : undefined;
    if (!found) throw error;
    return found;
  }
}

function pointOf({ epoch, tail }: Thread): Point {
  return { epoch, tail };
}
