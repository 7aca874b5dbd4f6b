import type { AgentResult, NetworkRun, State, StateData } from "@inngest/agent-kit";
import { Threadline } from "../client.js";
import { isProblem } from "../errors.js";
import { newId } from "../ids.js";
import { TITLE_CHARS } from "../limits.js";
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

/** The hooks of one history. */
class Recorder<T extends StateData> {
  readonly streams = new Streams();
  readonly #options: HistoryOptions<T>;
  /** What `get` gave: where an agent has the history as well as its network, it comes back among the new results. */
  readonly #loaded = new WeakSet<AgentResult>();
  /** Results of agents without a network, by the run that AgentKit makes for each. */
  readonly #alone = new WeakMap<NetworkRun<T>, AgentResult[]>();
  /** The turn that was saved last for a state. */
  readonly #turns = new WeakMap<State<T>, UserTurn>();
  readonly #clients = new WeakMap<State<T>, Threadline>();
  /** What is known to be stored of a state. */
  readonly #stored = new WeakMap<State<T>, StoredState>();

  constructor(options: HistoryOptions<T>) {
    this.#options = options;
    // Options that cannot work are refused at once, and not when somebody says something.
    this.#clientOf(undefined);
  }

  async createThread({ state, input, step, network }: Context<T, "createThread">): Promise<{ threadId: string }> {
    // An id of its own, and one that an execution of an Inngest function keeps: a second try makes no second thread.
    const given = state.threadId || undefined;
    const threadId = given ?? (await once(step, "thread id", async () => newId()));
    const client = this.#client(state);
    const thread = client.thread(threadId);
    const agentId = this.#agentId(network);
    const point = await once(step, "open thread", async () => {
      const found = given === undefined ? undefined : await found404(thread.get());
      if (found) return pointOf(found);
      const name = this.#title(state, input);
      const made = { threadId, ...(name && { name }), ...(agentId !== undefined && { agentId }) };
      return pointOf(await madeOnce(client, thread, made));
    });
    this.streams.open({ thread, agentId, durable: step !== undefined });
    if (this.#options.persistState && point.tail > 0) await this.#hydrate(thread, state, point);
    if (isAlone(network) && input !== "") {
      // AgentKit has no hook for the message of an agent on its own.
      await this.#appendTurn(thread, state, step, agentId, { content: input });
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

  async appendUserMessage({ threadId, state, network, step, userMessage }: Context<T, "appendUserMessage">) {
    if (threadId === undefined) return;
    const { id, content, timestamp } = userMessage;
    const thread = this.#client(state).thread(threadId);
    await this.#appendTurn(thread, state, step, this.#agentId(network), { id, content, at: timestamp.getTime() });
  }

  async appendResults(context: Context<T, "appendResults">): Promise<void> {
    const { threadId, state, network, step, newResults, userMessage } = context;
    if (threadId === undefined) return;
    const thread = this.#client(state).thread(threadId);
    const agentId = this.#agentId(network);
    const alone = isAlone(network) ? (this.#alone.get(network) ?? []) : [];
    const results = [...newResults, ...alone].filter((result) => !this.#loaded.has(result));
    const keyed = await keyResults(results, step);
    const keys = keyed.map(({ key }) => key);
    if (userMessage && !isSaid(userMessage, this.#turns.get(state))) {
      const { id = keys[0] && `${keys[0]}:user`, content, timestamp } = userMessage;
      await this.#appendTurn(thread, state, step, agentId, { ...(id && { id }), content, at: timestamp.getTime() });
    }
    if (results.length === 0) return;
    await once(step, "append results", async () => {
      const streamed = await this.streams.streamed(threadId, keys);
      await this.#put(thread, agentId, keyed, streamed);
      if (this.#options.persistState) await this.#putState(thread, agentId, state, keys);
      return null;
    });
    this.streams.forget(threadId, keys);
  }

  onFinish({ network, result }: Parameters<Hooks<T>["lifecycle"]["onFinish"]>[0]): AgentResult {
    if (network && isAlone(network)) this.#alone.set(network, [...(this.#alone.get(network) ?? []), result]);
    return result;
  }

  async #put(thread: ThreadRef, agentId: string | undefined, keyed: KeyedResult[], streamed: ReadonlySet<string>) {
    for (const run of await resultRuns(thread.threadId, keyed, streamed)) await this.#save(thread, agentId, run);
  }

  async #putState(thread: ThreadRef, agentId: string | undefined, state: State<T>, keys: readonly string[]) {
    const now = takeState(state);
    const { state: current } = await thread.state();
    const events = stateEvents(current, this.#stored.get(state), now);
    if (events.length > 0) {
      await this.#save(thread, agentId, whole(thread.threadId, await runIdOf("s", keys), events));
    }
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
    thread: ThreadRef,
    state: State<T>,
    step: Step<T>,
    agentId: string | undefined,
    said: { readonly id?: string; readonly content: string; readonly at?: number },
  ): Promise<void> {
    const { id = newId(), content, at = Date.now() } = said;
    // AgentKit makes up another id and time in each execution.
    const turn = { ...(await once(step, "message id", async () => ({ id, at }))), content };
    this.#turns.set(state, turn);
    await once(step, "append message", async () => {
      await this.#save(thread, agentId, await userRun(thread.threadId, turn), textUnit(turn.id, "user", content));
      return null;
    });
  }

  /** Into the open run of the thread, if there is one, which would not let a whole run in; there without the run's own events. */
  async #save(
    thread: ThreadRef,
    agentId: string | undefined,
    run: WholeRun,
    events: readonly AgUiEvent[] = run.events.slice(1, -1),
  ) {
    const live = await this.streams.live(thread.threadId);
    if (!(await live?.write(events))) await put(thread, run, agentId);
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
    const { url, apiKey, project, retryFor, fetch } = options;
    return new Threadline({
      url,
      ...(apiKey !== undefined && { apiKey }),
      ...(project !== undefined && { project }),
      ...(retryFor !== undefined && { retryFor }),
      ...(fetch && { fetch }),
      ...(user !== undefined && { user }),
    });
  }

  #agentId(network: NetworkRun<T> | undefined): string | undefined {
    return this.#options.agentId ?? (network && !isAlone(network) ? network.name : undefined);
  }

  #title(state: State<T>, input: string): string | undefined {
    if (this.#options.title) return this.#options.title({ state, input });
    // By characters: half of one is none.
    const beginning = Array.from(input.trim()).slice(0, TITLE_CHARS).join("");
    return beginning.replace(/\p{Surrogate}/gu, "\ufffd") || undefined;
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
