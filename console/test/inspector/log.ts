// A log that is only here, for what reads pages.

import type { AgUiEvent, EventPage, LoggedEvent } from "threadline";

export function logged(seq: number, event: AgUiEvent = { type: "CUSTOM", seq }, runId = "r"): LoggedEvent {
  return { seq, runId, at: new Date(1_700_000_000_000 + seq).toISOString(), event };
}

/** Reads from a log, as the server does; pages are no longer than `most`. */
export class Pages {
  /** The cursors that were asked for. */
  readonly asked: number[] = [];
  failure: Error | undefined;
  readonly log: LoggedEvent[];
  readonly #most: number;

  constructor(log: LoggedEvent[], most = Infinity) {
    this.log = log;
    this.#most = most;
  }

  readonly read = async (after: number, limit: number): Promise<EventPage> => {
    this.asked.push(after);
    if (this.failure) throw this.failure;
    const events = this.log.slice(after, after + Math.min(limit, this.#most));
    const tail = this.log.length;
    const cursor = events.at(-1)?.seq ?? after;
    return { threadId: "t", epoch: "e", tail, cursor, hasMore: cursor < tail, events };
  };
}

/** A log of so many events. */
export function logOf(length: number, event?: (seq: number) => AgUiEvent): LoggedEvent[] {
  return Array.from({ length }, (_, at) => logged(at + 1, event?.(at + 1)));
}
