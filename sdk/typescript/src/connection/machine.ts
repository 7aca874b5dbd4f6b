// The life of one connection as pure data: which state follows an input, and which effects that has. Without clock,
// randomness or network: `step` receives the time and a random number.
//
//   idle ──wanted──► authorizing ──authorized──► connecting ──opened──► open
//    ▲                  ▲     ▲                   │  │  │                │
//    │               timer  online    unauthorized┘  │  └──lost──┐   lost│
//    │                  │     │                      │           ▼       │
//  unwanted          waiting  offline                └refused► failed    │
//                       ▲                                                │
//                       └────────────────────────────────────────────────┘

import { backoff } from "../backoff.js";
import type { ThreadlineError } from "../errors.js";
import { OFFLINE_RETRY_MS, PREFER_AGAIN_MS, STRIKES } from "../limits.js";

export type State =
  /** No subscriptions. */
  | { readonly name: "idle" }
  /** Waiting for a credential. */
  | { readonly name: "authorizing" }
  /** Waiting for the first message of the server. */
  | { readonly name: "connecting" }
  | { readonly name: "open" }
  /** Waiting for the next attempt, which is due after `waitMs`. */
  | { readonly name: "waiting"; readonly waitMs: number; readonly error: ThreadlineError }
  /** The network is unavailable. An attempt is made nevertheless after `waitMs`. */
  | { readonly name: "offline"; readonly waitMs: number }
  /** Retrying cannot help. */
  | { readonly name: "failed"; readonly error: ThreadlineError }
  | { readonly name: "closed" };

/** Inputs of the machine, internal and external. */
export type Input = Plain | Failing;

export interface Plain {
  readonly name:
    | "wanted" // the first subscription was added
    | "unwanted" // the last subscription was removed
    | "authorized" // a credential is available
    | "opened" // the server has responded
    | "progress" // an event or a heartbeat arrived
    | "renewed" // a newer credential than that of the connection is available
    | "offline"
    | "online"
    | "wake" // the page has become visible
    | "timer"
    | "close";
}

export interface Failing {
  readonly name:
    | "lost" // the connection ended, or could not be opened
    | "silent" // no data arrived before the timeout
    | "blocked" // the server is reachable, but not over this transport
    | "unsupported" // the transport cannot work here
    | "unauthorized" // the credential is invalid or has expired
    | "refused"; // the server refuses the connection
  readonly error: ThreadlineError;
}

export interface Machine {
  readonly state: State;
  /** Number of consecutive failures. */
  readonly failures: number;
  /** True if the credential was renewed without any progress since. */
  readonly renewed: boolean;
  readonly online: boolean;
  /** Number of transports, and the index of the current one; 0 is the most preferred. */
  readonly transports: number;
  readonly transport: number;
  /** Number of consecutive attempts at which the current transport was blocked. */
  readonly strikes: number;
  /** Time at which a better transport was abandoned. */
  readonly fellBackAt: number;
}

/** Effects of a step. A connection is ended before another one is opened. */
export type Effect =
  | { readonly do: "disconnect" | "stopTimer" | "authorize" | "connect" | "check" }
  | { readonly do: "wait"; readonly ms: number; readonly error: ThreadlineError | undefined }
  | { readonly do: "fail"; readonly error: ThreadlineError };

/** The time in milliseconds, and a random number from 0 to 1. */
export interface Draw {
  readonly now: number;
  readonly chance: number;
}

/** A connection without subscriptions. */
export function newMachine(transports: number): Machine {
  return {
    state: { name: "idle" },
    failures: 0,
    renewed: false,
    online: true,
    transports,
    transport: 0,
    strikes: 0,
    fellBackAt: 0,
  };
}

type Move<I extends Input = Input> = (machine: Machine, input: I, draw: Draw) => Machine;
type Row = { readonly [N in Plain["name"]]: Move } & { readonly [N in Failing["name"]]: Move<Failing> };

const stay: Move = (machine) => machine;

const to =
  (name: "idle" | "connecting" | "closed"): Move =>
  (machine) => ({ ...machine, state: { name } });

/** Starts an attempt. After a while on a less preferred transport, the attempt uses the best one. */
const begin: Move = (machine, _, { now }) => {
  const again = machine.transport > 0 && now - machine.fellBackAt >= PREFER_AGAIN_MS;
  return { ...machine, ...(again && prefer(machine)), state: { name: "authorizing" } };
};

/** Selects the best transport, which is abandoned after a single failure if it is still blocked. */
const prefer = ({ transport, strikes }: Machine) =>
  transport > 0 ? { transport: 0, strikes: STRIKES - 1 } : { strikes };

const want: Move = (machine, input, draw) => {
  const fresh = { ...machine, failures: 0, renewed: false };
  return machine.online ? begin(fresh, input, draw) : away(fresh, input, draw);
};

/** The network became unavailable. */
const away: Move = (machine) => ({ ...machine, online: false, state: { name: "offline", waitMs: OFFLINE_RETRY_MS } });

/** The network is available again, and may be a different one. */
const back: Move = (machine, input, draw) => begin({ ...machine, ...prefer(machine), online: true }, input, draw);

const fail: Move<Failing> = (machine, { error }) => ({ ...machine, state: { name: "failed", error } });

const retry: Move<Failing> = (machine, input, draw) => {
  const { error } = input;
  if (!machine.online) return away(machine, input, draw);
  const failures = machine.failures + 1;
  const waitMs = backoff(failures, draw.chance, error.retryAfterMs);
  return { ...machine, failures, state: { name: "waiting", waitMs, error } };
};

const fallBack: Move<Failing> = (machine, input, draw) => {
  const transport = machine.transport + 1;
  if (transport >= machine.transports) return (input.error.retryable ? retry : fail)(machine, input, draw);
  return { ...machine, transport, strikes: 0, fellBackAt: draw.now, state: { name: "connecting" } };
};

const strike: Move<Failing> = (machine, input, draw) => {
  const strikes = machine.strikes + 1;
  return (strikes < STRIKES ? retry : fallBack)({ ...machine, strikes }, input, draw);
};

/** Renews the credential once per failure: a refusal of a credential that was just renewed is final. */
const renew: Move<Failing> = (machine, input, draw) =>
  machine.renewed ? fail(machine, input, draw) : begin({ ...machine, renewed: true }, input, draw);

const progress: Move = (machine) =>
  machine.failures === 0 && !machine.renewed && machine.strikes === 0
    ? machine
    : { ...machine, failures: 0, renewed: false, strikes: 0 };

const online =
  (online: boolean): Move =>
  (machine) => ({ ...machine, online });

/** Inputs that have no effect without a connection. */
const still = {
  wanted: stay,
  unwanted: to("idle"),
  authorized: stay,
  opened: stay,
  progress: stay,
  renewed: stay,
  offline: away,
  online: online(true),
  wake: stay,
  timer: stay,
  close: to("closed"),
  lost: stay,
  silent: stay,
  blocked: stay,
  unsupported: stay,
  unauthorized: stay,
  refused: stay,
} satisfies Row;

/** Inputs while a connection is open or being opened. */
const connected = {
  ...still,
  lost: retry,
  silent: retry,
  blocked: strike,
  unsupported: fallBack,
  unauthorized: renew,
  refused: fail,
} satisfies Row;

/** For every state, the effect of each input. */
export const TABLE: { readonly [S in State["name"]]: Row } = {
  idle: { ...still, wanted: want, unwanted: stay, offline: online(false) },
  authorizing: { ...still, authorized: to("connecting"), lost: retry, refused: fail },
  connecting: { ...connected, opened: (machine) => ({ ...machine, online: true, state: { name: "open" } }) },
  open: { ...connected, progress, renewed: to("connecting") },
  waiting: { ...still, timer: begin, wake: begin, online: back },
  offline: { ...still, offline: stay, timer: begin, online: back },
  failed: { ...still, wanted: want, unwanted: stay, offline: online(false) },
  closed: { ...still, unwanted: stay, offline: stay, online: stay, close: stay },
};

/** Returns the next state, and the effects in the order of their execution. */
export function step(machine: Machine, input: Input, draw: Draw): { machine: Machine; effects: readonly Effect[] } {
  const move = TABLE[machine.state.name][input.name] as Move; // only moves for failing inputs handle them
  const next = move(machine, input, draw);
  return { machine: next, effects: effects(machine.state, next.state, input) };
}

function effects(from: State, next: State, input: Input): readonly Effect[] {
  if (from === next) return from.name === "open" && input.name === "wake" ? [{ do: "check" }] : [];
  const list: Effect[] = [];
  const connected = from.name === "open" || from.name === "connecting";
  if (connected && next.name !== "open") list.push({ do: "disconnect" });
  if (from.name === "waiting" || from.name === "offline") list.push({ do: "stopTimer" });
  if (next.name === "authorizing") list.push({ do: "authorize" });
  if (next.name === "connecting") list.push({ do: "connect" });
  if (next.name === "waiting") list.push({ do: "wait", ms: next.waitMs, error: next.error });
  if (next.name === "offline") list.push({ do: "wait", ms: next.waitMs, error: undefined });
  if (next.name === "failed") list.push({ do: "fail", error: next.error });
  return list;
}
