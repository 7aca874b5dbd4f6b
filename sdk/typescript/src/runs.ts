import { ConfigError, ConnectionError, isProblem, type ThreadlineError } from "./errors.js";
import type { Call, Http } from "./http.js";
import { newId } from "./ids.js";
import { toJson } from "./json.js";
import { WHOLE_RUN_TIMEOUT_MS } from "./limits.js";
import type { Appended, NewEvent, Run, RunPage, StartedRun } from "./types.js";

/** A call that its caller may give up: it then rejects with the signal's reason. */
export interface Cancellable {
  readonly signal?: AbortSignal;
}

/** A call that reads. */
export interface ReadOptions extends Cancellable {
  /** How long it goes on trying, in milliseconds, in place of the client's `retries.reads`: 0 for one try, Infinity for ever. */
  readonly retryFor?: number;
}

/** AG-UI's RunAgentInput, all of it or only what is new: the server knows the rest of the conversation. */
export interface RunInput {
  readonly messages?: readonly { readonly role: string; readonly [member: string]: unknown }[];
  readonly [member: string]: unknown;
}

export interface StartOptions extends Cancellable {
  /** Made up if absent. */
  readonly runId?: string;
  /** The agent that does it. */
  readonly agentId: string;
  readonly input: RunInput;
}

/** Requests about the runs of one thread. */
export class Runs {
  readonly #http: Http;
  readonly #path: readonly string[];

  constructor(http: Http, threadId: string) {
    this.#http = http;
    this.#path = ["threads", threadId, "runs"];
  }

  /**
   * Has an agent do a run; resolves as soon as it has begun. A problem `run-active` if another run is active, with the
   * facts of that one in `problem.run`; `interrupts-open` if the thread waits for answers.
   */
  start(options: StartOptions): Promise<StartedRun> {
    const { signal, runId = newId(), agentId, input } = options;
    return this.#http.call(this.#begin({ runId, agentId, input }, signal), isWorthAnotherTry);
  }

  /** Begins a run that its caller will do. A request that is on its way when the signal is aborted gets its answer all the same. */
  begin(
    body: { readonly runId: string; readonly [member: string]: unknown },
    signal?: AbortSignal,
  ): Promise<StartedRun> {
    const call = { ...this.#begin(body), kind: "producers" as const };
    return this.#http.retrying(
      (timeoutMs) => this.#http.once<StartedRun>({ ...call, timeoutMs }),
      { ...call, signal },
      isWorthAnotherTry,
    );
  }

  /** The runs, newest first. */
  list(options: ReadOptions & { limit?: number; cursor?: number; at?: number } = {}): Promise<RunPage> {
    const { signal, retryFor, ...query } = options;
    return this.#http.call({ path: this.#path, query, signal, retryFor });
  }

  get(runId: string, { signal, retryFor }: ReadOptions = {}): Promise<Run> {
    return this.#http.call({ path: [...this.#path, runId], signal, retryFor });
  }

  /** Asks a run to stop. Its producer has 10 s to end it; then the server does. */
  stop(runId: string, { signal }: Cancellable = {}): Promise<Run> {
    return this.#post(runId, "stop", { signal });
  }

  /**
   * Appends a finished run whole: all of it or nothing, and nothing if it is there already. Waits while another run is
   * active, for up to a minute.
   */
  async put(
    runId: string,
    events: readonly NewEvent[],
    options: Cancellable & { agentId?: string } = {},
  ): Promise<StartedRun> {
    if (!Array.isArray(events)) throw new ConfigError("the events of a run must be an array");
    const { signal, agentId } = options;
    // Few pages produce, and only they load the code of that.
    const { withMessageIds } = await import("./message-ids.js").catch((cause: unknown) => {
      throw new ConnectionError("cannot load the code of producers", { cause });
    });
    return this.#http.call({
      method: "PUT",
      path: [...this.#path, runId],
      query: { agentId },
      body: withMessageIds(runId, events),
      kind: "producers",
      leastMs: WHOLE_RUN_TIMEOUT_MS,
      signal,
    });
  }

  /** Appends events, JSON text each, once: `producerSeq` is the number of the first one. */
  append(runId: string, producerSeq: number, events: readonly string[], signal?: AbortSignal): Promise<Appended> {
    return this.#post(runId, "events", {
      query: { producerSeq },
      body: `[${events.join(",")}]`,
      kind: "producers",
      signal,
    });
  }

  /** One sign of life, not tried again. */
  heartbeat(runId: string, leaseSeconds: number, timeoutMs: number): Promise<Run> {
    const path = [...this.#path, runId, "heartbeat"];
    return this.#http.once({ method: "POST", path, body: { leaseSeconds }, timeoutMs });
  }

  /** Ends a run well: what is open is closed, then RUN_FINISHED. */
  finish(runId: string): Promise<Run> {
    return this.#post(runId, "finish", { kind: "producers" });
  }

  /** Ends a run badly: what is open is closed, then RUN_ERROR. */
  fail(runId: string, code: string, message: string): Promise<Run> {
    return this.#post(runId, "fail", { body: { code, message }, kind: "producers" });
  }

  /** With an id of its own the request can be repeated. */
  #begin(body: { readonly runId: string; readonly [member: string]: unknown }, signal?: AbortSignal): Call {
    return { method: "POST", path: this.#path, body, signal };
  }

  #post<T>(runId: string, what: string, call: Omit<Call, "path"> = {}): Promise<T> {
    return this.#http.call({ ...call, method: "POST", path: [...this.#path, runId, what] });
  }
}

/** Waiting for the end of another run is not for us to decide. */
function isWorthAnotherTry(error: ThreadlineError): boolean {
  return error.retryable && !isProblem(error, "run-active");
}

/** The JSON text of an event; throws if the server would refuse it for what it is. */
export function encodeEvent(event: NewEvent): string {
  if (typeof event?.type !== "string") throw new ConfigError("an event must be an object with a type");
  return toJson(event);
}
