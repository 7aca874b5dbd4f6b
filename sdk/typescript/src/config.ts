import { Credentials, headerValue, type TokenSource } from "./credentials.js";
import { ConfigError } from "./errors.js";
import { toJson } from "./json.js";
import { RETRY_FOR_MS } from "./limits.js";

export type TransportName = "websocket" | "sse" | "long-poll";
const TRANSPORTS: readonly TransportName[] = ["websocket", "sse", "long-poll"];

/** What is needed of a WebSocket class: the browsers', Node's (from 22 on) or that of the package `ws`. */
export type WebSocketClass = new (url: string, protocols: string[]) => WebSocket;

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
  /** How long calls go on trying after lost answers and while the server is not ready, in milliseconds; 60,000 if not given. */
  readonly retryFor?: number;
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
  readonly retryFor: number;
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
  const { retryFor = RETRY_FOR_MS } = options;
  if (!(retryFor >= 0)) throw new ConfigError("retryFor is a number of milliseconds");
  if (options.apiKey !== undefined && options.token !== undefined) {
    throw new ConfigError("give either apiKey (a backend's) or token (a user's), not both");
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
    retryFor,
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
