import { Credentials, headerValue, type TokenSource } from "./credentials.js";
import { ConfigError } from "./errors.js";
import { toJson } from "./json.js";
import { PRODUCERS_RETRY_MS, READS_RETRY_MS, WRITES_RETRY_MS } from "./limits.js";

export type TransportName = "websocket" | "sse" | "long-poll";
const TRANSPORTS: readonly TransportName[] = ["websocket", "sse", "long-poll"];

/** What is needed of a WebSocket class: the browsers', Node's (from 22 on) or that of the package `ws`. */
export type WebSocketClass = new (url: string, protocols: string[]) => WebSocket;

/** How long calls go on trying after lost answers and while the server is not ready, in milliseconds each; 0 for one try. */
export interface Retries {
  /** Calls that only read; 10,000 if not given. The hooks' go on for ever, and show that. */
  readonly reads?: number;
  /** Calls that change something, or have an agent do a run; 10,000 if not given. */
  readonly writes?: number;
  /** Runs that this program does, and conversations that it saves; 60,000 if not given. */
  readonly producers?: number;
  /**
   * All calls share their time, which then counts from the first failure since the server last answered: many calls in a row
   * are not each waited for. false if not given.
   */
  readonly together?: boolean;
}

/** How to reach a server. */
export interface ThreadlineOptions {
  /** Its address, as `https://threads.example.com`. A path before `/v1` is kept. */
  readonly url: string;
  /** An API key. Never in a browser: whoever has it is everybody. */
  readonly apiKey?: string;
  /** A user's token, or a function that gets one; it is called again when the last one is over. */
  readonly token?: TokenSource;
  /** The user on whose behalf an API key asks (header `Threadline-User`). */
  readonly user?: string;
  /** The project, for the operator's key (header `Threadline-Project`). */
  readonly project?: string;
  readonly retries?: Retries;
  /** In this order, from the best one that gets through; all of them if not given. */
  readonly transports?: readonly TransportName[];
  /** Instead of the global one. */
  readonly fetch?: typeof fetch;
  /** Instead of the global one, which Node has from version 22 on. Without any, events come over SSE. */
  readonly WebSocket?: WebSocketClass;
}

/** The options, checked. */
export interface Config {
  readonly base: URL;
  readonly credentials: Credentials;
  readonly headers: Readonly<Record<string, string>>;
  readonly retries: Required<Retries>;
  readonly transports: readonly TransportName[];
  readonly fetch: typeof fetch;
  readonly WebSocket: WebSocketClass | undefined;
}

/** Checks options; throws a `ConfigError` that says what to mend. */
export function configure(options: ThreadlineOptions): Config {
  const base = parsed(options.url);
  const { transports = TRANSPORTS } = options;
  if (transports.length === 0 || !transports.every((name) => TRANSPORTS.includes(name))) {
    throw new ConfigError(`transports are some of ${TRANSPORTS.join(", ")}`);
  }
  const retries = {
    reads: READS_RETRY_MS,
    writes: WRITES_RETRY_MS,
    producers: PRODUCERS_RETRY_MS,
    together: false,
    ...options.retries,
  };
  for (const kind of ["reads", "writes", "producers"] as const) {
    if (!(retries[kind] >= 0)) throw new ConfigError(`retries.${kind} is a number of milliseconds`);
  }
  if (options.apiKey !== undefined && options.token !== undefined) {
    throw new ConfigError("apiKey (of a backend) and token (of a user) exclude each other");
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
    // Browsers want it to be called on no object of ours.
    fetch: (input, init) => send(input, init),
    WebSocket: options.WebSocket ?? (globalThis.WebSocket as WebSocketClass | undefined),
  };
}

function parsed(address: string): URL {
  try {
    const url = new URL(address);
    // A password would be shown in logs, and a query sent along with every request.
    if (/^https?:$/.test(url.protocol) && !(url.username || url.password || url.search || url.hash)) return url;
  } catch {
    // No URL at all.
  }
  throw new ConfigError(`${toJson(address)} is no address of a server: write it like http://localhost:7420`);
}
