import { equal } from "./patch.js";
import { type FoldedMessage, isObject, type Members } from "./read.js";

/**
 * The activity types that a snapshot owns, so that activities it omits are removed. Undefined if the snapshot does not
 * declare them.
 */
function authority(metadata: Members | undefined): ((type: unknown) => boolean) | undefined {
  const said = metadata?.["@ag-ui/client"];
  if (said === undefined) return undefined;
  // An invalid declaration owns nothing.
  if (!isObject(said)) return () => false;
  const types = said.authoritativeActivityTypes;
  if (types === undefined) return undefined;
  if (types === null) return () => true;
  const owned: unknown[] = Array.isArray(types) && types.every((type) => typeof type === "string") ? types : [];
  return (type) => owned.includes(type);
}

/**
 * The messages after a MESSAGES_SNAPSHOT: repeated messages keep their places, and new ones follow. Activities and
 * reasoning that the snapshot omits are kept, unless it contains some of the same kind (or declares that it owns them),
 * since many agents do not keep them. A message that is repeated without a change stays the same object.
 */
export function merge(
  old: readonly FoldedMessage[],
  repeated: readonly FoldedMessage[],
  metadata: Members | undefined,
): FoldedMessage[] {
  const owns = authority(metadata);
  const has = (role: string) => repeated.some((message) => message.role === role);
  const [hasActivity, hasReasoning] = [has("activity"), has("reasoning")];
  const isKept = ({ role, activityType }: FoldedMessage) => {
    if (role === "activity") return !(owns ? owns(activityType) : hasActivity);
    return role === "reasoning" && !hasReasoning;
  };
  // The last message with an id counts.
  const byId = new Map(repeated.map((message) => [message.id, message]));
  const merged = old.flatMap((message) => {
    const now = byId.get(message.id);
    if (now === undefined) return isKept(message) ? message : [];
    return equal(message, now) ? message : now;
  });
  const known = new Set(merged.map(({ id }) => id));
  return [...merged, ...repeated.filter(({ id }) => !known.has(id))];
}
