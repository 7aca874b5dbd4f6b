import type { TransportName } from "../config.js";
import type { ThreadlineError } from "../errors.js";
import type { Reach } from "../reach.js";
import type { Lane } from "./lane.js";
import type { State } from "./machine.js";

/** The connection status of a client. The same object is used until the status changes. */
export type ConnectionStatus =
  /** No subscriptions, so no connection; and no call is in trouble. */
  | { readonly state: "idle" }
  /** Connecting for the first time; or, with `slow`, something is awaited, and the server has been silent for about a second. */
  | { readonly state: "connecting"; readonly slow?: true }
  | { readonly state: "live"; readonly transport: TransportName }
  /**
   * A subscription has lost its connection, or a call is being retried and nothing has succeeded since its failure.
   * `nextRetryAt`: time of the next attempt, as in `Date.now()`; null during an attempt.
   */
  | { readonly state: "reconnecting"; readonly nextRetryAt: number | null; readonly error: ThreadlineError | null }
  | { readonly state: "offline" }
  /** The subscriptions have ended with this error. A new subscription connects again. */
  | { readonly state: "failed"; readonly error: ThreadlineError }
  | { readonly state: "closed" };

/** Order of precedence of the states of a client's connections, the highest first. */
const RANKS: readonly State["name"][] = [
  "closed",
  "offline",
  "waiting",
  "connecting",
  "authorizing",
  "open",
  "failed",
  "idle",
];

/** The status of a client with these connections. */
export function statusOf(lanes: readonly Lane[]): ConnectionStatus {
  const rank = ({ machine }: Lane) => RANKS.indexOf(machine.state.name);
  const lane = lanes.reduce<Lane | undefined>(
    (first, next) => (!first || rank(next) < rank(first) ? next : first),
    undefined,
  );
  if (!lane) return { state: "idle" };
  const { state, failures } = lane.machine;
  switch (state.name) {
    case "waiting":
      return { state: "reconnecting", nextRetryAt: lane.nextRetryAt, error: state.error };
    case "authorizing":
    case "connecting":
      return failures > 0 ? { state: "reconnecting", nextRetryAt: null, error: lane.trouble } : { state: "connecting" };
    case "open":
      return { state: "live", transport: lane.transport ?? "websocket" };
    case "failed":
      return { state: "failed", error: state.error };
    default:
      return { state: state.name };
  }
}

/** The status, combined with the trouble of pending calls, which connections do not know yet. */
export function withCalls(status: ConnectionStatus, { trouble, isSlow }: Reach, isLate: boolean): ConnectionStatus {
  if (status.state !== "idle" && status.state !== "connecting" && status.state !== "live") return status;
  if (trouble) return { state: "reconnecting", ...trouble };
  return isSlow || (isLate && status.state === "connecting") ? { state: "connecting", slow: true } : status;
}

/** True if two statuses are equal. */
export function sameStatus(one: ConnectionStatus, other: ConnectionStatus): boolean {
  const members = Object.entries(one);
  const others = new Map(Object.entries(other));
  return members.length === others.size && members.every(([name, value]) => others.get(name) === value);
}
