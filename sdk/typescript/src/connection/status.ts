import type { TransportName } from "../config.js";
import type { ThreadlineError } from "../errors.js";
import type { Reach } from "../reach.js";
import type { Lane } from "./lane.js";
import type { State } from "./machine.js";

/** How a client is connected. The same object until something of it changes. */
export type ConnectionStatus =
  /** Nothing is followed, so nothing is connected; and no call is in trouble. */
  | { readonly state: "idle" }
  /** `slow`: there has been no answer for about a second, and no failure either. */
  | { readonly state: "connecting"; readonly slow?: true }
  | { readonly state: "live"; readonly transport: TransportName }
  /**
   * A subscription has lost its connection, or a call goes on trying. `nextRetryAt`: when the next try is due, as `Date.now()` has it;
   * null while it is under way.
   */
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

/** The same, with what its calls have found out where its connections know nothing yet. */
export function withCalls(status: ConnectionStatus, { trouble, isSlow }: Reach, isLate: boolean): ConnectionStatus {
  if (status.state !== "idle" && status.state !== "connecting") return status;
  if (trouble) return { state: "reconnecting", ...trouble };
  return isSlow || (isLate && status.state === "connecting") ? { state: "connecting", slow: true } : status;
}

/** Whether two say the same. */
export function sameStatus(one: ConnectionStatus, other: ConnectionStatus): boolean {
  const members = Object.entries(one);
  const others = new Map(Object.entries(other));
  return members.length === others.size && members.every(([name, value]) => others.get(name) === value);
}
