// Where runs begin and end, according to a thread's record and its events.

import type { NewEvent, Thread } from "./types.js";

/** Beginning of the names of the server's own CUSTOM events. */
export const RESERVED_NAMES = "threadline.";

const TERMINAL = new Set(["RUN_FINISHED", "RUN_ERROR"]);

/** True if an event is the last one of its run. */
export function isTerminal({ type }: NewEvent): boolean {
  return TERMINAL.has(type);
}

/** The newest seq at which no run was active: a fold that starts there does not begin in the middle of a run. */
export function restingSeq({ activeRun, tail }: Thread): number {
  return activeRun ? activeRun.firstSeq - 1 : tail;
}
