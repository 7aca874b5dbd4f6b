import type { AgentResult, NetworkRun, State, StateData } from "@inngest/agent-kit";
import { ConfigError, messageOf } from "../errors.js";
import { newId } from "../ids.js";
import { isAway } from "../reach.js";
import type { ThreadRef } from "../threads.js";
import type { AgUiEvent } from "../types.js";
import { isAlone, LoneAgents } from "./alone.js";
import { Availability } from "./availability.js";
import { Clients } from "./clients.js";
import type { HistoryOptions, PassedUserMessage, ThreadlineHistory } from "./options.js";
import { contentKey, type KeyedResult } from "./record.js";
import { giveState, stateEvents, type StoredState, storedIn, takeState } from "./state.js";
import { once, type Step } from "./step.js";
import { Streams } from "./streams.js";
import { createOnce, endOf } from "./thread.js";
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
    lifecycle: {
      onResponse: (args) => history.lone.onResponse(args),
      onFinish: (args) => history.lone.onFinish(args),
    },
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
  readonly userId: string | undefined;
  /** Creates the thread, unless it is known to exist, and saves the run's message if that failed before. */
  readonly make: () => Promise<void>;
}

/** Result of requests that found the server unreachable, if runs continue without it. */
const UNAVAILABLE = "unavailable";

/** The hooks of one history. */
class Recorder<T extends StateData> {
  readonly streams = new Streams();
  readonly lone = new LoneAgents<T>();
  readonly #options: HistoryOptions<T>;
  readonly #clients: Clients<T>;
  readonly #availability = new Availability();
  /** Results returned by `get`. If an agent has the same history as its network, they are passed again as new results. */
  readonly #loaded = new WeakSet<AgentResult>();
  /** The last turn of each state. */
  readonly #turns = new WeakMap<State<T>, UserTurn>();
  /** The turn of each state's run, if it could not be saved. */
  readonly #unsaved = new WeakMap<State<T>, WholeRun>();
  /** True if the thread of a state is known to exist, false if it is known not to; undefined if that is unknown. */
  readonly #exists = new WeakMap<State<T>, boolean | undefined>();
  /** The last known stored version of a state. */
  readonly #stored = new WeakMap<State<T>, StoredState>();
  /** States whose stored version could not be read. */
  readonly #unread = new WeakSet<State<T>>();

  constructor(options: HistoryOptions<T>) {
    this.#options = options;
    // Invalid options are refused immediately, and not with the first message.
    this.#clients = new Clients(options);
    if (options.onUnavailable === "continue" && typeof options.onUnsaved !== "function") {
      throw new ConfigError('onUnavailable: "continue" requires onUnsaved, which receives what could not be saved');
    }
  }

  async createThread(context: Context<T, "createThread">): Promise<{ threadId: string }> {
    const { state, input, step, network } = context;
    if (network && !isAlone(network) && !network.history) {
      throw new ConfigError(
        "pass the history to the network: AgentKit does not pass the answers of its agents to their own history",
      );
    }
    this.#clients.begin(state, network);
    // A separate id, which every execution of an Inngest function keeps, so that a retry does not create a second thread.
    const threadId = state.threadId || (await once(step, "thread id", async () => newId()));
    const target = this.#target({ ...context, threadId });
    await this.#open(target, state, step, !state.threadId);
    // AgentKit has no hook for the message to an agent without a network.
    if (isAlone(network) && input !== "" && (!network || this.lone.asks(network))) {
      await this.#appendTurn(target, state, step, { content: input });
    }
    return { threadId };
  }

  async get({ threadId, state, network, step }: Context<T, "get">): Promise<AgentResult[]> {
    if (threadId === undefined) return [];
    this.#clients.begin(state, network);
    const thread = this.#clients.of(state).thread(threadId);
    const warn = (error: unknown) =>
      console.warn(`threadline: the model does not see the history of ${threadId}: ${messageOf(error)}`);
    // Only the small result is stored in the step, not the turns: up to this point the log never changes, so it can be read
    // at any time.
    const point = await once(step, "history", () => this.#use(() => endOf(thread), warn));
    if (!point || point === UNAVAILABLE) return [];
    const results = await this.#use(() => readTurns(thread, point), warn);
    if (results === UNAVAILABLE) return [];
    for (const result of results) this.#loaded.add(result);
    return results;
  }

  async appendUserMessage(context: Context<T, "appendUserMessage">): Promise<void> {
    const { threadId, state, network, step, userMessage } = context;
    if (threadId === undefined) return;
    this.#clients.begin(state, network);
    const { id, content, timestamp } = userMessage;
    const target = this.#target({ ...context, threadId });
    // Without the `createThread` hook AgentKit generates an id itself.
    if (!this.#exists.has(state)) await this.#open(target, state, step, false);
    await this.#appendTurn(target, state, step, { id, content, at: timestamp.getTime() });
  }

  async appendResults(context: Context<T, "appendResults">): Promise<void> {
    const { threadId, state, network, input, step, newResults, userMessage } = context;
    if (threadId === undefined) return;
    const lone = network && isAlone(network) ? network : undefined;
    const alone = lone ? this.lone.results(lone) : [];
    if (lone && alone.length === 0 && newResults.length === 0) this.lone.warn();
    const target = this.#target({ ...context, threadId });
    const results = [...newResults, ...alone].filter((result) => !this.#loaded.has(result));
    const keyed = await keyResults(results, step);
    const keys = keyed.map(({ key }) => key);
    if (userMessage && !isSaid(userMessage, this.#turns.get(state))) {
      const { id = keys[0] && `${keys[0]}:user`, content, timestamp } = userMessage;
      await this.#appendTurn(target, state, step, { ...(id && { id }), content, at: timestamp.getTime() });
    } else if (!userMessage && lone && input !== "" && this.lone.asks(lone)) {
      // Without the `createThread` hook the user's message has not been saved yet. Its time must not be after that of the
      // answer.
      await this.#appendTurn(target, state, step, { content: input, at: alone[0]?.createdAt.getTime() ?? Date.now() });
    }
    if (results.length === 0) return;
    const ids = keyed.map(streamId);
    await once(step, "append results", async () => {
      const streamed = await this.streams.streamed(threadId, ids);
      for (const run of await resultRuns(threadId, keyed, streamed)) {
        await this.#use(
          () => this.#save(target, run),
          () => this.#handOver(target, run),
        );
      }
      if (this.#options.persistState) await this.#putState(target, state, keys);
      return null;
    });
    this.streams.forget(threadId, ids);
  }

  /**
   * Executes requests. Rejects if the server is unreachable, unless runs continue without it: then `otherwise` is called
   * instead.
   */
  async #use<R>(
    requests: () => Promise<R>,
    otherwise: (error: unknown) => unknown = () => {},
  ): Promise<R | typeof UNAVAILABLE> {
    try {
      return await this.#availability.use(requests);
    } catch (error) {
      if (this.#options.onUnavailable !== "continue" || !isAway(error)) throw error;
      await otherwise(error);
      return UNAVAILABLE;
    }
  }

  /** The thread of a context, accessed as the owner of its state. */
  #target({ threadId, state, network, input }: TargetContext<T>): Target {
    const client = this.#clients.of(state);
    const thread = client.thread(threadId);
    const agentId = this.#options.agentId ?? (network && !isAlone(network) ? network.name : undefined);
    const make = async () => {
      const exists = this.#exists.get(state) ?? (await endOf(thread)) !== null;
      if (!exists) {
        const name = this.#options.title?.({ state, input });
        await createOnce(client, thread, { ...(name && { name }), ...(agentId !== undefined && { agentId }) });
      }
      this.#exists.set(state, true);
      const unsaved = this.#unsaved.get(state);
      if (unsaved) await put(thread, unsaved, agentId);
      this.#unsaved.delete(state);
    };
    return { thread, agentId, userId: this.#clients.owner(state), make: () => this.#availability.use(make) };
  }

  /** Called when a run starts to work on a thread. The thread is created when the first data is saved. */
  async #open(target: Target, state: State<T>, step: Step<T>, isNew: boolean): Promise<void> {
    const { thread } = target;
    const point = isNew ? null : await once(step, "open thread", () => this.#use(() => endOf(thread)));
    this.#exists.set(state, point === UNAVAILABLE ? undefined : point !== null);
    this.#unsaved.delete(state);
    this.streams.open({ ...target, durable: step !== undefined });
    if (!this.#options.persistState || !point) return;
    const hydrated = point === UNAVAILABLE ? point : await this.#use(() => this.#hydrate(thread, state, point));
    if (hydrated === UNAVAILABLE) this.#unread.add(state);
    else this.#unread.delete(state);
  }

  async #putState(target: Target, state: State<T>, keys: readonly string[]): Promise<void> {
    const { thread } = target;
    const { threadId } = thread;
    const now = takeState(state);
    const runId = await runIdOf("s", keys);
    const handOver = () => this.#handOver(target, whole(threadId, runId, [{ type: "STATE_SNAPSHOT", snapshot: now }]));
    // The values that the run started with must not replace stored ones that it has never seen.
    if (this.#unread.has(state)) return handOver();
    await this.#use(async () => {
      const { state: current } = await thread.state();
      const events = stateEvents(current, this.#stored.get(state), now);
      if (events.length > 0) await this.#save(target, whole(threadId, runId, events));
      this.#stored.set(state, now);
    }, handOver);
  }

  async #hydrate(thread: ThreadRef, state: State<T>, { epoch, tail }: Point): Promise<void> {
    const stored = tail > 0 ? storedIn((await thread.state({ at: tail, epoch })).state) : undefined;
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
    const run = await userRun(target.thread.threadId, turn);
    const save = () => this.#save(target, run, textUnit(turn.id, "user", content)).then(() => null);
    const saved = await once(step, "append message", () => this.#use(save, () => this.#handOver(target, run)));
    if (saved === UNAVAILABLE) this.#unsaved.set(state, run);
    // A thread that is deleted from now on is not created again.
    else this.#exists.set(state, true);
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

  /** Passes a run that could not be saved to the application. */
  async #handOver({ thread, agentId, userId }: Target, { runId, events }: WholeRun): Promise<void> {
    const { threadId } = thread;
    await this.#options.onUnsaved?.(events, {
      threadId,
      runId,
      ...(agentId !== undefined && { agentId }),
      ...(userId !== undefined && { userId }),
    });
  }
}

/** True if a saved turn is this message: by its id, or by its text if it has none. */
function isSaid({ id, content }: PassedUserMessage, turn: UserTurn | undefined): boolean {
  return turn !== undefined && (id === undefined ? content === turn.content : id === turn.id);
}

/** Assigns every result a stable key, which is the same however often the result is saved. */
async function keyResults<T extends StateData>(results: AgentResult[], step: Step<T>): Promise<KeyedResult[]> {
  const keys = async () => Promise.all(results.map(keyOf));
  // In a network every result has an id. A result without one has a different time in each execution.
  const known = results.every(({ id }) => id !== undefined) ? await keys() : await once(step, "result keys", keys);
  const keyed = results.map((result, index) => ({ key: known[index] ?? "", result }));
  return keyed.filter(({ key }, index) => known.indexOf(key) === index);
}

/** The id of a result. All responses of an agent without a network have the same one: the last keeps it as its key. */
async function keyOf(result: AgentResult, index: number, results: readonly AgentResult[]): Promise<string> {
  const { id } = result;
  if (id === undefined) return contentKey(result);
  const last = results.findLastIndex((other) => other.id === id);
  return index === last ? id : `${id}:${last - index}`;
}

/** The id under which AgentKit streams a result. */
function streamId({ key, result }: KeyedResult): string {
  return result.id ?? key;
}
