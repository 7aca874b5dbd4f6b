// What a thread's record and its events say of where runs begin and end.

import type { NewEvent, Thread } from "./types.js";

const TERMINAL = new Set(["RUN_FINISHED", "RUN_ERROR"]);

/** Whether an event is the last one of its run. */
export function isTerminal({ type }: NewEvent): boolean {
  return TERMINAL.has(type);
}

/** The newest seq at which no run was under way: a fold that begins there cuts nothing in the middle. */
export function restingSeq({ activeRun, tail }: Thread): number {
  return activeRun ? activeRun.firstSeq - 1 : tail;
}
