// The life of one connection as pure data: what state follows on an input, and what is to be done then. No clock, no dice and
// no network in here: `step` is given the time and a random number.
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
  /** Nothing is followed. */
  | { readonly name: "idle" }
  /** Waits for a credential. */
  | { readonly name: "authorizing" }
  /** Waits for the first word of the server. */
  | { readonly name: "connecting" }
  | { readonly name: "open" }
  /** The next try is due after `waitMs`. */
  | { readonly name: "waiting"; readonly waitMs: number; readonly error: ThreadlineError }
  /** There is no network. It is tried all the same after `waitMs`. */
  | { readonly name: "offline"; readonly waitMs: number }
  /** Trying again cannot help. */
  | { readonly name: "failed"; readonly error: ThreadlineError }
  | { readonly name: "closed" };

/** What happens, from inside and outside. */
export type Input = Plain | Failing;

export interface Plain {
  readonly name:
    | "wanted" // something is followed
    | "unwanted" // nothing is followed any more
    | "authorized" // there is a credential
    | "opened" // the server speaks
    | "progress" // an event or a heartbeat came
    | "renewed" // there is a newer credential than the one it was opened with
    | "offline"
    | "online"
    | "wake" // the page is looked at again
    | "timer"
    | "close";
}

export interface Failing {
  readonly name:
    | "lost" // the connection ended, or never came about
    | "silent" // nothing was heard for too long
    | "blocked" // the server can be reached, but not in this way
    | "unsupported" // this way is certainly none
    | "unauthorized" // the credential is not valid (any more)
    | "refused"; // the server will not have it
  readonly error: ThreadlineError;
}

export interface Machine {
  readonly state: State;
  /** Failures in a row. */
  readonly failures: number;
  /** The credential was renewed, and nothing has been achieved since. */
  readonly renewed: boolean;
  readonly online: boolean;
  /** How many transports there are, and which of them is used now, 0 being the best. */
  readonly transports: number;
  readonly transport: number;
  /** How often in a row this one was blocked. */
  readonly strikes: number;
  /** When a better one was given up. */
  readonly fellBackAt: number;
}

/** What is to be done. A connection is ended before another one is begun. */
export type Effect =
  | { readonly do: "disconnect" | "stopTimer" | "authorize" | "connect" | "check" }
  | { readonly do: "wait"; readonly ms: number; readonly error: ThreadlineError | undefined }
  | { readonly do: "fail"; readonly error: ThreadlineError };

/** The time in milliseconds, and a number from 0 to 1. */
export interface Draw {
  readonly now: number;
  readonly chance: number;
}

/** A connection that nobody has asked for yet. */
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

/** Begins a try. After a while on a lesser transport that is a try of the best one. */
const begin: Move = (machine, _, { now }) => {
  const again = machine.transport > 0 && now - machine.fellBackAt >= PREFER_AGAIN_MS;
  return { ...machine, ...(again && prefer(machine)), state: { name: "authorizing" } };
};

/** The best transport, which is given up at once if it is blocked still. */
const prefer = ({ transport, strikes }: Machine) =>
  transport > 0 ? { transport: 0, strikes: STRIKES - 1 } : { strikes };

const want: Move = (machine, input, draw) => {
  const fresh = { ...machine, failures: 0, renewed: false };
  return machine.online ? begin(fresh, input, draw) : away(fresh, input, draw);
};

/** There is no network. */
const away: Move = (machine) => ({ ...machine, online: false, state: { name: "offline", waitMs: OFFLINE_RETRY_MS } });

/** There is one again, and it may be another one. */
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

/** Once for each failure: a credential that was just renewed and does not do either is final. */
const renew: Move<Failing> = (machine, input, draw) =>
  machine.renewed ? fail(machine, input, draw) : begin({ ...machine, renewed: true }, input, draw);

const progress: Move = (machine) =>
  machine.failures === 0 && !machine.renewed && machine.strikes === 0
    ? machine
    : { ...machine, failures: 0, renewed: false, strikes: 0 };

const online =
  (online: boolean): Move =>
  (machine) => ({ ...machine, online });

/** What means nothing where nothing is under way. */
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

/** The same where a connection is under way. */
const connected = {
  ...still,
  lost: retry,
  silent: retry,
  blocked: strike,
  unsupported: fallBack,
  unauthorized: renew,
  refused: fail,
} satisfies Row;

/** Every state and what each input makes of it. */
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

/** The next state, and what is to be done in this order. */
export function step(machine: Machine, input: Input, draw: Draw): { machine: Machine; effects: readonly Effect[] } {
  const move = TABLE[machine.state.name][input.name] as Move; // a failing input meets a move for failing inputs
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
