// After which message each run of a thread ended. Messages do not say of which run they are, but the server shows the conversation as
// it was after any event, the last one of a run among them. That never changes: each run is asked about once.

import type { Run, ThreadRef } from "threadline";

/** Runs of one request. */
const PAGE = 20;
/** Runs that are looked at beyond as many as there are messages: each costs a request, and most of them have said something. */
const SILENT_RUNS = 20;

/** The runs that ended after a message, oldest first, by its id. */
export type RunEnds = ReadonlyMap<string, readonly Run[]>;

export const NO_ENDS: RunEnds = new Map();

/** What is known of the ends of runs, by run: the last message that there was, if there was one. */
export type KnownEnds = Map<string, string | undefined>;

/** What is asked of a thread. */
export type Source = Pick<ThreadRef, "messages" | "runs">;

export interface Look {
  readonly known: KnownEnds;
  readonly epoch: string;
  /** Whether a message may be among those that were not loaded yet: where that begins nobody looks further. */
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
  let cursor: number | undefined;
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
