import { backoff, sleep, unlessAborted } from "./backoff.js";
import type { Config, RequestReport } from "./config.js";
import {
  ClosedError,
  ConfigError,
  ConnectionError,
  isForeign,
  isProblem,
  messageOf,
  nameOf,
  ProblemError,
  ProtocolError,
  ThreadlineError,
} from "./errors.js";
import { newId } from "./ids.js";
import { toJson } from "./json.js";
import { LAST_TRY_MS, OTHER_RUN_WAIT_MS } from "./limits.js";
import { abort, guarded, now, reasonOf, throwIfAborted } from "./platform.js";
import { isAway, Reach } from "./reach.js";
import { CLIENT } from "./version.js";

type QueryValue = string | number | boolean | null | undefined;

/** One request. */
export interface Call {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path after `/v1`, as unescaped segments; or a whole address, made by `Http.url`. */
  readonly path: readonly string[] | string;
  /** Members that are undefined or null are left out. */
  readonly query?: Readonly<Record<string, QueryValue>>;
  /** Sent as JSON; a string is sent unchanged, as JSON text. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Response timeout, in milliseconds. */
  readonly timeoutMs?: number;
  /** Kind of call, which selects its retry time in `retries`; by default `reads` for GET, else `writes`. */
  readonly kind?: "reads" | "writes" | "producers";
  /** Retry time that overrides `retries`, in milliseconds. */
  readonly retryFor?: number | undefined;
  /** Minimum timeout of one attempt, in milliseconds, even if less retry time is left. */
  readonly leastMs?: number;
  /** True if the server accepts an `Idempotency-Key`: the same for all tries of the call. */
  readonly isKeyed?: boolean;
  /** The tries so far. Set by `retrying`. */
  readonly tries?: Tries;
}

/** The tries of one call, which have ids in common. */
export interface Tries {
  readonly id: string;
  /** Number of requests sent. */
  count: number;
}

/** What a try of a call has of its own. */
export type Each = Required<Pick<Call, "timeoutMs" | "tries">>;

/** The id of the last request; undefined if none was sent. */
function requestIdOf({ id, count }: Tries): string | undefined {
  return count > 1 ? `${id}.${count}` : count === 1 ? id : undefined;
}

function newTries(): Tries {
  return { id: newId(), count: 0 };
}

/** Adds the id of its request to an error. */
function named(error: unknown, tries: Tries): unknown {
  if (error instanceof ThreadlineError && !(error instanceof ClosedError)) error.requestId ??= requestIdOf(tries);
  return error;
}

/** Requests to one server. Every error is a `ThreadlineError`, or the reason of the caller's signal. */
export class Http {
  /** True once Threadline has responded. Any foreign response after that comes from an intermediary. */
  spoken = false;
  /** Progress of the pending calls. */
  readonly reach = new Reach();
  /** Time of the first failure since the server last responded. */
  #awaySince: number | undefined;
  /** Total time, in milliseconds, from first failures to the responses that followed. */
  #awayMs = 0;
  readonly #config: Config;
  /** Controllers of the pending calls. */
  readonly #pending = new Set<AbortController>();
  #closed: ClosedError | undefined;

  constructor(config: Config) {
    this.#config = config;
  }

  /** The client's options for the runs that it produces. */
  get producing(): Pick<Config, "validate" | "logger"> {
    return this.#config;
  }

  /** Aborts all pending calls immediately, and every later call. */
  close(): void {
    this.#closed ??= new ClosedError("the client was closed");
    for (const over of this.#pending) abort(over, this.#closed);
  }

  /**
   * Returns a controller that is aborted with the caller's signal or with the client; call `done` when the operation has
   * ended. The two signals are combined by hand, since some engines collect the result of `AbortSignal.any` too early.
   */
  begin(signal: AbortSignal | undefined): { readonly over: AbortController; done(): void } {
    const over = new AbortController();
    const stop = () => abort(over, reasonOf(signal!));
    if (this.#closed) abort(over, this.#closed);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    this.#pending.add(over);
    const done = () => {
      this.#pending.delete(over);
      signal?.removeEventListener("abort", stop);
    };
    return { over, done };
  }

  /**
   * Classifies a response that did not come from Threadline: final if Threadline has never responded, otherwise possibly
   * temporary (a captive portal, for example).
   */
  strange(error: ThreadlineError): ThreadlineError {
    return this.spoken ? new ConnectionError(error.message, { cause: error }) : error;
  }

  /** Classifies an error of a subscription in the same way: a response of an intermediary does not end the subscription. */
  onTheWay(error: unknown): unknown {
    return isForeign(error) ? this.strange(error) : error;
  }

  /** `<base>/<api>/<path>?<query>` */
  url(path: readonly string[], query: Call["query"] = {}, api = "v1"): string {
    const members = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) members.append(name, String(value));
    }
    const url = [this.#config.base, api, ...path.map(segment)].join("/");
    return String(members) ? `${url}?${members}` : url;
  }

  /** Sends one request and returns the response with its body unread. No timeout applies; a refused token is renewed once. */
  async open(call: Call): Promise<Response> {
    const { credentials } = this.#config;
    const { tries = newTries(), signal } = call;
    const bearer = await unlessAborted(credentials.get(), signal);
    try {
      return await this.#send(call, tries, bearer);
    } catch (error) {
      if (!(error instanceof ProblemError && error.status === 401 && credentials.renewable)) throw error;
      credentials.refused(bearer);
      return await this.#send(call, tries, await unlessAborted(credentials.get(), signal));
    }
  }

  /** Sends one request and returns the parsed JSON response, or `undefined` for an empty one. */
  async once<T>(call: Call): Promise<T> {
    const { tries = newTries(), timeoutMs = this.#config.timeoutMs } = call;
    const { over, done } = this.begin(call.signal);
    const { signal } = over;
    const late = () => abort(over, this.#lost(new Error("timed out")));
    const timer = setTimeout(late, timeoutMs);
    try {
      throwIfAborted(signal);
      const text = await this.#text(await this.open({ ...call, tries, signal }), signal);
      const answer = text === "" ? (undefined as T) : this.#parsed<T>(text);
      if (text !== "") this.spoken = true;
      this.reach.heard();
      return answer;
    } catch (error) {
      throw named(error, tries);
    } finally {
      clearTimeout(timer);
      done();
    }
  }

  /**
   * Sends a repeatable request until it succeeds, cannot succeed, or the retry time is over. `again` decides about refusals
   * that only the caller can judge.
   */
  call<T>(call: Call, again: (error: ThreadlineError) => boolean = (error) => error.retryable): Promise<T> {
    return this.retrying((each) => this.once<T>({ ...call, ...each }), call, again);
  }

  /** Reads a resource. The options that do not concern the call itself are its query. */
  read<T>(path: Call["path"], options: Pick<Call, "signal" | "retryFor"> = {}): Promise<T> {
    const { signal, retryFor, ...query } = options;
    return this.call({ path, query, signal, retryFor });
  }

  /** Deletes a thread. A thread that was replaced since it was read is gone already. */
  async remove(
    path: Call["path"],
    { signal, ...query }: { signal?: AbortSignal; epoch?: string | undefined; branches?: boolean } = {},
  ): Promise<void> {
    await this.call({ method: "DELETE", path, query, signal }).catch((error: unknown) => {
      if (!isProblem(error, "log-replaced")) throw error;
    });
  }

  /** Retries any repeatable operation in the same way; each attempt receives its timeout, and the tries before it. */
  async retrying<T>(
    attempt: (each: Each) => Promise<T>,
    call: Omit<Call, "path">,
    again: (error: ThreadlineError) => boolean = (error) => error.retryable,
  ): Promise<T> {
    const { signal, method = "GET", kind = method === "GET" ? "reads" : "writes", leastMs = LAST_TRY_MS } = call;
    const { timeoutMs: most = this.#config.timeoutMs } = call;
    const { retries } = this.#config;
    const tries = newTries();
    const budget = call.retryFor ?? retries[kind];
    const began = now();
    let deadline = (retries.together ? (this.#awaySince ?? began) : began) + budget;
    if (retries.together === "once") deadline -= Math.min(budget, this.#awayMs);
    const { over, done } = this.begin(signal);
    const trial = this.reach.begin(kind !== "producers");
    try {
      for (let failures = 1; ; failures += 1) {
        const asked = now();
        trial.asked();
        try {
          const least = began < deadline ? leastMs : LAST_TRY_MS;
          const timeoutMs = budget === 0 ? most : Math.min(most, Math.max(least, deadline - asked));
          const answer = await attempt({ timeoutMs, tries });
          this.#back();
          return answer;
        } catch (error) {
          if (isAway(error)) this.#awaySince ??= asked;
          else if (error instanceof ProblemError) this.#back();
          if (!(error instanceof ThreadlineError && again(error))) throw error;
          const failedAt = now();
          let left = deadline - failedAt;
          if (isProblem(error, "run-active")) {
            // The server is reachable, and the call waits for another run. If the server becomes unreachable, the full
            // retry time applies.
            left = began + (budget && OTHER_RUN_WAIT_MS) - failedAt;
            deadline = failedAt + budget;
          }
          if (left <= 0 || (error.retryAfterMs ?? 0) > left) throw error;
          const wait = Math.min(left, backoff(failures, Math.random(), error.retryAfterMs));
          trial.failed(isAway(error) ? { error, nextRetryAt: Math.ceil(Date.now() + wait) } : undefined);
          // A delay that the server requests is kept.
          if (isAway(error) && !error.retryAfterMs) await trial.wait(wait, over.signal);
          else await sleep(wait, over.signal);
        }
      }
    } finally {
      trial.end();
      done();
    }
  }

  /** Notes a response of the server. */
  #back(): void {
    if (this.#awaySince !== undefined) this.#awayMs += now() - this.#awaySince;
    this.#awaySince = undefined;
  }

  /** Sends one request, and reports it. */
  async #send(call: Call, tries: Tries, bearer: string | undefined): Promise<Response> {
    tries.count += 1;
    const url = typeof call.path === "string" ? call.path : this.url(call.path, call.query);
    const began = now();
    let status: number | null = null;
    let error: unknown;
    try {
      const response = await this.#fetch(url, call, tries, bearer);
      ({ status } = response);
      if (response.ok) return response;
      throw await this.#refusal(response, call.signal);
    } catch (caught) {
      throw (error = named(caught, tries));
    } finally {
      this.#report({
        requestId: requestIdOf(tries)!,
        method: call.method ?? "GET",
        path: url.replace(/^\w+:\/\/[^/]*|\?.*/g, ""),
        attempt: tries.count,
        status,
        durationMs: Math.round(now() - began),
        error,
      });
    }
  }

  async #fetch(url: string, call: Call, tries: Tries, bearer: string | undefined): Promise<Response> {
    const { method = "GET", body, signal } = call;
    throwIfAborted(signal);
    const headers = await this.#headers(call, tries, bearer);
    try {
      return await this.#config.fetch(url, {
        method,
        headers,
        body: body === undefined || typeof body === "string" ? (body ?? null) : toJson(body),
        // Following a redirect would send the user, and possibly the key, to another server.
        redirect: "manual",
        signal: signal ?? null,
      });
    } catch (error) {
      throw signal?.aborted ? reasonOf(signal) : this.#lost(error);
    }
  }

  async #headers(call: Call, tries: Tries, bearer: string | undefined): Promise<Headers> {
    const { headers: source, identity, trace } = this.#config;
    const { body, signal } = call;
    try {
      const own = typeof source === "function" ? await unlessAborted(Promise.resolve(source()), signal) : source;
      const headers = new Headers(own);
      const ours = {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...identity,
        ...call.headers,
        "Threadline-Client": CLIENT,
        "x-request-id": requestIdOf(tries),
        "Idempotency-Key": call.isKeyed && tries.id,
        traceparent: trace && guarded(trace),
        Authorization: bearer && `Bearer ${bearer}`,
      };
      for (const [name, value] of Object.entries(ours)) if (value) headers.set(name, value);
      return headers;
    } catch (error) {
      throw signal?.aborted
        ? reasonOf(signal)
        : new ConnectionError(`no headers (${messageOf(error)})`, { cause: error });
    }
  }

  /** The error of a response that is no success. */
  async #refusal(response: Response, signal: AbortSignal | undefined): Promise<ThreadlineError> {
    const { status, type, headers } = response;
    if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
      await response.body?.cancel();
      return this.strange(new ConfigError(`${this.#config.origin} redirects to another address: use that address`));
    }
    const retryAfter = Number.parseFloat(headers.get("Retry-After") ?? "") * 1_000;
    const said = await this.#text(response, signal);
    const problem = ProblemError.read(status, said, retryAfter >= 0 ? retryAfter : undefined);
    if (!isForeign(problem) && !isAway(problem)) this.reach.heard();
    return problem;
  }

  #report(report: RequestReport): void {
    const { onRequest, logger } = this.#config;
    const { error, ...fields } = report;
    if (onRequest) guarded(() => onRequest(report));
    if (!logger) return;
    const level = error instanceof ThreadlineError ? "warn" : "debug";
    guarded(() => logger[level]("request", error === undefined ? fields : { ...fields, error: nameOf(error) }));
  }

  #parsed<T>(text: string): T {
    try {
      return JSON.parse(text) as T;
    } catch {
      const { origin } = this.#config;
      throw this.strange(new ProtocolError(`the response from ${origin} is not JSON. Is this a Threadline server?`));
    }
  }

  async #text(response: Response, signal: AbortSignal | undefined): Promise<string> {
    try {
      return await response.text();
    } catch (error) {
      throw signal?.aborted ? reasonOf(signal) : this.#lost(error);
    }
  }

  #lost(error: unknown): ConnectionError {
    const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return new ConnectionError(`no answer from ${this.#config.origin} (${messageOf(inner)})`, { cause: error });
  }
}

/** The requests of each client, for entries of the package that are loaded separately. */
const CLIENTS = new WeakMap<object, Http>();

/** Notes the requests of a client. */
export function noteHttp(client: object, http: Http): void {
  CLIENTS.set(client, http);
}

/** The requests of a client; throws a `ConfigError` if there are none. */
export function httpOf(client: object): Http {
  const http = CLIENTS.get(client);
  if (!http) throw new ConfigError("client is not a Threadline client, or one of another copy of this package");
  return http;
}

/** An id as a path segment; throws a `ConfigError` if it cannot be one. */
export function segment(id: string): string {
  try {
    // URL parsers treat these as relative path segments, even in escaped form.
    if (!/^\.{0,2}$/.test(id)) return encodeURIComponent(id);
  } catch {
    // A lone surrogate.
  }
  throw new ConfigError(`${toJson(id)} cannot be used as an id`);
}
