// What the transports have in common that need a request for each subscription: turns, where there are more than may be under
// way at once, and the end of all with the end of one.

import { ProblemError } from "../errors.js";
import type { EventBatch, FeedEntry, LoggedEvent } from "../types.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { type Context, diagnose, failing, type Listener, type Transport, type Wanted } from "./transport.js";
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
    } catch (cause) {
      if (signal.aborted) return;
      const error = context.http.onTheWay(cause);
      // What is refused to one subscription need not be to the others; a credential is.
      if (error instanceof ProblemError && !error.retryable && error.status !== 401) {
        return tell(listener, request, "error", { status: error.status, ...error.problem });
      }
      why = failing(error);
    }
    if (signal.aborted || !why) return;
    close();
    const isTheWay = why.name === "blocked" || why.name === "unsupported";
    listener.ended(isTheWay ? await diagnose(context, why) : why);
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

/** What frames are called in the feed. */
const IN_FEED: { readonly [name: string]: string } = { hello: "feedHello", caughtUp: "feedCaughtUp" };

/** Tells in a frame of the socket what was read for a request; `body` has what belongs into one of a thread or the feed. */
export function tell(
  listener: Listener,
  { id, threadId }: SubscribeRequest,
  name: "hello" | "caughtUp" | "fellBehind" | "ended" | "error",
  body: object,
): void {
  const frame =
    threadId === undefined ? { id, name: IN_FEED[name] ?? name, body } : { id, name, body: { ...body, threadId } };
  listener.frame(frame as ServerFrame);
}

/** Tells of new events or entries, and gives the cursor after them. */
export function deliver(
  listener: Listener,
  { id, threadId }: SubscribeRequest,
  epoch: string | undefined,
  list: readonly (LoggedEvent | FeedEntry)[],
): number {
  if (threadId === undefined) {
    const entries = list as readonly FeedEntry[];
    const cursor = entries.at(-1)?.cursor ?? 0;
    listener.frame({ name: "feed", id, body: { entries, cursor } });
    return cursor;
  }
  const events = list as readonly LoggedEvent[];
  listener.frame({ name: "events", id, body: { threadId, epoch: epoch ?? "", batches: batchesOf(events) } });
  return events.at(-1)?.seq ?? 0;
}

/** Single events together, where they were committed together. */
export function batchesOf(events: readonly LoggedEvent[]): EventBatch[] {
  const batches: (EventBatch & { events: LoggedEvent["event"][] })[] = [];
  for (const { seq, runId, at, event } of events) {
    const last = batches.at(-1);
    if (last?.runId === runId && last.at === at && last.seq + last.events.length === seq) last.events.push(event);
    else batches.push({ seq, runId, at, events: [event] });
  }
  return batches;
}
