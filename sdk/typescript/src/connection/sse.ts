// An event stream for each subscription, read by `fetch`: an EventSource can send no credential.

import { ConnectionError, ProblemError, ProtocolError } from "../errors.js";
import { HEARTBEAT_MS, MISSED_HEARTBEATS, OPEN_TIMEOUT_MS, TURN_MS } from "../limits.js";
import type { ProblemDocument } from "../problems.js";
import type { FeedEntry, LoggedEvent } from "../types.js";
import { type StreamEvent, StreamParser } from "./eventstream.js";
import { type EndReason, parseObject, type SubscribeRequest } from "./frames.js";
import type { Failing } from "./machine.js";
import { entriesFrame, eventsFrame, pathOf, Requests, type Turn } from "./requests.js";
import { closing, type Context, diagnose, type Listener, type OpenTransport, Watchdog } from "./transport.js";

/** Follows by event streams. */
export const openEventStreams: OpenTransport = (context, listener) => new Requests(context, listener, follow);

function follow(context: Context, request: SubscribeRequest, listener: Listener): Turn {
  const stream = new Stream(request, listener);
  return async (place, signal) => {
    const end = new AbortController();
    // A stream whose beginning is held back may be no use at all; one that falls silent was cut.
    const watchdog = new Watchdog(OPEN_TIMEOUT_MS, () => end.abort());
    const first = stream.begin();
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** Its turn is over. Nobody waits longer than need be for what is there already: the first turn ends with that. */
    let late = false;
    const over = () => timer !== undefined && ((late && stream.moved) || (first && stream.live));
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
        query: stream.query,
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
        watchdog.heard();
        stream.read(value);
        if (stream.open) watchdog.expect(MISSED_HEARTBEATS * HEARTBEAT_MS);
        if (stream.over) return stream.over;
        if (signal.aborted || over()) return undefined;
      }
    } catch (error) {
      if (signal.aborted || !end.signal.aborted) throw error;
      if (over()) return undefined;
      if (stream.open) return { name: "silent", error: new ConnectionError("the server is silent") };
      return diagnose(context, { name: "unsupported", error: new ConnectionError("no event stream began in time") });
    } finally {
      clearTimeout(timer);
      watchdog.stop();
      end.abort();
    }
  };
}

/** What is read of the streams of one subscription. From its second turn on it goes on where it was, without new ado. */
class Stream {
  /** Hello has come in this turn. */
  open = false;
  /** Something has been achieved in this turn. */
  moved = false;
  /** It has caught up. */
  live = false;
  /** The connection is over. */
  over: Failing | undefined;
  readonly #request: SubscribeRequest;
  readonly #listener: Listener;
  #parser!: StreamParser;
  #after: number;
  #epoch: string | undefined;
  #greeted = false;
  #retryAfterMs: number | undefined;
  /** Events that came together. */
  #fresh: unknown[] = [];

  constructor(request: SubscribeRequest, listener: Listener) {
    this.#request = request;
    this.#listener = listener;
    this.#after = request.after;
    this.#epoch = request.threadId === undefined ? undefined : request.epoch;
  }

  get query(): Record<string, string | number | undefined> {
    const after = this.#after;
    return this.#request.threadId === undefined
      ? { after, userId: this.#request.userId }
      : { after, epoch: this.#epoch, runId: this.#request.runId };
  }

  /** Begins a turn; says whether it is the first. */
  begin(): boolean {
    this.open = this.moved = false;
    this.#parser = new StreamParser({
      event: (event) => this.#event(event),
      retry: (ms) => (this.#retryAfterMs = ms),
    });
    return !this.#greeted;
  }

  read(bytes: Uint8Array): void {
    const before = this.moved;
    this.moved = false;
    this.#parser.push(bytes);
    this.#flush();
    // A comment: a heartbeat. (Or a piece of something large.)
    if (this.open && !this.moved) this.#listener.alive();
    this.moved ||= before;
  }

  #event({ name, data }: StreamEvent): void {
    if (this.over) return;
    const body = parseObject(data);
    if (name === "message") {
      this.#fresh.push(body);
      return;
    }
    this.#flush();
    const { id, threadId } = this.#request;
    switch (name) {
      case "hello":
        return this.#hello(body);
      case "caught_up":
        this.moved = true;
        if (this.live) return;
        this.live = true;
        if (threadId === undefined) {
          return this.#listener.frame({ name: "feedCaughtUp", body: { cursor: body["cursor"] as number } });
        }
        return this.#listener.frame({ name: "caughtUp", body: this.#position(threadId, body["seq"]) });
      case "fell_behind":
        this.live = false;
        if (threadId !== undefined) {
          this.#listener.frame({ name: "fellBehind", body: this.#position(threadId, body["seq"]) });
        }
        return;
      case "ended": {
        const { reason, seq } = body as { reason: EndReason; seq?: number };
        if (threadId !== undefined)
          this.#listener.frame({ name: "ended", body: { threadId, reason, ...(seq && { seq }) } });
        return;
      }
      case "closing":
        this.over = closing(body["code"] as number, String(body["reason"]), this.#retryAfterMs);
        return;
      case "error": {
        const problem = body as ProblemDocument;
        const error = new ProblemError(problem, problem.status ?? 0);
        if (error.retryable) this.over = { name: "lost", error };
        else this.#listener.frame({ name: "error", id, body: problem });
        return;
      }
      default:
    }
  }

  #hello(body: Record<string, unknown>): void {
    const { id, threadId } = this.#request;
    this.open = true;
    this.#listener.opened();
    const again = this.#greeted && this.#epoch === body["epoch"];
    this.#greeted = true;
    if (again) return;
    if (threadId === undefined)
      return this.#listener.frame({ name: "feedHello", id, body: body as { cursor: number } });
    const hello = { threadId, ...(body as { epoch: string; tail: number; after: number }) };
    this.#epoch = hello.epoch;
    this.#listener.frame({ name: "hello", id, body: hello });
  }

  #flush(): void {
    if (this.#fresh.length === 0) return;
    this.moved = true;
    const fresh = this.#fresh;
    this.#fresh = [];
    const { threadId } = this.#request;
    const frame =
      threadId === undefined
        ? entriesFrame(fresh as FeedEntry[])
        : eventsFrame(threadId, this.#epoch ?? "", fresh as LoggedEvent[]);
    this.#after = frame.name === "feed" ? frame.body.cursor : (fresh.at(-1) as LoggedEvent).seq;
    this.#listener.frame(frame);
  }

  #position(threadId: string, seq: unknown): { threadId: string; epoch: string; seq: number } {
    return { threadId, epoch: this.#epoch ?? "", seq: seq as number };
  }
}
