// A run from the side of its producer: numbers its events, appends them exactly once, keeps its lease, ends it.

import type { Conversation } from "./conversation/conversation.js";
import { ClosedError, ConfigError, isProblem, StopRequested, ThreadlineError } from "./errors.js";
import {
  BATCH_EVENTS,
  BATCH_SIZE,
  BEAT_MAX_MS,
  DEFAULT_LEASE_SECONDS,
  FAILED_BEAT_MS,
  PENDING_EVENTS,
  PENDING_SIZE,
} from "./limits.js";
import { isTerminal } from "./log.js";
import { MessageIds } from "./message-ids.js";
import type { ProblemSlug } from "./problems.js";
import { encodeEvent, type Runs } from "./runs.js";
import type { NewEvent, Run, StartedRun } from "./types.js";

/** How to begin a run. */
export interface RunOptions {
  /** Made up if absent. With an id of your own, a program that restarts can resume its run: see `onResume`. */
  readonly runId?: string;
  /** The agent that the run is of. */
  readonly agentId?: string;
  /** How long the run may be silent before the server ends it, 1 to 3600; 20 if not given. */
  readonly leaseSeconds?: number;
  /**
   * Where a run that exists already is taken up: the number of the first event to be appended. If not given, behind what
   * is stored. A producer that makes the same events again starts from 1: what is stored is not stored twice, so this is never
   * refused.
   */
  readonly producerSeq?: number;
  /**
   * Handling of a run that was begun before and has stored events. `refuse`, the default: `run` rejects with a `NotResumed`,
   * since a body that does not look at what is stored would say it again. `continue`: for bodies that read `run.stored`.
   */
  readonly onResume?: "refuse" | "continue";
  /** Aborted: the run is asked to stop. */
  readonly signal?: AbortSignal;
}

/** Refusals that mean that the run is over, or not this producer's (any more): it is not for it to end. */
const OVER = [
  "run-fenced",
  "run-not-found",
  "thread-not-found",
  "producer-seq-conflict",
  "producer-seq-gap",
] as const satisfies readonly ProblemSlug[];

export function isOver(error: unknown): boolean {
  return OVER.some((slug) => isProblem(error, slug));
}

/** An active run. */
export class Producer {
  readonly threadId: string;
  readonly runId: string;
  /** The incarnation of the thread's log. */
  readonly epoch: string;
  /** A reader that starts from here sees this run and nothing before it. */
  readonly cursor: number;
  /** The events that a resumed run had before, as a conversation: its messages, on the state that it began with. */
  readonly stored: Conversation | undefined;

  readonly #runs: Runs;
  readonly #ids: MessageIds;
  readonly #stop = new AbortController();
  readonly #leaseSeconds: number;
  readonly #beatMs: number;
  /** JSON texts of events without an answer, the oldest first; those of the batch under way among them. */
  #pending: string[] = [];
  #pendingSize = 0;
  /** producerSeq of the first of them. */
  #next: number;
  #sending = false;
  #failure: unknown;
  /** Why an event was not taken. */
  #refused: unknown;
  #ended = false;
  #stopRequested = false;
  #terminal = false;
  #heardAt = performance.now();
  #beat: ReturnType<typeof setTimeout> | undefined;
  /** Called when a batch was answered, or never will be. */
  #waiting: (() => void)[] = [];

  constructor(runs: Runs, threadId: string, started: StartedRun, options: RunOptions, stored?: Conversation) {
    this.#runs = runs;
    this.threadId = threadId;
    this.runId = started.run.runId;
    this.#ids = new MessageIds(this.runId);
    this.epoch = started.epoch;
    this.cursor = started.cursor;
    this.stored = stored;
    this.#next = options.producerSeq ?? started.run.producerSeq + 1;
    this.#leaseSeconds = options.leaseSeconds ?? DEFAULT_LEASE_SECONDS;
    this.#beatMs = Math.min((this.#leaseSeconds * 1_000) / 3, BEAT_MAX_MS);
    if (started.run.stopRequested) this.#stopped();
    this.#schedule(this.#beatMs);
  }

  /** Whether the run was begun before, and has stored events: `stored` is what they made. */
  get resumed(): boolean {
    return this.stored !== undefined;
  }

  /** Aborted as soon as there is no use in going on: somebody asked the run to stop, or the server has ended it. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Whether somebody has asked the run to stop. */
  get stopRequested(): boolean {
    return this.#stopRequested;
  }

  /**
   * Takes events in; they go out in the order of the calls, many in one request. Resolves when there is room for more,
   * which holds back a producer that is faster than the network, and does not mean that they are durable: that is `flush`.
   *
   * A TEXT_MESSAGE_CHUNK without a `messageId` goes on with the message of the chunk right before it, of the same `subagentRunId` or
   * of none, unless its `role` or `name` is another one. Else it begins a message, with an id that no other run has.
   *
   * Rejects with a `ConfigError` for what is no event, or if far too many events wait because nobody awaits: such a run does
   * not end well any more, so that nothing is lost in silence. Rejects with what went wrong if the run cannot go on.
   */
  append(events: NewEvent | readonly NewEvent[]): Promise<void> {
    const taken = this.#take(events);
    // Who does not await it hears of it from `flush` and from the end of the run.
    taken.catch(() => {});
    return taken;
  }

  async #take(events: NewEvent | readonly NewEvent[]): Promise<void> {
    this.#check();
    if (this.#terminal) throw new ClosedError("the run has ended with its terminal event");
    const list: readonly NewEvent[] = Array.isArray(events) ? events : [events as NewEvent];
    try {
      const next = this.#next + this.#pending.length;
      this.#queue(list.map((event, index) => encodeEvent(this.#ids.given(event, next + index))));
    } catch (error) {
      this.#refused ??= error;
      throw error;
    }
    this.#terminal = list.some(isTerminal);
    void this.#send();
    await this.#wait(() => this.#pending.length < PENDING_EVENTS && this.#pendingSize < PENDING_SIZE);
  }

  #queue(texts: readonly string[]): void {
    if (this.#pending.length > 2 * PENDING_EVENTS || this.#pendingSize > 2 * PENDING_SIZE) {
      throw new ConfigError("events are appended faster than they can be sent: await each append");
    }
    for (const text of texts) {
      this.#pending.push(text);
      this.#pendingSize += text.length;
    }
  }

  /** Resolves when all that was appended is durable. */
  async flush(): Promise<void> {
    this.#check();
    await this.#wait(() => this.#pending.length === 0);
    if (this.#refused !== undefined) throw this.#refused;
  }

  /** Ends the run well, unless its own events did so. What was appended goes before. */
  async finish(): Promise<Run> {
    try {
      await this.flush();
      this.close();
      return await (this.#terminal ? this.#runs.get(this.runId) : this.#runs.finish(this.runId));
    } catch (error) {
      // The server has not waited any longer for the end that was asked for.
      if (this.#stopRequested && isProblem(error, "run-fenced")) return this.#runs.get(this.runId);
      throw error;
    }
  }

  /** Ends the run badly. What was appended goes before, if it can. */
  async fail(code: string, message: string): Promise<Run> {
    await this.flush().catch(() => {});
    this.close();
    return this.#runs.fail(this.runId, code, message);
  }

  /** Lets go of the run without ending it: its lease runs out, unless it is taken up again under its id. */
  close(): void {
    this.#ended = true;
    clearTimeout(this.#beat);
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#ended) throw new ClosedError("the run has ended");
  }

  async #wait(until: () => boolean): Promise<void> {
    while (!until()) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
      if (this.#failure !== undefined) throw this.#failure;
    }
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** One request after the other, each with what has gathered since. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    try {
      // What is appended in the same turn goes together.
      await Promise.resolve();
      while (this.#pending.length > 0 && !this.#ended) {
        const batch = batchOf(this.#pending);
        const sentAt = performance.now();
        const appended = await this.#runs.append(this.runId, this.#next, batch);
        this.#heardAt = Math.max(this.#heardAt, sentAt);
        this.#pending.splice(0, batch.length);
        for (const text of batch) this.#pendingSize -= text.length;
        this.#next += batch.length;
        if (appended.stopRequested) this.#stopped();
        this.#wake();
      }
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#sending = false;
    }
  }

  #stopped(): void {
    this.#stopRequested = true;
    this.#stop.abort(new StopRequested("the run was asked to stop"));
  }

  #failed(error: unknown): void {
    this.#failure ??= error;
    this.#stop.abort(error);
    clearTimeout(this.#beat);
    this.#wake();
  }

  #schedule(ms: number): void {
    clearTimeout(this.#beat);
    this.#beat = setTimeout(() => void this.#sayAlive(), ms);
  }

  async #sayAlive(): Promise<void> {
    // The end was appended: whatever keeps its producer busy, the run wants no lease.
    if (this.#terminal) return;
    const silent = performance.now() - this.#heardAt;
    // An append has extended the lease meanwhile.
    if (silent < this.#beatMs) return this.#schedule(this.#beatMs - silent);
    const sentAt = performance.now();
    let next = this.#beatMs;
    try {
      // A beat that hangs must not outlast the lease.
      const run = await this.#runs.heartbeat(this.runId, this.#leaseSeconds, (this.#leaseSeconds * 1_000) / 3);
      this.#heardAt = Math.max(this.#heardAt, sentAt);
      if (run.stopRequested) this.#stopped();
      if (run.endedAt !== null) throw new ClosedError(`the run has ended: ${run.status}`);
    } catch (error) {
      if (this.#ended || this.#terminal) return;
      if (!(error instanceof ThreadlineError && error.retryable)) return this.#failed(error);
      next = Math.min(this.#beatMs, Math.max(FAILED_BEAT_MS, error.retryAfterMs ?? 0));
    }
    if (!this.#ended) this.#schedule(next);
  }
}

/** The first events, as many as go into one request. */
function batchOf(pending: readonly string[]): string[] {
  let size = 0;
  let count = 0;
  for (const text of pending) {
    if (count > 0 && (count === BATCH_EVENTS || size + text.length > BATCH_SIZE)) break;
    size += text.length;
    count += 1;
  }
  return pending.slice(0, count);
}
