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
    const detail = "The key or token is not valid any more.";
    const problem = { type: "/problems/unauthorized", title: "You are not let in", status: 401, detail };
    return { name: "unauthorized", error: new ProblemError(problem, 401) };
  }
  const said = `the server closed the connection: ${code} ${reason}`;
  // The registered codes among them blame what we sent.
  const final = (code >= 4500 && code < 5000) || [1002, 1003, 1007, 1008, 1009, 1010].includes(code);
  if (final) return { name: "refused", error: new ProtocolError(said) };
  return { name: "lost", error: new ConnectionError(said, { retryAfterMs: retryAfterMs ?? undefined }) };
}

/**
 * Why a transport does not open: browsers do not tell. Asks the server for something small in the plainest way there is; if
 * that succeeds, it is the transport (`otherwise`).
 */
export async function diagnose(context: Context, otherwise: Failing): Promise<Failing> {
  try {
    await context.http.once({ method: "POST", path: ["socket-tickets"], timeoutMs: OPEN_TIMEOUT_MS });
    // That request may have renewed a credential that was over.
    const same = (await context.config.credentials.get()) === context.bearer;
    return same ? otherwise : { name: "unauthorized", error: otherwise.error };
  } catch (error) {
    return failing(error);
  }
}

/** Notices when nothing has been heard for a time. */
export class Watchdog {
  readonly #silent: () => void;
  #patience = 0;
  #heard = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `silent` is called once, after `patience` milliseconds without a sign of life. */
  constructor(patience: number, silent: () => void) {
    this.#silent = silent;
    this.expect(patience);
  }

  /** From now on it may be silent for so long. */
  expect(patience: number): void {
    this.#patience = patience;
    this.heard();
    this.#arm(patience);
  }

  /** A sign of life. Cheap: the timer is set again only when it fires. */
  heard(): void {
    this.#heard = performance.now();
  }

  /** A sign of life is expected within this time, this once. */
  hurry(ms: number): void {
    const asked = performance.now();
    this.stop();
    this.#timer = setTimeout(() => (this.#heard > asked ? this.#look() : this.#silent()), ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #arm(ms: number): void {
    this.stop();
    this.#timer = setTimeout(() => this.#look(), ms);
  }

  #look(): void {
    const left = this.#patience - (performance.now() - this.#heard);
    // Timers may fire a little early.
    if (left > 1) this.#arm(left);
    else this.#silent();
  }
}
