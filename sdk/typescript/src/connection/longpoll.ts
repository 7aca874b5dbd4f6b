// Pages of JSON, each of which waits at the server until there is something new. Works wherever requests do.

import { sleep } from "../backoff.js";
import { isProblem, ProtocolError } from "../errors.js";
import { OPEN_TIMEOUT_MS, POLL_PAUSE_MS, POLL_SECONDS, TURN_MS } from "../limits.js";
import { now } from "../platform.js";
import type { EventPage, FeedPage, QueuedRun, Run } from "../types.js";
import type { SubscribeRequest } from "./frames.js";
import { deliver, openRequests, pathOf, type RequestsContext, tell, type Turn } from "./requests.js";
import type { Listener, OpenTransport } from "./transport.js";
import type { Place } from "./turns.js";

/** Follows by long-polling. */
export const openLongPolls: OpenTransport = (context, listener) => openRequests(context, listener, follow);

/** Members of both kinds of pages. */
type Page = Pick<EventPage, "hasMore"> & Partial<EventPage> & Partial<FeedPage>;

function follow(context: RequestsContext, request: SubscribeRequest, listener: Listener): Turn {
  const { threadId = "", runId } = request;
  let { after, epoch } = request;
  let greeted = false;
  let live = false;

  /** The record of the run to which the subscription is limited. */
  const record = (signal: AbortSignal) =>
    context.http.once<Run | QueuedRun>({ path: ["threads", threadId, "runs", runId ?? ""], signal });

  return async (place, signal) => {
    if (!greeted && runId !== undefined) {
      const run = await record(signal);
      // A turn that waits has no events: the server refuses it as it does on the other transports.
      if (run.status !== "queued") after = Math.max(after, run.firstSeq - 1);
    }
    let page: Page | undefined;
    try {
      page = await poll(context, greeted ? { ...request, after, epoch } : request, live, place, signal);
    } catch (error) {
      if (!greeted || !isProblem(error, "thread-not-found")) throw error;
      tell(listener, request, "ended", { reason: "thread-deleted" });
    }
    if (!page) return undefined;
    listener.opened();
    if (greeted) listener.alive();
    else tell(listener, request, "hello", { ...page, epoch: epoch ?? page.epoch, after, cursor: after });
    greeted = true;
    if (epoch !== undefined && epoch !== page.epoch) {
      tell(listener, request, "rebased", { from: epoch, epoch: page.epoch, after });
    }
    epoch = page.epoch;
    const list = page.events ?? page.entries ?? [];
    if (list.length > 0) after = deliver(listener, request, epoch, list);
    if (page.hasMore || signal.aborted) return undefined;
    if (!live) tell(listener, request, "caughtUp", { epoch, seq: after, cursor: after });
    live = true;
    if (runId === undefined) return undefined;
    const run = await record(signal);
    if (run.status !== "queued" && run.endedAt !== null && run.lastSeq <= after) {
      tell(listener, request, "ended", { reason: "run-ended", seq: run.lastSeq });
    }
    return undefined;
  };
}

/**
 * Requests a page; `undefined` if the request was cancelled in favor of a waiting one. Before the subscription is live, a
 * page is returned without waiting.
 */
async function poll(
  context: RequestsContext,
  request: SubscribeRequest,
  live: boolean,
  place: Place,
  signal: AbortSignal,
): Promise<Page | undefined> {
  const { id: _, threadId: __, ...query } = request;
  const { crowded } = context.turns;
  const wait = !live ? 0 : crowded ? TURN_MS / 1_000 : POLL_SECONDS;
  const begun = now();
  const end = new AbortController();
  const stop = () => end.abort();
  signal.addEventListener("abort", stop);
  // A short wait is not interrupted, so that every subscription gets a response.
  if (wait === POLL_SECONDS) place.onCrowded = stop;
  try {
    const page = await context.http.once<Page>({
      path: pathOf(request),
      query: { ...query, wait },
      signal: end.signal,
      timeoutMs: wait * 1_000 + OPEN_TIMEOUT_MS,
    });
    const list = page?.events ?? page?.entries;
    if (!Array.isArray(list)) {
      throw context.http.strange(
        new ProtocolError("the response is not a page of events. Is this a Threadline server?"),
      );
    }
    // An intermediary responds in the server's place, or prevents it from waiting.
    const isEarly = list.length === 0 && wait > 0 && now() - begun < (wait * 1_000) / 2;
    if (isEarly) await sleep(POLL_PAUSE_MS, end.signal);
    return page;
  } catch (error) {
    if (end.signal.aborted && !signal.aborted) return undefined;
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
