// Page after page of JSON, each waiting at the server until there is something new: gets through wherever requests do.

import { isProblem } from "../errors.js";
import { OPEN_TIMEOUT_MS, POLL_SECONDS, TURN_MS } from "../limits.js";
import type { EventPage, FeedPage, Run } from "../types.js";
import type { SubscribeRequest } from "./frames.js";
import { entriesFrame, eventsFrame, openRequests, pathOf, type Turn } from "./requests.js";
import type { Context, Listener, OpenTransport } from "./transport.js";
import type { Place } from "./turns.js";

/** Follows by long-polls. */
export const openLongPolls: OpenTransport = (context, listener) => openRequests(context, listener, follow);

function follow(context: Context, request: SubscribeRequest, listener: Listener): Turn {
  return request.threadId === undefined
    ? followFeed(context, request, listener)
    : followThread(context, request, listener);
}

type OfThread = Extract<SubscribeRequest, { readonly threadId: string }>;
type OfFeed = Extract<SubscribeRequest, { readonly threadId: undefined }>;

function followThread(context: Context, request: OfThread, listener: Listener): Turn {
  const { id, threadId, runId } = request;
  let { after, epoch } = request;
  let greeted = false;
  let live = false;
  /** What is known of the run that it is bounded to. */
  const record = (signal: AbortSignal) =>
    context.http.once<Run>({ path: ["threads", threadId, "runs", runId ?? ""], signal });
  return async (place, signal) => {
    if (!greeted && runId !== undefined) after = Math.max(after, (await record(signal)).firstSeq - 1);
    let page: EventPage | undefined;
    try {
      page = await poll<EventPage>(context, request, { after, epoch, runId }, live, place, signal);
    } catch (error) {
      if (!greeted || !isProblem(error, "thread-not-found")) throw error;
      listener.frame({ name: "ended", body: { threadId, reason: "thread-deleted" } });
    }
    if (!page) return undefined;
    listener.opened();
    if (greeted) listener.alive();
    else listener.frame({ name: "hello", id, body: { threadId, epoch: page.epoch, tail: page.tail, after } });
    greeted = true;
    epoch = page.epoch;
    if (page.events.length > 0) listener.frame(eventsFrame(threadId, epoch, page.events));
    after = page.events.at(-1)?.seq ?? after;
    if (page.hasMore || signal.aborted) return undefined;
    if (!live) listener.frame({ name: "caughtUp", body: { threadId, epoch, seq: after } });
    live = true;
    if (runId !== undefined) {
      const { endedAt, lastSeq } = await record(signal);
      if (endedAt !== null && lastSeq <= after) {
        listener.frame({ name: "ended", body: { threadId, reason: "run-ended", seq: lastSeq } });
      }
    }
    return undefined;
  };
}

function followFeed(context: Context, request: OfFeed, listener: Listener): Turn {
  const { id, userId } = request;
  let { after } = request;
  let greeted = false;
  let live = false;
  return async (place, signal) => {
    const page = await poll<FeedPage>(context, request, { after, userId }, live, place, signal);
    if (!page) return undefined;
    listener.opened();
    if (greeted) listener.alive();
    else listener.frame({ name: "feedHello", id, body: { cursor: after } });
    greeted = true;
    if (page.entries.length > 0) listener.frame(entriesFrame(page.entries));
    after = Math.max(after, page.cursor);
    if (!page.hasMore && !live) listener.frame({ name: "feedCaughtUp", body: { cursor: after } });
    live ||= !page.hasMore;
    return undefined;
  };
}

/** A page; `undefined` if it gave its place to somebody who waits. What is not live yet has something to read at once. */
async function poll<Page>(
  context: Context,
  request: SubscribeRequest,
  query: Readonly<Record<string, string | number | undefined>>,
  live: boolean,
  place: Place,
  signal: AbortSignal,
): Promise<Page | undefined> {
  const { crowded } = context.turns;
  const wait = !live ? 0 : crowded ? TURN_MS / 1_000 : POLL_SECONDS;
  const crowd = new AbortController();
  // Who waits for a short time only is not disturbed: everybody gets an answer that way.
  if (wait === POLL_SECONDS) place.onCrowded = () => crowd.abort();
  try {
    return await context.http.once<Page>({
      path: pathOf(request),
      query: { ...query, wait },
      signal: AbortSignal.any([signal, crowd.signal]),
      timeoutMs: wait * 1_000 + OPEN_TIMEOUT_MS,
    });
  } catch (error) {
    if (crowd.signal.aborted && !signal.aborted) return undefined;
    throw error;
  }
}
