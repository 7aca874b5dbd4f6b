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

/** The history of AgentKit's networks and agents, in Threadline: `createNetwork({ history: threadlineHistory({ … }) })`. */
export function threadlineHistory<T extends StateData = StateData>(options: HistoryOptions<T>): ThreadlineHistory<T> {
  const history = new Recorder(options);
  // AgentKit takes the hooks off the object, and `publish` is handed over on its own.
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

/** What says where a run works. */
interface TargetContext<T extends StateData> {
  readonly threadId: string;
  readonly state: State<T>;
  readonly network?: NetworkRun<T>;
  readonly input: string;
}

/** A thread that a run works on. */
interface Target {
  readonly thread: ThreadRef;
  readonly agentId: string | undefined;
  /** Makes it, unless it is known to be there. */
  readonly make: () => Promise<void>;
}

/** The hooks of one history. */
class Recorder<T extends StateData> {
  readonly streams = new Streams();
  readonly #options: HistoryOptions<T>;
  /** What `get` gave: where an agent has the history as well as its network, it comes back among the new results. */
  readonly #loaded = new WeakSet<AgentResult>();
  /** Results of agents without a network, by the run that AgentKit makes for each. */
  readonly #alone = new WeakMap<NetworkRun<T>, AgentResult[]>();
  /** Runs of agents without a network whose question was saved. */
  readonly #asked = new WeakSet<NetworkRun<T>>();
  /** The turn that was saved last for a state. */
  readonly #turns = new WeakMap<State<T>, UserTurn>();
  readonly #clients = new WeakMap<State<T>, Threadline>();
  /** Whether the thread of a state is known to be there, or not to be. */
  readonly #exists = new WeakMap<State<T>, boolean>();
  /** What is known to be stored of a state. */
  readonly #stored = new WeakMap<State<T>, StoredState>();

  constructor(options: HistoryOptions<T>) {
    this.#options = options;
    // Options that cannot work are refused at once, and not when somebody says something.
    this.#clientOf(undefined);
  }

  async createThread(context: Context<T, "createThread">): Promise<{ threadId: string }> {
    const { state, input, step, network } = context;
    if (network && !isAlone(network) && !network.history) {
      throw new ConfigError(
        "give the history to the network: its agents' answers are given to no history of their own",
      );
    }
    // An id of its own, and one that an execution of an Inngest function keeps: a second try makes no second thread.
    const threadId = state.threadId || (await once(step, "thread id", async () => newId()));
    const target = this.#target({ ...context, threadId });
    await this.#open(target, state, step, !state.threadId);
    if (isAlone(network) && input !== "") {
      // AgentKit has no hook for the message of an agent on its own.
      await this.#appendTurn(target, state, step, { content: input });
      if (network) this.#asked.add(network);
    }
    return { threadId };
  }

  async get({ threadId, state, step }: Context<T, "get">): Promise<AgentResult[]> {
    if (threadId === undefined) return [];
    const thread = this.#client(state).thread(threadId);
    // What goes through a step is small, and not the turns: up to this point the log never changes, whoever reads it when.
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
    // Without the hook that makes threads AgentKit makes up an id itself.
    if (!this.#exists.has(state)) await this.#open(target, state, step, false);
    await this.#appendTurn(target, state, step, { id, content, at: timestamp.getTime() });
  }

  async appendResults(context: Context<T, "appendResults">): Promise<void> {
    const { threadId, state, network, input, step, newResults, userMessage } = context;
    if (threadId === undefined) return;
    const alone = isAlone(network) ? this.#alone.get(network) : undefined;
    if (network && isAlone(network) && !alone && newResults.length === 0) {
      throw new ConfigError(
        "the answer of an agent without a network is not saved: AgentKit gives it to no hook of its history. Create the agent with" +
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
      // Without the hook that makes threads nothing has told of the question yet. Its time is not after that of the answer.
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

  /** Where what a context tells of is saved, as the owner of its state. */
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

  /** A run begins to work on a thread, which is made with the first thing that is saved in it. */
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
    // AgentKit makes up another id and time in each execution.
    const turn = { ...(await once(step, "message id", async () => ({ id, at }))), content };
    this.#turns.set(state, turn);
    await once(step, "append message", async () => {
      const run = await userRun(target.thread.threadId, turn);
      await this.#save(target, run, textUnit(turn.id, "user", content));
      return null;
    });
    // A thread that is deleted from now on is not made again.
    this.#exists.set(state, true);
  }

  /** Into the open run of the thread, if there is one, which would not let a whole run in; there without the run's own events. */
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

  /** On behalf of the user that the state named when the run began, whatever becomes of it. */
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
      // A run has a client of its own: so its hooks share the time.
      retries: { reads: timeout, writes: timeout, producers: timeout, together: true },
      ...(fetch && { fetch }),
      ...(user !== undefined && { user }),
    });
  }
}

/** AgentKit runs an agent without a network in one that has no agents. */
function isAlone<T extends StateData>(network: NetworkRun<T> | undefined): boolean {
  return network === undefined || network.agents.size === 0;
}

/** Whether a turn that was saved is this message: by its id, or by its words if it has none. */
function isSaid({ id, content }: PassedUserMessage, turn: UserTurn | undefined): boolean {
  return turn !== undefined && (id === undefined ? content === turn.content : id === turn.id);
}

/** Gives every result the key that it keeps, however often it is saved. */
async function keyResults<T extends StateData>(results: AgentResult[], step: Step<T>): Promise<KeyedResult[]> {
  const keys = async () => Promise.all(results.map((result) => result.id ?? contentKey(result)));
  // In a network every result has an id; without one, its time is another one in each execution.
  const known = results.every(({ id }) => id !== undefined) ? await keys() : await once(step, "result keys", keys);
  const keyed = results.map((result, index) => ({ key: known[index] ?? "", result }));
  return keyed.filter(({ key }, index) => known.indexOf(key) === index);
}

/** `undefined` if there is no such thread. */
async function found404(asked: Promise<Thread>): Promise<Thread | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (isProblem(error, "thread-not-found")) return undefined;
    throw error;
  }
}

/** Makes a thread that another one may be making at this moment. That of another user stays a refusal. */
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
