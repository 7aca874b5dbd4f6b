import { Credentials, headerValue, type TokenSource } from "./credentials.js";
import { ConfigError, messageOf } from "./errors.js";
import { toJson } from "./json.js";
import { PRODUCERS_RETRY_MS, READS_RETRY_MS, REQUEST_TIMEOUT_MS, WRITES_RETRY_MS } from "./limits.js";

export type TransportName = "websocket" | "sse" | "long-poll";
const TRANSPORTS: readonly TransportName[] = ["websocket", "sse", "long-poll"];

/** The required interface of a WebSocket class: that of browsers, of Node (version 22 or later) or of the package `ws`. */
export type WebSocketClass = new (url: string, protocols: string[]) => WebSocket;

/**
 * How long calls are retried after a lost response or while the server is not ready, each in milliseconds; 0 for a single
 * attempt.
 */
export interface Retries {
  /** Calls that only read; 10,000 by default. Reads of the React hooks are retried forever, and their status shows that. */
  readonly reads?: number;
  /** Calls that change data or delegate a run to an agent; 10,000 by default. */
  readonly writes?: number;
  /** Runs produced by this program, and conversations that it saves; 60,000 by default. */
  readonly producers?: number;
  /**
   * Shares one retry period between all calls. The period starts with the first failure since the server last responded, so
   * that a series of calls does not wait separately for each one. `"once"`, for the client of one task, also subtracts what
   * earlier calls have waited until the server responded. `false` by default.
   */
  readonly together?: boolean | "once";
}

/** A request to the server, when it has ended: the response has begun, or there is none. */
export interface RequestReport {
  /** The id of the request (header `x-request-id`), also in the server's log. The second try of a call has `<id>.2`. */
  readonly requestId: string;
  readonly method: string;
  /** The path, without its query. */
  readonly path: string;
  /** Number of the try, from 1. */
  readonly attempt: number;
  /** Status of the response; null if there was none. */
  readonly status: number | null;
  readonly durationMs: number;
  /** Why the request failed: an error of this package, or the reason of the caller's signal; undefined if it did not. */
  readonly error: unknown;
}

/**
 * A log, such as `console`. It receives names and fields (ids, paths, states, names of errors and types), and never tokens, queries or
 * texts. `request` is logged for each request, `connection` for each change of the connection status, and `unmapped` for the first item of
 * each type that a piped stream has and AG-UI has not.
 */
export interface Logger {
  debug(name: string, fields: LogFields): void;
  /** The request failed, the connection is lost, or an item of a stream is not known. */
  warn(name: string, fields: LogFields): void;
}

export type LogFields = Readonly<Record<string, string | number | null>>;

/** Headers, or a function that returns those of the next request. */
export type HeadersSource = HeadersInit | (() => HeadersInit | Promise<HeadersInit>);

/** Options of a client: the server's address, credentials and transports. */
export interface ThreadlineOptions {
  /** The server's address, such as `https://threads.example.com`. A path before `/v1` is kept. */
  readonly url: string;
  /** An API key, for backends only. Never use it in a browser: an API key can act as any user. */
  readonly apiKey?: string;
  /** A user's token, or a function that returns one. The function is called again when the previous token expires. */
  readonly token?: TokenSource;
  /** The user on whose behalf a request with an API key is made (header `Threadline-User`). */
  readonly user?: string;
  /** The project, for requests with the operator's key (header `Threadline-Project`). */
  readonly project?: string;
  readonly retries?: Retries;
  /** How long one request may take, in milliseconds; 30,000 by default. */
  readonly timeoutMs?: number;
  /**
   * Further headers of each request, for a proxy for example; a function is called for each request. Browsers cannot send any when
   * they open a WebSocket. The headers of this package take precedence.
   */
  readonly headers?: HeadersSource;
  /** Returns the `traceparent` (W3C Trace Context) of the next request, if there is one. */
  readonly trace?: () => string | undefined;
  readonly logger?: Logger;
  /**
   * False if the runs of this program may have events that do not conform to AG-UI. By default the server refuses these
   * (`invalid-event`), and such a run fails. See `RunOptions.validate`.
   */
  readonly validate?: boolean;
  /** Called after each request, retries and refusals included. */
  readonly onRequest?: (request: RequestReport) => void;
  /** Transports in order of preference: the first one that works is used. All transports by default. */
  readonly transports?: readonly TransportName[];
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch;
  /**
   * Replaces the global `WebSocket`, which Node provides from version 22 on. Without a WebSocket class, events are received
   * over SSE.
   */
  readonly WebSocket?: WebSocketClass;
}

/** Validated options. */
export interface Config extends Pick<ThreadlineOptions, "trace" | "logger" | "onRequest"> {
  /** The server's address, without a slash at its end. */
  readonly base: string;
  /** Its part before the path. */
  readonly origin: string;
  readonly credentials: Credentials;
  /** Headers that name the user and the project. */
  readonly identity: Readonly<Record<string, string>>;
  readonly headers: HeadersSource | undefined;
  readonly timeoutMs: number;
  readonly retries: Required<Retries>;
  readonly validate: boolean;
  readonly transports: readonly TransportName[];
  readonly fetch: typeof fetch;
  readonly WebSocket: WebSocketClass | undefined;
}

/** Validates options; throws a `ConfigError` that says what to fix. */
export function configure(options: ThreadlineOptions): Config {
  const { transports = TRANSPORTS, timeoutMs = REQUEST_TIMEOUT_MS, headers, trace, logger, onRequest } = options;
  if (transports.length === 0 || !transports.every((name) => TRANSPORTS.includes(name))) {
    throw new ConfigError(`transports must be some of ${TRANSPORTS.join(", ")}`);
  }
  const retries = {
    reads: READS_RETRY_MS,
    writes: WRITES_RETRY_MS,
    producers: PRODUCERS_RETRY_MS,
    together: false,
    ...options.retries,
  };
  for (const kind of ["reads", "writes", "producers"] as const) {
    if (!(retries[kind] >= 0)) throw new ConfigError(`retries.${kind} must be a number of milliseconds`);
  }
  if (!(timeoutMs > 0)) throw new ConfigError("timeoutMs must be a number of milliseconds");
  if (options.apiKey !== undefined && options.token !== undefined) {
    throw new ConfigError("pass either apiKey or token, not both");
  }
  const identity: Record<string, string> = {};
  if (options.user !== undefined) identity["Threadline-User"] = headerValue("user", options.user);
  if (options.project !== undefined) identity["Threadline-Project"] = headerValue("project", options.project);
  const source = options.apiKey ?? options.token;
  if (typeof source === "string") headerValue(options.apiKey === undefined ? "token" : "apiKey", source);
  const send = options.fetch ?? globalThis.fetch;
  return {
    ...addressOf(options.url),
    identity,
    headers: typeof headers === "object" ? checked(headers) : headers,
    timeoutMs,
    trace,
    logger,
    onRequest,
    credentials: new Credentials(source),
    retries,
    validate: options.validate ?? true,
    transports,
    // Browsers require `fetch` to be called without a receiver.
    fetch: (input, init) => send(input, init),
    WebSocket: options.WebSocket ?? (globalThis.WebSocket as WebSocketClass | undefined),
  };
}

function checked(headers: HeadersInit): Headers {
  try {
    return new Headers(headers);
  } catch (error) {
    throw new ConfigError(`headers cannot be sent (${messageOf(error)})`);
  }
}

function addressOf(address: string): Pick<Config, "base" | "origin"> {
  // A password would appear in logs, and a query would be sent with every request.
  const [, base, origin] = /^((https?:\/\/[^/?#@\\\s]+)[^?#\\\s]*?)\/*$/i.exec(address) ?? [];
  try {
    // React Native's URL has no members that could be read here.
    if (base && origin && new URL(base)) return { base, origin };
  } catch {
    // Not a URL at all.
  }
  throw new ConfigError(`${toJson(address)} is not a valid server address: use the form http://localhost:7420`);
}
