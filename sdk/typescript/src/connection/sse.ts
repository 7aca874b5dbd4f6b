// An event stream for each subscription, read by `fetch`: an EventSource can send no credential.

import { ConnectionError, ProblemError, ProtocolError } from "../errors.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS, TURN_MS } from "../limits.js";
import type { ProblemDocument } from "../problems.js";
import type { FeedEntry, LoggedEvent } from "../types.js";
import { type StreamEvent, streamParser } from "./eventstream.js";
import { parseObject, type SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { deliver, openRequests, pathOf, tell, type Turn } from "./requests.js";
import { closing, type Context, diagnose, type Listener, type OpenTransport, watchdog } from "./transport.js";

/** What events other than those of the log have in them. */
type Body = ProblemDocument & { readonly epoch?: string; readonly code?: number; readonly reason?: string };

/** Follows by event streams. */
export const openEventStreams: OpenTransport = (context, listener) => openRequests(context, listener, follow);

/** From its second turn on a subscription goes on where it was, without new ado. */
function follow(context: Context, request: SubscribeRequest, listener: Listener): Turn {
  let { after, epoch } = request;
  let greeted = false;
  let live = false;

  /** What is read in one turn; `begun` is called when hello has come. */
  const reading = (begun: () => void) => {
    const turn = {
      first: !greeted,
      open: false,
      /** Something has been achieved. */
      moved: false,
      /** The connection is over. */
      over: undefined as Failing | undefined,
      read,
    };
    /** Events that came together. */
    let fresh: (LoggedEvent | FeedEntry)[] = [];
    let retryAfterMs: number | undefined;

    const flush = () => {
      if (fresh.length === 0) return;
      turn.moved = true;
      after = deliver(listener, request, epoch, fresh);
      fresh = [];
    };

    const take = ({ name, data }: StreamEvent) => {
      if (turn.over) return;
      const body: Body = parseObject(data);
      if (name === "message") return void fresh.push(body as unknown as LoggedEvent | FeedEntry);
      flush();
      switch (name) {
        case "hello": {
          turn.open = true;
          begun();
          const again = greeted && epoch === body.epoch;
          greeted = true;
          ({ epoch } = body);
          return again ? undefined : tell(listener, request, "hello", body);
        }
        case "caught_up":
          turn.moved = true;
          if (!live) tell(listener, request, "caughtUp", { ...body, epoch });
          live = true;
          return;
        case "fell_behind":
          live = false;
          return tell(listener, request, "fellBehind", { ...body, epoch });
        case "ended":
          return tell(listener, request, "ended", body);
        case "closing":
          turn.over = closing(body.code ?? 0, body.reason ?? "", retryAfterMs);
          return;
        case "error": {
          const error = new ProblemError(body, body.status ?? 0);
          if (error.retryable) turn.over = { name: "lost", error };
          else tell(listener, request, "error", body);
        }
      }
    };

    const push = streamParser(take, (ms) => (retryAfterMs = ms));
    function read(bytes: Uint8Array) {
      const before = turn.moved;
      turn.moved = false;
      push(bytes);
      flush();
      // A comment: a heartbeat. (Or a piece of something large.)
      if (turn.open && !turn.moved) listener.alive();
      turn.moved ||= before;
    }
    return turn;
  };

  return async (place, signal) => {
    // Not `AbortSignal.any`: a browser may forget such a signal before its time, and then a stream holds its connection.
    const end = new AbortController();
    const stop = () => end.abort();
    signal.addEventListener("abort", stop);
    const watch = watchdog(OPEN_TIMEOUT_MS, stop);
    const turn = reading(() => {
      watch.expect(MISSED_HEARTBEATS * HEARTBEAT_MS);
      listener.opened();
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    let late = false;
    // Its turn is over. Nobody waits longer than need be for what is there already: the first turn ends with that.
    const over = () => timer !== undefined && ((late && turn.moved) || (turn.first && live));
    const look = () => over() && stop();
    place.onCrowded = () => {
      timer ??= setTimeout(() => {
        late = true;
        look();
      }, TURN_MS);
      look();
    };
    if (context.turns.crowded) place.onCrowded();
    try {
      const { runId, userId } = request;
      const response = await context.http.open({
        path: pathOf(request),
        query: { after, epoch, runId, userId },
        headers: { Accept: "text/event-stream" },
        signal: end.signal,
      });
      if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
        const strange = new ProtocolError("what answers is no event stream. Is this a Threadline server?");
        return { name: "unsupported", error: context.http.strange(strange) };
      }
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { name: "lost", error: new ConnectionError("the event stream ended") };
        watch.heard();
        turn.read(value);
        if (turn.over) return turn.over;
        if (signal.aborted || over()) return undefined;
      }
    } catch (error) {
      if (signal.aborted || !end.signal.aborted) throw error;
      if (over()) return undefined;
      if (turn.open) return { name: "silent", error: new ConnectionError("the server is silent") };
      return diagnose(context, { name: "unsupported", error: new ConnectionError("no event stream began in time") });
    } finally {
      clearTimeout(timer);
      watch.stop();
      stop();
      signal.removeEventListener("abort", stop);
    }
  };
}
