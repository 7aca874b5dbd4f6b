import { backoff, sleep, unlessAborted } from "./backoff.js";
import type { Config } from "./config.js";
import {
  ClosedError,
  ConfigError,
  ConnectionError,
  isForeign,
  isProblem,
  messageOf,
  ProblemError,
  ProtocolError,
  ThreadlineError,
} from "./errors.js";
import { toJson } from "./json.js";
import { LAST_TRY_MS, OTHER_RUN_WAIT_MS, REQUEST_TIMEOUT_MS } from "./limits.js";
import { isAway, Reach } from "./reach.js";

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
}

/** Requests to one server. Every error is a `ThreadlineError`, or the reason of the caller's signal. */
export class Http {
  /** True once Threadline has responded. Any foreign response after that comes from an intermediary. */
  spoken = false;
  /** Progress of the pending calls. */
  readonly reach = new Reach();
  /** Time of the first failure since the server last responded. */
  #awaySince: number | undefined;
  readonly #config: Config;
  /** Controllers of the pending calls. */
  readonly #pending = new Set<AbortController>();
  #closed: ClosedError | undefined;

  constructor(config: Config) {
    this.#config = config;
  }

  /** Aborts all pending calls immediately, and every later call. */
  close(): void {
    this.#closed ??= new ClosedError("the client was closed");
    for (const over of this.#pending) over.abort(this.#closed);
  }

  /**
   * Returns a controller that is aborted with the caller's signal or with the client; call `done` when the operation has
   * ended. The two signals are combined by hand, since some engines collect the result of `AbortSignal.any` too early.
   */
  begin(signal: AbortSignal | undefined): { readonly over: AbortController; done(): void } {
    const over = new AbortController();
    const stop = () => over.abort(signal?.reason);
    if (this.#closed) over.abort(this.#closed);
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
  url(path: readonly string[], query: Call["query"] = {}, api = "v1"): URL {
    const url = new URL(this.#config.base);
    url.pathname = [url.pathname.replace(/\/$/, ""), api, ...path.map(segment)].join("/");
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value));
    }
    return url;
  }

  /** Sends one request and returns the response with its body unread. No timeout applies; a refused token is renewed once. */
  async open(call: Call): Promise<Response> {
    const { credentials } = this.#config;
    const bearer = await unlessAborted(credentials.get(), call.signal);
    try {
      return await this.#send(call, bearer);
    } catch (error) {
      if (!(error instanceof ProblemError && error.status === 401 && credentials.renewable)) throw error;
      credentials.refused(bearer);
      return await this.#send(call, await unlessAborted(credentials.get(), call.signal));
    }
  }

  /** Sends one request and returns the parsed JSON response, or `undefined` for an empty one. */
  async once<T>(call: Call): Promise<T> {
    const { over, done } = this.begin(call.signal);
    const late = () => over.abort(this.#lost(new Error("timed out")));
    const timer = setTimeout(late, call.timeoutMs ?? REQUEST_TIMEOUT_MS);
    let text: string;
    try {
      over.signal.throwIfAborted();
      text = await this.#text(await this.open({ ...call, signal: over.signal }), over.signal);
    } finally {
      clearTimeout(timer);
      done();
    }
    if (text === "") {
      this.reach.heard();
      return undefined as T;
    }
    let answer: T;
    try {
      answer = JSON.parse(text) as T;
    } catch {
      const { origin } = this.#config.base;
      throw this.strange(new ProtocolError(`the response from ${origin} is not JSON. Is this a Threadline server?`));
    }
    this.spoken = true;
    this.reach.heard();
    return answer;
  }

  /**
   * Sends a repeatable request until it succeeds, cannot succeed, or the retry time is over. `again` decides about refusals
   * that only the caller can judge.
   */
  call<T>(call: Call, again: (error: ThreadlineError) => boolean = (error) => error.retryable): Promise<T> {
    return this.retrying((timeoutMs) => this.once<T>({ ...call, timeoutMs }), call, again);
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

  /** Retries any repeatable operation in the same way; each attempt receives its timeout. */
  async retrying<T>(
    attempt: (timeoutMs: number) => Promise<T>,
    call: Omit<Call, "path">,
    again: (error: ThreadlineError) => boolean = (error) => error.retryable,
  ): Promise<T> {
    const { signal, method = "GET", kind = method === "GET" ? "reads" : "writes", leastMs = LAST_TRY_MS } = call;
    const { retries } = this.#config;
    const budget = call.retryFor ?? retries[kind];
    const began = performance.now();
    let deadline = (retries.together ? (this.#awaySince ?? began) : began) + budget;
    const { over, done } = this.begin(signal);
    const trial = this.reach.begin(kind !== "producers");
    try {
      for (let failures = 1; ; failures += 1) {
        const asked = performance.now();
        trial.asked();
        try {
          const most = call.timeoutMs ?? REQUEST_TIMEOUT_MS;
          const least = began < deadline ? leastMs : LAST_TRY_MS;
          const answer = await attempt(budget === 0 ? most : Math.min(most, Math.max(least, deadline - asked)));
          this.#awaySince = undefined;
          return answer;
        } catch (error) {
          if (isAway(error)) this.#awaySince ??= asked;
          else if (error instanceof ProblemError) this.#awaySince = undefined;
          if (!(error instanceof ThreadlineError && again(error))) throw error;
          const now = performance.now();
          let left = deadline - now;
          if (isProblem(error, "run-active")) {
            // The server is reachable, and the call waits for another run. If the server becomes unreachable, the full
            // retry time applies.
            left = began + (budget && OTHER_RUN_WAIT_MS) - now;
            deadline = now + budget;
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

  async #send(call: Call, bearer: string | undefined): Promise<Response> {
    const { body, signal } = call;
    signal?.throwIfAborted();
    const headers: Record<string, string> = { ...this.#config.headers, ...call.headers };
    if (bearer !== undefined) headers["Authorization"] = `Bearer ${bearer}`;
    if (body !== undefined) headers["Content-Type"] ??= "application/json";
    const url = typeof call.path === "string" ? call.path : this.url(call.path, call.query);
    const init: RequestInit = {
      method: call.method ?? "GET",
      headers,
      body: body === undefined || typeof body === "string" ? (body ?? null) : toJson(body),
      // Following a redirect would send the user, and possibly the key, to another server.
      redirect: "manual",
      signal: signal ?? null,
    };
    let response: Response;
    try {
      response = await this.#config.fetch(url, init);
    } catch (error) {
      throw signal?.aborted ? signal.reason : this.#lost(error);
    }
    if (response.ok) return response;
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      await response.body?.cancel();
      const { origin } = this.#config.base;
      throw this.strange(new ConfigError(`${origin} redirects to another address: use that address`));
    }
    const retryAfter = Number.parseFloat(response.headers.get("Retry-After") ?? "") * 1_000;
    const said = await this.#text(response, signal);
    const problem = ProblemError.read(response.status, said, retryAfter >= 0 ? retryAfter : undefined);
    if (!isForeign(problem) && !isAway(problem)) this.reach.heard();
    throw problem;
  }

  async #text(response: Response, signal: AbortSignal | undefined): Promise<string> {
    try {
      return await response.text();
    } catch (error) {
      throw signal?.aborted ? signal.reason : this.#lost(error);
    }
  }

  #lost(error: unknown): ConnectionError {
    const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return new ConnectionError(`no answer from ${this.#config.base.origin} (${messageOf(inner)})`, { cause: error });
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
