import type { Message } from "../types.js";
import { equal } from "./patch.js";
import { isObject, type Members } from "./read.js";

/** Which activities a snapshot speaks for, so that what it leaves out of them is gone. Undefined if it does not say. */
function authority(metadata: Members | undefined): ((type: unknown) => boolean) | undefined {
  const said = metadata?.["@ag-ui/client"];
  if (said === undefined) return undefined;
  // A broken declaration owns nothing.
  if (!isObject(said)) return () => false;
  const types = said.authoritativeActivityTypes;
  if (types === undefined) return undefined;
  if (types === null) return () => true;
  const owned: unknown[] = Array.isArray(types) && types.every((type) => typeof type === "string") ? types : [];
  return (type) => owned.includes(type);
}

/**
 * The messages after a MESSAGES_SNAPSHOT: those it repeats, in the places that they had, then its new ones. Activities and
 * reasoning that it leaves out stay, unless it has some of its own (or says that it owns them), since many agents keep none.
 * A message that is repeated as it was stays the same object.
 */
export function merge(old: readonly Message[], repeated: readonly Message[], metadata: Members | undefined): Message[] {
  const owns = authority(metadata);
  const has = (role: string) => repeated.some((message) => message.role === role);
  const [hasActivity, hasReasoning] = [has("activity"), has("reasoning")];
  const isKept = ({ role, activityType }: Message) => {
    if (role === "activity") return !(owns ? owns(activityType) : hasActivity);
    return role === "reasoning" && !hasReasoning;
  };
  // Of an id that occurs twice the last counts.
  const byId = new Map(repeated.map((message) => [message.id, message]));
  const merged = old.flatMap((message) => {
    const now = byId.get(message.id);
    if (now === undefined) return isKept(message) ? message : [];
    return equal(message, now) ? message : now;
  });
  const known = new Set(merged.map(({ id }) => id));
  return [...merged, ...repeated.filter(({ id }) => !known.has(id))];
}
