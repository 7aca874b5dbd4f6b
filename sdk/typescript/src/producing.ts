// Requests of producers. Most pages produce no runs, so this code is loaded on demand.

import { ConfigError } from "./errors.js";
import type { Call, Http } from "./http.js";
import { toJson } from "./json.js";
import { WHOLE_RUN_TIMEOUT_MS } from "./limits.js";
import { withMessageIds } from "./message-ids.js";
import { isWorthAnotherTry, Runs, type WholeRunOptions } from "./runs.js";
import type { Appended, NewEvent, Run, StartedRun } from "./types.js";

/** The answer to the start of a run that its caller produces. */
export interface TakenRun extends StartedRun {
  /** The present attempt of the run. */
  readonly attempt: number;
  /** True if a process has taken the run up: its attempts before may have said something. */
  readonly takenUp: boolean;
  /** The call that holds it, as its request names it; null for a run that was started without. */
  readonly attemptId: string | null;
}

/** Requests about the runs of one thread, with those of a producer. */
export class ProducedRuns extends Runs {
  readonly #http: Http;
  readonly #path: readonly string[];
  /** The query by which the server refuses events that do not conform to AG-UI. */
  readonly #validation: { readonly validate?: "ag-ui" };

  /** `validate`: the server refuses events that do not conform to AG-UI. */
  constructor(http: Http, threadId: string, validate: boolean) {
    super(http, threadId);
    this.#http = http;
    this.#validation = validate ? { validate: "ag-ui" } : {};
    this.#path = ["threads", threadId, "runs"];
  }

  /**
   * Starts a run that its caller will produce, or takes it up. `request` is JSON text: a repetition of the same text gets the same
   * answer. A request in flight is completed even if the signal is aborted.
   */
  begin(request: string, signal?: AbortSignal): Promise<TakenRun> {
    const call = {
      method: "POST",
      path: this.#path,
      query: this.#validation,
      body: request,
      kind: "producers",
    } as const;
    return this.#http.retrying(
      (each) => this.#http.once<TakenRun>({ ...call, ...each }),
      { ...call, signal },
      isWorthAnotherTry,
    );
  }

  /**
   * Appends a complete run atomically, or does nothing if the run exists already. Waits up to a minute while another run is
   * active.
   */
  put(
    runId: string,
    events: readonly NewEvent[],
    options: Omit<WholeRunOptions, "validate"> = {},
  ): Promise<StartedRun> {
    if (!Array.isArray(events)) throw new ConfigError("the events of a run must be an array");
    const { signal, agentId } = options;
    return this.#http.call({
      method: "PUT",
      path: [...this.#path, runId],
      query: { agentId, ...this.#validation },
      body: withMessageIds(runId, events),
      kind: "producers",
      leastMs: WHOLE_RUN_TIMEOUT_MS,
      signal,
    });
  }

  /** Appends events, given as JSON texts, exactly once: `producerSeq` is the number of the first one. */
  append(runId: string, attempt: number, producerSeq: number, events: readonly string[]): Promise<Appended> {
    const query = { attempt, producerSeq, ...this.#validation };
    return this.#post(runId, "events", { query, body: `[${events.join(",")}]`, kind: "producers" });
  }

  /** Sends one heartbeat, without retries. */
  heartbeat(runId: string, attempt: number, leaseSeconds: number, timeoutMs: number): Promise<Run> {
    const path = [...this.#path, runId, "heartbeat"];
    return this.#http.once({ method: "POST", path, query: { attempt }, body: { leaseSeconds }, timeoutMs });
  }

  /**
   * Ends a run as finished: open messages and calls are closed, then RUN_FINISHED is appended. With the `producerSeq` of the
   * last acknowledged event, the server refuses (`producer-seq-gap`) if it has lost events of the run.
   */
  finish(runId: string, attempt: number, producerSeq?: number): Promise<Run> {
    return this.#post(runId, "finish", { query: { attempt, producerSeq }, kind: "producers" });
  }

  /** Reads the next event of the thread after a cursor. Rejects as a subscription with this cursor does. */
  next(epoch: string, after: number): Promise<unknown> {
    return this.#http.call({ path: [...this.#path.slice(0, 2), "events"], query: { after, epoch, limit: 1 } });
  }

  /** Ends a run as failed: open messages and calls are closed, then RUN_ERROR is appended. */
  fail(runId: string, attempt: number, code: string, message: string): Promise<Run> {
    return this.#post(runId, "fail", { query: { attempt }, body: { code, message }, kind: "producers" });
  }

  #post<T>(runId: string, what: string, call: Omit<Call, "path"> = {}): Promise<T> {
    return this.#http.call({ ...call, method: "POST", path: [...this.#path, runId, what] });
  }
}

/** The JSON text of an event; throws if the server would refuse the event as invalid. */
export function encodeEvent(event: NewEvent): string {
  if (typeof event?.type !== "string") throw new ConfigError("an event must be an object with a type");
  return toJson(event);
}
