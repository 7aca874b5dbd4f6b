// An event stream for each subscription, read by `fetch`: an EventSource can send no credential.

import { ConnectionError, ProblemError, ProtocolError } from "../errors.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS, TURN_MS } from "../limits.js";
import type { ProblemDocument } from "../problems.js";
import type { FeedEntry, LoggedEvent } from "../types.js";
import { type StreamEvent, streamParser } from "./eventstream.js";
import { type EndReason, parseObject, type SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { entriesFrame, eventsFrame, openRequests, pathOf, type Turn } from "./requests.js";
import { closing, type Context, diagnose, type Listener, type OpenTransport, watchdog } from "./transport.js";

/** Follows by event streams. */
export const openEventStreams: OpenTransport = (context, listener) => openRequests(context, listener, follow);

/** From its second turn on a subscription goes on where it was, without new ado. */
function follow(context: Context, request: SubscribeRequest, listener: Listener): Turn {
  const { id, threadId } = request;
  let { after } = request;
  let epoch = threadId === undefined ? undefined : request.epoch;
  let greeted = false;
  let live = false;

  /** What is read in one turn. */
  const reading = () => {
    const turn = {
      first: !greeted,
      /** Hello has come. */
      open: false,
      /** Something has been achieved. */
      moved: false,
      /** The connection is over. */
      over: undefined as Failing | undefined,
      read,
    };
    /** Events that came together. */
    let fresh: unknown[] = [];
    let retryAfterMs: number | undefined;

    const flush = () => {
      if (fresh.length === 0) return;
      turn.moved = true;
      const frame =
        threadId === undefined
          ? entriesFrame(fresh as FeedEntry[])
          : eventsFrame(threadId, epoch ?? "", fresh as LoggedEvent[]);
      after = frame.name === "feed" ? frame.body.cursor : (fresh.at(-1) as LoggedEvent).seq;
      fresh = [];
      listener.frame(frame);
    };

    const hello = (body: { epoch: string; tail: number; after: number; cursor: number }) => {
      turn.open = true;
      listener.opened();
      const again = greeted && epoch === body.epoch;
      greeted = true;
      if (again) return;
      if (threadId === undefined) return listener.frame({ name: "feedHello", id, body });
      epoch = body.epoch;
      listener.frame({ name: "hello", id, body: { ...body, threadId } });
    };

    const take = ({ name, data }: StreamEvent) => {
      if (turn.over) return;
      const body = parseObject(data);
      if (name === "message") return void fresh.push(body);
      flush();
      switch (name) {
        case "hello":
          return hello(body as Parameters<typeof hello>[0]);
        case "caught_up":
          turn.moved = true;
          if (live) return;
          live = true;
          return threadId === undefined
            ? listener.frame({ name: "feedCaughtUp", body: body as { cursor: number } })
            : listener.frame({ name: "caughtUp", body: { threadId, epoch: epoch ?? "", seq: body["seq"] as number } });
        case "fell_behind":
          live = false;
          return listener.frame({
            name: "fellBehind",
            body: { threadId: threadId ?? "", epoch: epoch ?? "", seq: body["seq"] as number },
          });
        case "ended": {
          const ended = body as { reason: EndReason; seq: number };
          return listener.frame({ name: "ended", body: { threadId: threadId ?? "", ...ended } });
        }
        case "closing":
          turn.over = closing(body["code"] as number, String(body["reason"]), retryAfterMs);
          return;
        case "error": {
          const problem = body as ProblemDocument;
          const error = new ProblemError(problem, problem.status ?? 0);
          if (error.retryable) turn.over = { name: "lost", error };
          else listener.frame({ name: "error", id, body: problem });
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
    const end = new AbortController();
    const dog = watchdog(OPEN_TIMEOUT_MS, () => end.abort());
    const turn = reading();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let late = false;
    // Its turn is over. Nobody waits longer than need be for what is there already: the first turn ends with that.
    const over = () => timer !== undefined && ((late && turn.moved) || (turn.first && live));
    const look = () => over() && end.abort();
    place.onCrowded = () => {
      timer ??= setTimeout(() => {
        late = true;
        look();
      }, TURN_MS);
      look();
    };
    if (context.turns.crowded) place.onCrowded();
    try {
      const response = await context.http.open({
        path: pathOf(request),
        query: threadId === undefined ? { after, userId: request.userId } : { after, epoch, runId: request.runId },
        headers: { Accept: "text/event-stream" },
        signal: AbortSignal.any([signal, end.signal]),
      });
      if (!response.body || !response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
        const error = new ProtocolError("what answers is no event stream. Is this a Threadline server?");
        return { name: "unsupported", error };
      }
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { name: "lost", error: new ConnectionError("the event stream ended") };
        dog.heard();
        turn.read(value);
        if (turn.open) dog.expect(MISSED_HEARTBEATS * HEARTBEAT_MS);
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
      dog.stop();
      end.abort();
    }
  };
}
