// The message after which each run of a thread ended. Messages do not name their run, but the server returns the conversation as of
// any event, including the last event of a run. That never changes: each run is requested once.

import type { Run, ThreadRef } from "threadline";

/** Runs of one request. */
const PAGE = 20;
/** Runs that are checked beyond the number of messages: each costs a request, and most runs have a message. */
const SILENT_RUNS = 20;

/** The runs that ended after a message, oldest first, by its id. */
export type RunEnds = ReadonlyMap<string, readonly Run[]>;

export const NO_ENDS: RunEnds = new Map();

/** The known ends of runs, by run: the last message at that point, if there was one. */
export type KnownEnds = Map<string, string | undefined>;

/** The requests to a thread. */
export type Source = Pick<ThreadRef, "messages" | "runs">;

export interface Look {
  readonly known: KnownEnds;
  readonly epoch: string;
  /** Whether a message may be among those not loaded yet: the search stops there. */
  readonly isOlder: (messageId: string) => boolean;
  /** How many messages are loaded. */
  readonly loaded: number;
  readonly signal: AbortSignal;
  /** The newest runs, which are known before their ends are. */
  readonly onRuns: (newest: readonly Run[]) => void;
  readonly onEnds: (ends: RunEnds) => void;
}

/** Looks for the ends of runs, the newest first, as far back as messages are loaded. */
export async function lookForEnds(source: Source, look: Look): Promise<void> {
  const { known, epoch, isOlder, loaded, signal, onRuns, onEnds } = look;
  const ended: (readonly [string, Run])[] = [];
  let left = loaded + SILENT_RUNS;
  let cursor: string | undefined;
  while (left > 0) {
    const { runs, nextCursor } = await source.runs({ limit: PAGE, signal, ...(cursor !== undefined && { cursor }) });
    if (cursor === undefined) onRuns(runs);
    for (const run of runs) {
      const { runId, lastSeq, endedAt } = run;
      if (endedAt === null || lastSeq === 0) continue;
      left -= 1;
      if (left < 0) break;
      if (!known.has(runId)) {
        const { messages } = await source.messages({ at: lastSeq, limit: 1, epoch, signal });
        known.set(runId, messages.at(-1)?.id);
      }
      const messageId = known.get(runId);
      if (messageId === undefined) continue;
      ended.push([messageId, run]);
      if (isOlder(messageId)) return onEnds(byMessage(ended));
    }
    onEnds(byMessage(ended));
    if (nextCursor === null) return;
    cursor = nextCursor;
  }
}

function byMessage(newestFirst: readonly (readonly [string, Run])[]): RunEnds {
  const ends = new Map<string, Run[]>();
  for (const [messageId, run] of newestFirst.toReversed()) {
    const there = ends.get(messageId);
    if (there) there.push(run);
    else ends.set(messageId, [run]);
  }
  return ends;
}
