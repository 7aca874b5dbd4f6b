// A log in memory, for tests of parts that read pages.

import type { EventPage, LoggedEvent } from "threadline";
import type { AnyEvent } from "../../src/untrusted.ts";

export function logged(seq: number, event: AnyEvent = { type: "CUSTOM", seq }, runId = "r"): LoggedEvent {
  return { seq, runId, at: new Date(1_700_000_000_000 + seq).toISOString(), event: event as LoggedEvent["event"] };
}

/** Reads pages of a log like the server; pages are no longer than `most`. */
export class Pages {
  /** The requested cursors. */
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
    const last = events.at(-1)?.seq ?? after;
    return { threadId: "t", epoch: "e", tail, nextCursor: `c1.${last}`, hasMore: last < tail, events };
  };
}

/** A log of this many events. */
export function logOf(length: number, event?: (seq: number) => AnyEvent): LoggedEvent[] {
  return Array.from({ length }, (_, at) => logged(at + 1, event?.(at + 1)));
}
