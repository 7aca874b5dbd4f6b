// An event stream for each subscription, read by `fetch`: an EventSource can send no credential.

import { ConnectionError, ProblemError, ProtocolError, ThreadlineError } from "../errors.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS, TURN_MS } from "../limits.js";
import type { ProblemDocument } from "../problems.js";
import type { FeedEntry, LoggedEvent } from "../types.js";
import { type StreamEvent, streamParser } from "./eventstream.js";
import { parseObject, type SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { deliver, openRequests, pathOf, tell, type Turn } from "./requests.js";
import { closing, type Context, failing, type Listener, type OpenTransport, watchdog } from "./transport.js";

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
    // Not `AbortSignal.any`: a browser may forget such a signal before its time, and then a stream holds its connection.
    const end = new AbortController();
    const stop = () => end.abort();
    signal.addEventListener("abort", stop);
    const watch = watchdog(OPEN_TIMEOUT_MS, stop);
    let heardAt = 0;
    let openAt = Number.POSITIVE_INFINITY;
    /** A stream that has brought something for a while gets through; before that something on the way may be what ends it. */
    const getsThrough = () => heardAt - openAt > OPEN_TIMEOUT_MS;
    const broken = (error: ThreadlineError): Failing => ({ name: getsThrough() ? "lost" : "blocked", error });
    const turn = reading(() => {
      openAt = performance.now();
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
        const strange = new ProtocolError("the response is not an event stream. Is this a Threadline server?");
        return { name: "unsupported", error: context.http.strange(strange) };
      }
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return broken(new ConnectionError("the event stream ended"));
        watch.heard();
        heardAt = performance.now();
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
      // What is kept back will be so the next time, too: to try once more would only take as long.
      return { name: getsThrough() ? "silent" : "unsupported", error: silent };
    } finally {
      clearTimeout(timer);
      watch.stop();
      stop();
      signal.removeEventListener("abort", stop);
    }
  };
}

/** Whether the server said so, or what is sent is wrong: it has nothing to do with the way there. */
function isAnswer(error: unknown): boolean {
  if (error instanceof ProblemError) return !error.slug.startsWith("http-");
  return error instanceof ThreadlineError && !error.retryable;
}
