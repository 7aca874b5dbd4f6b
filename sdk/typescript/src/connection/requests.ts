// What the transports have in common that need a request for each subscription: turns, where there are more than may be under
// way at once, and the end of all with the end of one.

import { ProblemError } from "../errors.js";
import type { EventBatch, FeedEntry, LoggedEvent } from "../types.js";
import type { FrameOf, SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { type Context, failing, type Listener, type Transport, type Wanted } from "./transport.js";
import type { Place } from "./turns.js";

/** One stream or one page; called again and again. Resolves to why the whole connection is over, if it is. */
export type Turn = (place: Place, signal: AbortSignal) => Promise<Failing | undefined>;

/** Follows each subscription as `follow` says, turn by turn. */
export function openRequests(
  context: Context,
  listener: Listener,
  follow: (context: Context, request: SubscribeRequest, listener: Listener) => Turn,
): Transport {
  const followed = new Map<Wanted, AbortController>();

  const remove = (wanted: Wanted) => {
    followed.get(wanted)?.abort();
    followed.delete(wanted);
  };

  const close = () => [...followed.keys()].forEach(remove);

  const serve = async (wanted: Wanted, signal: AbortSignal) => {
    const request = wanted.request();
    const turn = follow(context, request, listener);
    let why: Failing | undefined;
    try {
      while (!why && !signal.aborted) {
        const place = await context.turns.take(signal);
        try {
          why = await turn(place, signal);
        } finally {
          place.leave();
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      // What is refused to one subscription need not be to the others; a credential is.
      if (error instanceof ProblemError && !error.retryable && error.status !== 401) {
        return listener.frame({ name: "error", id: request.id, body: { status: error.status, ...error.problem } });
      }
      why = failing(error);
    }
    if (signal.aborted || !why) return;
    close();
    listener.ended(why);
  };

  return {
    add(wanted) {
      const control = new AbortController();
      followed.set(wanted, control);
      void serve(wanted, control.signal);
    },
    remove,
    close,
    // A request cannot be asked whether it lives: its own patience decides.
    check() {},
  };
}

/** What is asked for, behind `/v1`. */
export function pathOf({ threadId }: SubscribeRequest): string[] {
  return threadId === undefined ? ["feed"] : ["threads", threadId, "events"];
}

/** Single events as a frame of the socket has them. */
export function eventsFrame(threadId: string, epoch: string, events: readonly LoggedEvent[]): FrameOf<"events"> {
  const batches: (EventBatch & { events: LoggedEvent["event"][] })[] = [];
  for (const { seq, runId, at, event } of events) {
    const last = batches.at(-1);
    if (last?.runId === runId && last.at === at && last.seq + last.events.length === seq) last.events.push(event);
    else batches.push({ seq, runId, at, events: [event] });
  }
  return { name: "events", body: { threadId, epoch, batches } };
}

/** Entries of the feed in a frame. */
export function entriesFrame(entries: readonly FeedEntry[]): FrameOf<"feed"> {
  return { name: "feed", body: { entries, cursor: entries.at(-1)?.cursor ?? 0 } };
}
