import type { Config } from "../config.js";
import { ConnectionError, ProblemError, ProtocolError, ThreadlineError } from "../errors.js";
import type { Http } from "../http.js";
import { OPEN_TIMEOUT_MS } from "../limits.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import type { Turns } from "./turns.js";

/** Something that is to be followed. Every request begins anew from its cursor. */
export interface Wanted {
  request(): SubscribeRequest;
}

/** One connection: frames in, subscriptions out. It keeps nothing that outlives it. */
export interface Transport {
  /** Follows something as well, as soon as it can. */
  add(wanted: Wanted): void;
  remove(wanted: Wanted): void;
  /** Finds out soon whether the other side is still there. */
  check(): void;
  /** Ends it, without another word to its listener. */
  close(): void;
}

/** Whom a transport tells. */
export interface Listener {
  /** The server speaks. */
  opened(): void;
  frame(frame: ServerFrame): void;
  /** A heartbeat. */
  alive(): void;
  /** Nothing more will come. Once, and last. */
  ended(why: Failing): void;
}

/** What a transport works with. */
export interface Context {
  readonly config: Config;
  readonly http: Http;
  /** The credential of this connection. */
  readonly bearer: string | undefined;
  readonly turns: Turns;
}

export type OpenTransport = (context: Context, listener: Listener) => Transport;

/** What an error means to the connection that it befell. */
export function failing(cause: unknown): Failing {
  const error =
    cause instanceof ThreadlineError ? cause : new ConnectionError(`the connection broke (${cause})`, { cause });
  return { name: error.retryable ? "lost" : "refused", error };
}

/** What a close code means (proto/socket.md). */
export function closing(code: number, reason: string, retryAfterMs?: number | null): Failing {
  if (code === 4501) {
    const detail = "The key or token has expired or was revoked.";
    const problem = { type: "/problems/unauthorized", title: "Authentication required", status: 401, detail };
    return { name: "unauthorized", error: new ProblemError(problem, 401) };
  }
  const said = `the server closed the connection: ${code} ${reason}`;
  // The registered codes among them blame what we sent.
  const final = (code >= 4500 && code < 5000) || [1002, 1003, 1007, 1008, 1009, 1010].includes(code);
  if (final) return { name: "refused", error: new ProtocolError(said) };
  return { name: "lost", error: new ConnectionError(said, { retryAfterMs: retryAfterMs ?? undefined }) };
}

/**
 * Why a transport does not open, or not for long: browsers do not tell. Asks the server for something small in the plainest way
 * there is; if that succeeds, it is the transport (`otherwise`).
 */
export async function diagnose(context: Context, otherwise: Failing): Promise<Failing> {
  try {
    await context.http.once({ method: "POST", path: ["socket-tickets"], timeoutMs: OPEN_TIMEOUT_MS });
    // That request may have renewed a credential that was over.
    const same = (await context.config.credentials.get()) === context.bearer;
    return same ? otherwise : { name: "unauthorized", error: otherwise.error };
  } catch (error) {
    return failing(context.http.onTheWay(error));
  }
}

/** Notices when nothing is heard. */
export interface Watchdog {
  /** From now on it may be silent for so long. */
  expect(patience: number): void;
  /** A sign of life. Cheap: the timer is set again only when it fires. */
  heard(): void;
  /** A sign of life is expected within this time, this once. */
  hurry(ms: number): void;
  stop(): void;
}

/** Calls `silent` once, after `patience` milliseconds without a sign of life. */
export function watchdog(patience: number, silent: () => void): Watchdog {
  let last = performance.now();
  let timer: ReturnType<typeof setTimeout>;
  const stop = () => clearTimeout(timer);
  const arm = (ms: number) => {
    stop();
    timer = setTimeout(look, ms);
  };
  const look = () => {
    const left = patience - (performance.now() - last);
    // Timers may fire a little early.
    if (left > 1) arm(left);
    else silent();
  };
  arm(patience);
  return {
    expect(ms) {
      patience = ms;
      last = performance.now();
      arm(ms);
    },
    heard() {
      last = performance.now();
    },
    hurry(ms) {
      const asked = performance.now();
      stop();
      timer = setTimeout(() => (last > asked ? look() : silent()), ms);
    },
    stop,
  };
}
