import { Credentials, headerValue, type TokenSource } from "./credentials.js";
import { ConfigError } from "./errors.js";
import { toJson } from "./json.js";
import { PRODUCERS_RETRY_MS, READS_RETRY_MS, WRITES_RETRY_MS } from "./limits.js";

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
export interface Config {
  readonly base: URL;
  readonly credentials: Credentials;
  readonly headers: Readonly<Record<string, string>>;
  readonly retries: Required<Retries>;
  readonly transports: readonly TransportName[];
  readonly fetch: typeof fetch;
  readonly WebSocket: WebSocketClass | undefined;
}

/** Validates options; throws a `ConfigError` that says what to fix. */
export function configure(options: ThreadlineOptions): Config {
  const base = parsed(options.url);
  const { transports = TRANSPORTS } = options;
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
  if (options.apiKey !== undefined && options.token !== undefined) {
    throw new ConfigError("pass either apiKey or token, not both");
  }
  const headers: Record<string, string> = {};
  if (options.user !== undefined) headers["Threadline-User"] = headerValue("user", options.user);
  if (options.project !== undefined) headers["Threadline-Project"] = headerValue("project", options.project);
  const source = options.apiKey ?? options.token;
  if (typeof source === "string") headerValue(options.apiKey === undefined ? "token" : "apiKey", source);
  const send = options.fetch ?? globalThis.fetch;
  return {
    base,
    headers,
    credentials: new Credentials(source),
    retries,
    transports,
    // Browsers require `fetch` to be called without a receiver.
    fetch: (input, init) => send(input, init),
    WebSocket: options.WebSocket ?? (globalThis.WebSocket as WebSocketClass | undefined),
  };
}

function parsed(address: string): URL {
  try {
    const url = new URL(address);
    // A password would appear in logs, and a query would be sent with every request.
    if (/^https?:$/.test(url.protocol) && !(url.username || url.password || url.search || url.hash)) return url;
  } catch {
    // Not a URL at all.
  }
  throw new ConfigError(`${toJson(address)} is not a valid server address: use the form http://localhost:7420`);
}
