// Common part of the transports that make one request per subscription: turns, where there are more subscriptions than
// concurrent requests, and the end of all requests with the end of one.

import { ProblemError } from "../errors.js";
import type { Http } from "../http.js";
import { STREAMS_ELSEWHERE, STREAMS_IN_BROWSER } from "../limits.js";
import type { EventBatch, FeedEntry, LoggedEvent } from "../types.js";
import { failing } from "./failing.js";
import type { ServerFrame, SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { type Context, diagnose, type Listener, type Transport, type Wanted } from "./transport.js";
import { type Place, Turns } from "./turns.js";

/** One stream or one page; called repeatedly. Resolves to the reason if the whole connection has ended. */
export type Turn = (place: Place, signal: AbortSignal) => Promise<Failing | undefined>;

/** The environment of such a transport. */
export interface RequestsContext extends Context {
  readonly turns: Turns;
}

/** The turns of each client, which all of its connections share. */
const TURNS = new WeakMap<Http, Turns>();

function turnsOf(http: Http): Turns {
  let turns = TURNS.get(http);
  if (!turns) {
    const isPage = "document" in globalThis || "importScripts" in globalThis;
    turns = new Turns(isPage ? STREAMS_IN_BROWSER : STREAMS_ELSEWHERE);
    TURNS.set(http, turns);
  }
  return turns;
}

/** Follows each subscription with `follow`, turn by turn. */
export function openRequests(
  own: Context,
  listener: Listener,
  follow: (context: RequestsContext, request: SubscribeRequest, listener: Listener) => Turn,
): Transport {
  const context = { ...own, turns: turnsOf(own.http) };
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
      // A refusal of one subscription does not affect the others; a refusal of the credential does.
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
    // A request cannot be probed: its own timeout decides.
    check() {},
  };
}

/** The path of a subscription, after `/v1`. */
export function pathOf({ threadId }: SubscribeRequest): string[] {
  return threadId === undefined ? ["feed"] : ["threads", threadId, "events"];
}

/** Names of frames in the feed. */
const IN_FEED: { readonly [name: string]: string } = {
  hello: "feedHello",
  rebased: "feedRebased",
  caughtUp: "feedCaughtUp",
  ended: "feedEnded",
};

/** Reports the result of a request as a frame of the socket; `body` has the members of frames of a thread or of the feed. */
export function tell(
  listener: Listener,
  { id, threadId }: SubscribeRequest,
  name: "hello" | "caughtUp" | "fellBehind" | "rebased" | "queue" | "ended" | "error",
  body: object,
): void {
  const frame =
    threadId === undefined ? { id, name: IN_FEED[name] ?? name, body } : { id, name, body: { ...body, threadId } };
  listener.frame(frame as ServerFrame);
}

/** Reports new events or entries, and returns the cursor after them. */
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

/** Groups single events that were committed together. */
export function batchesOf(events: readonly LoggedEvent[]): EventBatch[] {
  const batches: (EventBatch & { events: LoggedEvent["event"][] })[] = [];
  for (const { seq, runId, at, event } of events) {
    const last = batches.at(-1);
    if (last?.runId === runId && last.at === at && last.seq + last.events.length === seq) last.events.push(event);
    else batches.push({ seq, runId, at, events: [event] });
  }
  return batches;
}
