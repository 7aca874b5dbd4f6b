// One event stream per subscription, read with `fetch`: an EventSource cannot send a credential.

import { ConnectionError, ProblemError, ProtocolError, ThreadlineError } from "../errors.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS, TURN_MS } from "../limits.js";
import { now } from "../platform.js";
import type { ProblemDocument } from "../problems.js";
import type { FeedEntry, LoggedEvent } from "../types.js";
import { type StreamEvent, streamParser } from "./eventstream.js";
import { failing } from "./failing.js";
import { parseObject, type SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { deliver, openRequests, pathOf, type RequestsContext, tell, type Turn } from "./requests.js";
import { closing, type Listener, type OpenTransport, watchdog } from "./transport.js";

/** Data of the events that are not events of the log. */
type Body = ProblemDocument & { readonly epoch?: string; readonly code?: number; readonly reason?: string };

/** Follows by event streams. */
export const openEventStreams: OpenTransport = (context, listener) => openRequests(context, listener, follow);

/** Returns the turns of a subscription. From the second turn on, reading continues without another hello. */
function follow(context: RequestsContext, request: SubscribeRequest, listener: Listener): Turn {
  let { after, epoch } = request;
  let greeted = false;
  let live = false;

  /** The state of one turn; `begun` is called when the hello has arrived. */
  const reading = (begun: () => void) => {
    const turn = {
      first: !greeted,
      open: false,
      /** True once the turn has made progress. */
      moved: false,
      /** Set when the connection has ended. */
      over: undefined as Failing | undefined,
      read,
    };
    /** Events that were committed together. */
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
        case "rebased":
          ({ epoch } = body);
          return tell(listener, request, "rebased", body);
        case "queue":
        case "ended":
          return tell(listener, request, name, body);
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

    const push = streamParser(
      take,
      (ms) => (retryAfterMs = ms),
      () => turn.open && listener.alive(),
    );
    function read(bytes: Uint8Array) {
      push(bytes);
      flush();
    }
    return turn;
  };

  return async (place, signal) => {
    // `AbortSignal.any` is not used: a browser may collect such a signal too early, and the stream would then keep its
    // connection.
    const end = new AbortController();
    const stop = () => end.abort();
    signal.addEventListener("abort", stop);
    const watch = watchdog(OPEN_TIMEOUT_MS, stop);
    let heardAt = 0;
    let openAt = Number.POSITIVE_INFINITY;
    /** True if the stream has delivered data for a while. Before that, an intermediary may be what ends it. */
    const getsThrough = () => heardAt - openAt > OPEN_TIMEOUT_MS;
    const broken = (error: ThreadlineError): Failing => ({ name: getsThrough() ? "lost" : "blocked", error });
    const turn = reading(() => {
      openAt = now();
      watch.expect(MISSED_HEARTBEATS * HEARTBEAT_MS);
      listener.opened();
    });
    let timer: ReturnType<typeof setTimeout> | undefined;
    let late = false;
    // True if the turn is over. The first turn ends as soon as the stored events are read, so that no other subscription
    // waits longer than necessary.
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
        const strange = new ProtocolError("the response is not an event stream. Is this a Threadline server?");
        return { name: "unsupported", error: context.http.strange(strange) };
      }
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return broken(new ConnectionError("the event stream ended"));
        watch.heard();
        heardAt = now();
        turn.read(value);
        if (turn.over) return turn.over;
        if (signal.aborted || over()) return undefined;
      }
    } catch (error) {
      if (signal.aborted || isAnswer(error)) throw error;
      if (!end.signal.aborted) return broken(failing(error).error);
      if (over()) return undefined;
      const silent = new ConnectionError(
        turn.open ? "the server sent nothing before the timeout" : "no event stream started before the timeout",
      );
      // An intermediary that buffers the stream would do so again, and another attempt would take as long.
      return { name: getsThrough() ? "silent" : "unsupported", error: silent };
    } finally {
      clearTimeout(timer);
      watch.stop();
      stop();
      signal.removeEventListener("abort", stop);
    }
  };
}

/** True if the error comes from the server or from an invalid request, and not from the network. */
function isAnswer(error: unknown): boolean {
  if (error instanceof ProblemError) return !error.slug.startsWith("http-");
  return error instanceof ThreadlineError && !error.retryable;
}
