import type { Config } from "../config.js";
import { ConnectionError, ProblemError, ProtocolError } from "../errors.js";
import type { Http } from "../http.js";
import { OPEN_TIMEOUT_MS } from "../limits.js";
import { now } from "../platform.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import { failing } from "./failing.js";
import type { Failing } from "./machine.js";

/** A subscription to follow. Every request starts again from its cursor. */
export interface Wanted {
  request(): SubscribeRequest;
}

/** One connection: frames in, subscriptions out. It keeps no state that outlives it. */
export interface Transport {
  /** Adds a subscription, which is followed as soon as possible. */
  add(wanted: Wanted): void;
  remove(wanted: Wanted): void;
  /** Checks soon whether the peer is still there. */
  check(): void;
  /** Closes the connection, without notifying its listener. */
  close(): void;
}

/** The listener of a transport. */
export interface Listener {
  /** The server has responded. */
  opened(): void;
  frame(frame: ServerFrame): void;
  /** A heartbeat arrived. */
  alive(): void;
  /** The connection has ended. Called once, and last. */
  ended(why: Failing): void;
}

/** The environment of a transport. */
export interface Context {
  readonly config: Config;
  readonly http: Http;
  /** The credential of this connection. */
  readonly bearer: string | undefined;
}

export type OpenTransport = (context: Context, listener: Listener) => Transport;

/** Classifies a close code (proto/socket.md). */
export function closing(code: number, reason: string, retryAfterMs?: number | null): Failing {
  if (code === 4501) {
    const detail = "The key or token has expired or was revoked.";
    const problem = { type: "/problems/unauthorized", title: "Authentication required", status: 401, detail };
    return { name: "unauthorized", error: new ProblemError(problem, 401) };
  }
  const said = `the server closed the connection: ${code} ${reason}`;
  // The registered codes among these blame the client's frames.
  const final = (code >= 4500 && code < 5000) || [1002, 1003, 1007, 1008, 1009, 1010].includes(code);
  if (final) return { name: "refused", error: new ProtocolError(said) };
  return { name: "lost", error: new ConnectionError(said, { retryAfterMs: retryAfterMs ?? undefined }) };
}

/**
 * Finds out why a transport does not open, or soon ends, since browsers do not report it: sends a small ordinary request to
 * the server. If that succeeds, the transport is the cause (`otherwise`).
 */
export async function diagnose(context: Context, otherwise: Failing): Promise<Failing> {
  try {
    await context.http.once({ method: "POST", path: ["socket-tickets"], timeoutMs: OPEN_TIMEOUT_MS });
    // The request may have renewed an expired credential.
    const same = (await context.config.credentials.get()) === context.bearer;
    return same ? otherwise : { name: "unauthorized", error: otherwise.error };
  } catch (error) {
    return failing(context.http.onTheWay(error));
  }
}

/** A timer that notices silence. */
export interface Watchdog {
  /** Sets the permitted silence from now on, in milliseconds. */
  expect(patience: number): void;
  /** Records a sign of life. Cheap: the timer is set again only when it fires. */
  heard(): void;
  /** Expects a sign of life within this time, once. */
  hurry(ms: number): void;
  stop(): void;
}

/** Calls `silent` once, after `patience` milliseconds without a sign of life. */
export function watchdog(patience: number, silent: () => void): Watchdog {
  let last = now();
  let timer: ReturnType<typeof setTimeout>;
  const stop = () => clearTimeout(timer);
  const arm = (ms: number) => {
    stop();
    timer = setTimeout(look, ms);
  };
  const look = () => {
    const left = patience - (now() - last);
    // Timers may fire a little early.
    if (left > 1) arm(left);
    else silent();
  };
  arm(patience);
  return {
    expect(ms) {
      patience = ms;
      last = now();
      arm(ms);
    },
    heard() {
      last = now();
    },
    hurry(ms) {
      const asked = now();
      stop();
      timer = setTimeout(() => (last > asked ? look() : silent()), ms);
    },
    stop,
  };
}
