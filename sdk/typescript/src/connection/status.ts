import type { TransportName } from "../config.js";
import type { ThreadlineError } from "../errors.js";
import type { Lane } from "./lane.js";
import type { State } from "./machine.js";

/** How a client is connected. The same object until something of it changes. */
export type ConnectionStatus =
  /** Nothing is followed, so nothing is connected. */
  | { readonly state: "idle" }
  | { readonly state: "connecting" }
  | { readonly state: "live"; readonly transport: TransportName }
  /** `nextRetryAt`: when the next try is due, as `Date.now()` has it; null while it is under way. */
  | { readonly state: "reconnecting"; readonly nextRetryAt: number | null; readonly error: ThreadlineError | null }
  | { readonly state: "offline" }
  /** What was followed has ended with this error. Following something tries again. */
  | { readonly state: "failed"; readonly error: ThreadlineError }
  | { readonly state: "closed" };

/** Where a client has several connections, the first of these that one is in counts. */
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
      return failures > 0 ? { state: "reconnecting", nextRetryAt: null, error: null } : { state: "connecting" };
    case "open":
      return { state: "live", transport: lane.transport ?? "websocket" };
    case "failed":
      return { state: "failed", error: state.error };
    default:
      return { state: state.name };
  }
}

/** Whether two say the same. */
export function sameStatus(one: ConnectionStatus, other: ConnectionStatus): boolean {
  const members = Object.entries(one);
  const others = new Map(Object.entries(other));
  return members.length === others.size && members.every(([name, value]) => others.get(name) === value);
}
