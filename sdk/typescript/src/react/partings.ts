// Places at which the branches of a conversation part, according to the origins of the branches. Pure.

import type { Message, Thread } from "../types.js";
import { compare } from "./window.js";

/** A place in a thread after which branches of its conversation differ. */
export interface Parting {
  /** Seq of the last event that the branches have in common. */
  readonly seq: number;
  /** The first message after the place; null if none follows, or if it is not loaded. */
  readonly messageId: string | null;
  /**
   * One branch for each continuation, in the order in which they were made. Branches with the same continuation have one of them
   * here: the shown one, else the one that was used last.
   */
  readonly threads: readonly Thread[];
  /** Index of the shown thread in `threads`. */
  readonly shown: number;
}

/** A parting without its message. */
export type Place = Omit<Parting, "messageId">;

/** A log with events of a thread, and the newest seq that the thread has of it. */
interface Ancestor {
  readonly threadId: string;
  readonly upTo: number;
}

/** Returns the places at which branches part from a thread, in order. */
export function placesOf(branches: readonly Thread[], threadId: string): readonly Place[] {
  const lines = new Map(branches.map((branch) => [branch, lineOf(branch, branches)]));
  const places = new Map<string, Place>();
  for (const { forkedFrom } of branches) {
    if (!forkedFrom) continue;
    const { threadId: origin, seq } = forkedFrom;
    const key = `${seq} ${origin}`;
    if (places.has(key)) continue;
    const ids = [origin, ...branches.map((branch) => branch.threadId)];
    const byWay = new Map(ids.map((id) => [id, [] as Thread[]]));
    for (const branch of branches) byWay.get(wayOf(lines.get(branch)!, origin, seq) ?? "")?.push(branch);
    const ways = [...byWay.values()].filter((members) => members.length > 0);
    const isShown = (branch: Thread) => branch.threadId === threadId;
    const shown = ways.findIndex((members) => members.some(isShown));
    if (shown < 0 || ways.length < 2) continue;
    const threads = ways.map((members) => members.find(isShown) ?? members.toSorted(compare)[0]!);
    places.set(key, { seq, threads, shown });
  }
  return [...places.values()].sort((one, other) => one.seq - other.seq);
}

/** Seq of the last event that two branches have in common; undefined if they have none. */
export function commonSeq(branches: readonly Thread[], one: string, other: string): number | undefined {
  const [line, otherLine] = [one, other].map((id) => {
    const branch = branches.find(({ threadId }) => threadId === id);
    return branch ? lineOf(branch, branches) : [];
  });
  for (const { threadId, upTo } of line!) {
    const there = otherLine!.find((ancestor) => ancestor.threadId === threadId);
    if (there) return Math.min(upTo, there.upTo);
  }
  return undefined;
}

/** Returns the message that follows another one, and null if the messages after an empty beginning are not loaded. */
export function following(messages: readonly Message[], last: string | null, hasMore: boolean): string | null {
  const at = last === null ? (hasMore ? messages.length : -1) : messages.findLastIndex(({ id }) => id === last);
  if (last !== null && at < 0) return null;
  return messages[at + 1]?.id ?? null;
}

/** The logs with events of a thread, its own first. A deleted origin ends the line. */
function lineOf(thread: Thread, branches: readonly Thread[]): readonly Ancestor[] {
  const line: Ancestor[] = [{ threadId: thread.threadId, upTo: Number.POSITIVE_INFINITY }];
  let from = thread.forkedFrom;
  // Seqs fall along the line, so the line ends.
  while (from && from.seq < line.at(-1)!.upTo) {
    const { threadId, seq } = from;
    line.push({ threadId, upTo: seq });
    from = branches.find((branch) => branch.threadId === threadId)?.forkedFrom ?? null;
  }
  return line;
}

/** The thread in whose log a line continues after a seq of a log; undefined if it does not come so far there. */
function wayOf(line: readonly Ancestor[], origin: string, seq: number): string | undefined {
  const at = line.findIndex(({ threadId, upTo }) => threadId === origin && upTo >= seq);
  const log = line[at];
  return log?.upTo === seq ? line[at - 1]?.threadId : log?.threadId;
}
