// A run from the side of its producer: numbers its events, appends them exactly once, extends its lease, ends it.

import { ClosedError, ConfigError, isProblem, StopRequested, ThreadlineError } from "./errors.js";
import { BEAT_MAX_MS, DEFAULT_LEASE_SECONDS, FAILED_BEAT_MS } from "./limits.js";
import { isTerminal } from "./log.js";
import { MessageIds } from "./message-ids.js";
import { Outgoing } from "./outgoing.js";
import { abort, now } from "./platform.js";
import type { ProblemSlug } from "./problems.js";
import { encodeEvent, type ProducedRuns, type TakenRun } from "./producing.js";
import type { NewEvent, Run } from "./types.js";

/** The place of a producer among the attempts of its run, and how it was started. */
export interface Started {
  readonly threadId: string;
  readonly taken: TakenRun;
  /** The request, as JSON text, that starts the run again if the server has lost it as a whole, and takes it from nobody. */
  readonly again: () => string;
  readonly leaseSeconds: number | undefined;
}

/**
 * Refusals which mean that the run has ended, or does not belong to this producer (any more): this producer must not end
 * it.
 */
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
  /** Number of the attempt for which every request speaks: the server refuses those of an attempt that was displaced. */
  #attempt: number;
  readonly #attemptId: string | null;
  /** True if the run was taken up from another process. */
  readonly #takenUp: boolean;
  readonly #runs: ProducedRuns;
  readonly #again: () => string;
  readonly #ids: MessageIds;
  readonly #stop = new AbortController();
  readonly #leaseSeconds: number;
  readonly #beatMs: number;
  #epoch: string;
  #cursor: number;
  readonly #events: Outgoing;
  #sending = false;
  #failure: unknown;
  /** Why an event was refused. */
  #refused: unknown;
  #ended = false;
  #stopRequested = false;
  #terminal = false;
  #heardAt = now();
  #beat: ReturnType<typeof setTimeout> | undefined;
  /** Called when a batch was acknowledged, or never will be. */
  #waiting: (() => void)[] = [];

  constructor(runs: ProducedRuns, { threadId, taken, again, leaseSeconds = DEFAULT_LEASE_SECONDS }: Started) {
    const { run, epoch, cursor, attempt, attemptId, takenUp } = taken;
    this.#runs = runs;
    this.threadId = threadId;
    this.runId = run.runId;
    this.#attempt = attempt;
    this.#attemptId = attemptId;
    this.#takenUp = takenUp;
    this.#again = again;
    this.#ids = new MessageIds(run.runId);
    this.#epoch = epoch;
    this.#cursor = cursor;
    this.#events = new Outgoing(run.runId, run.producerSeq);
    this.#leaseSeconds = leaseSeconds;
    this.#beatMs = Math.min((leaseSeconds * 1_000) / 3, BEAT_MAX_MS);
    if (run.stopRequested) this.#stopped();
    // The lease of a run that was taken up may be about to expire.
    if (takenUp) this.#heardAt = -Infinity;
    this.#schedule(takenUp ? 0 : this.#beatMs);
  }

  /** See `RunHandle.attempt`. */
  get attempt(): number {
    return this.#attempt;
  }

  /** The incarnation of the thread's log. */
  get epoch(): string {
    return this.#epoch;
  }

  /** A reader that starts from this cursor receives this run and nothing before it. */
  get cursor(): number {
    return this.#cursor;
  }

  /** Aborted as soon as further work is pointless: a stop of the run was requested, or the server has ended it. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Why the run cannot continue; undefined if it can. */
  get failure(): unknown {
    return this.#failure;
  }

  /** True if a stop of the run was requested. */
  get stopRequested(): boolean {
    return this.#stopRequested;
  }

  /** See `RunHandle.append`. */
  append(events: NewEvent | readonly NewEvent[]): Promise<void> {
    const taken = this.#take(events);
    // A caller that does not await this promise receives the error from `flush` and from the end of the run.
    taken.catch(() => {});
    return taken;
  }

  /** Rejects with the error of a call that appends nothing. The run cannot be finished successfully any more. */
  refuse(error: ConfigError): Promise<never> {
    this.#refused ??= error;
    const refused = Promise.reject(error);
    refused.catch(() => {});
    return refused;
  }

  async #take(events: NewEvent | readonly NewEvent[]): Promise<void> {
    this.#check();
    if (this.#terminal) throw new ClosedError("the run has ended with its terminal event");
    let list: readonly NewEvent[] = Array.isArray(events) ? events : [events as NewEvent];
    try {
      list = list.filter((event) => !this.#isOpening(event));
      // An end would hide that something is missing before it.
      if (this.#refused !== undefined && list.some(isTerminal)) throw this.#refused;
      const next = this.#events.nextSeq;
      this.#events.add(list.map((event, index) => encodeEvent(this.#ids.given(event, next + index))));
    } catch (error) {
      this.#refused ??= error;
      throw error;
    }
    this.#terminal = list.some(isTerminal);
    void this.#send();
    await this.#wait(() => this.#events.hasRoom);
  }

  /** True for the RUN_STARTED of this run, which is in the log since the run began. */
  #isOpening(event: NewEvent): boolean {
    if (event?.type !== "RUN_STARTED") return false;
    const { threadId = this.threadId, runId } = event as { readonly threadId?: unknown; readonly runId?: unknown };
    if (runId === this.runId && threadId === this.threadId) return true;
    throw new ConfigError(
      `RUN_STARTED names the run ${String(runId)} of ${String(threadId)}, and this is the run ${this.runId} of` +
        ` ${this.threadId}: leave it out, since the log has that of this run`,
    );
  }

  /** Resolves when all appended events are durable. */
  async flush(): Promise<void> {
    this.#check();
    await this.#wait(() => this.#events.isEmpty);
    if (this.#refused !== undefined) throw this.#refused;
  }

  /** Ends the run as finished, unless its own events have ended it. Pending events are sent first. */
  async finish(): Promise<Run> {
    try {
      for (;;) {
        await this.flush();
        this.close();
        const run = await this.#finished();
        if (run) return run;
      }
    } catch (error) {
      if (!this.#stopRequested || !isProblem(error, "run-fenced")) throw error;
      // The server has already ended the run, since the requested stop took too long.
      const run = await this.#runs.get(this.runId);
      if (run.endedAt === null) throw error;
      return run;
    }
  }

  /** Ends the run; undefined if the server has lost events, which have to be sent before. */
  async #finished(): Promise<Run | undefined> {
    const { acknowledged } = this.#events;
    try {
      if (!this.#terminal) return await this.#runs.finish(this.runId, this.#attempt, acknowledged);
      const run = await this.#runs.get(this.runId);
      if (run.endedAt !== null || run.producerSeq >= acknowledged) return run;
      this.#events.rewind(run.producerSeq + 1);
    } catch (error) {
      if (!(await this.#heal(error))) throw error;
    }
    this.#ended = false;
    this.#schedule(this.#beatMs);
    void this.#send();
    return undefined;
  }

  /** Ends the run as failed. Pending events are sent first, if possible. */
  async fail(code: string, message: string): Promise<Run> {
    await this.flush().catch(() => {});
    this.close();
    return this.#runs.fail(this.runId, this.#attempt, code, message);
  }

  /** Releases the run without ending it: its lease expires, unless the run is resumed under its id. */
  close(): void {
    this.#ended = true;
    clearTimeout(this.#beat);
  }

  /** Called when nobody works on the run any more: whatever still waits for its signal ends. */
  release(): void {
    this.close();
    abort(this.#stop, new ClosedError("the run has ended"));
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

  /** Sends one request after the other, each with the events that were queued meanwhile. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    try {
      // Events that are appended in the same turn share a request.
      await Promise.resolve();
      while (!this.#events.isEmpty && !this.#ended) {
        try {
          await this.#sendBatch();
        } catch (error) {
          if (!(await this.#heal(error))) throw error;
        }
      }
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#sending = false;
    }
  }

  async #sendBatch(): Promise<void> {
    const batch = this.#events.batch();
    const sentAt = now();
    const appended = await this.#runs.append(this.runId, this.#attempt, batch.producerSeq, batch.texts);
    this.#heardAt = Math.max(this.#heardAt, sentAt);
    this.#epoch = appended.epoch;
    this.#events.stored(batch, appended.producerSeq);
    if (appended.stopRequested) this.#stopped();
    this.#wake();
  }

  /**
   * Handles a refusal that a loss of events at the server explains: what it has lost is queued again. False if the error has
   * another cause. Throws if the lost events are not kept any more, or if the run cannot be started again.
   */
  async #heal(error: unknown): Promise<boolean> {
    if (isProblem(error, "producer-seq-gap")) {
      const expected = error.problem["expected"];
      if (typeof expected !== "number" || expected > this.#events.acknowledged) return false;
      this.#events.rewind(expected, error);
      return true;
    }
    if (!isProblem(error, "run-not-found") || !(await this.#isKnown())) return false;
    // The whole run is lost, and its thread is not. Words of an attempt before were never here.
    if (this.#takenUp || !this.#events.isWhole) throw this.#events.lossAt(1, error);
    const started = await this.#runs.begin(this.#again());
    if (started.run.endedAt !== null || started.takenUp || started.attemptId !== this.#attemptId) return false;
    // The first attempt of the run in a later generation of the store has another number.
    this.#attempt = started.attempt;
    this.#epoch = started.epoch;
    this.#cursor = started.cursor;
    if (started.run.producerSeq < this.#events.acknowledged) this.#events.rewind(started.run.producerSeq + 1, error);
    return true;
  }

  /**
   * True if the server knows the log of the run, perhaps without its newest events; false if the thread was deleted and
   * created again.
   */
  async #isKnown(): Promise<boolean> {
    try {
      await this.#runs.next(this.#epoch, this.#cursor);
      return true;
    } catch (error) {
      if (isProblem(error, "log-replaced")) return typeof error.problem["commonUpTo"] === "number";
      throw error;
    }
  }

  /** Queues again what a heartbeat has found to be lost, and sends it. An append in flight finds the loss by itself. */
  async #sendLost(queue: () => void | Promise<void>): Promise<void> {
    if (this.#sending || this.#ended) return;
    this.#sending = true;
    try {
      await queue();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#sending = false;
    }
    if (this.#failure === undefined) void this.#send();
  }

  #stopped(): void {
    this.#stopRequested = true;
    abort(this.#stop, new StopRequested("the run was asked to stop"));
  }

  #failed(error: unknown): void {
    this.#failure ??= error;
    abort(this.#stop, error);
    clearTimeout(this.#beat);
    this.#wake();
  }

  #schedule(ms: number): void {
    clearTimeout(this.#beat);
    this.#beat = setTimeout(() => void this.#sayAlive(), ms);
  }

  async #sayAlive(): Promise<void> {
    // The terminal event was appended: the run needs no lease any more, however long its producer stays busy.
    if (this.#terminal) return;
    const silent = now() - this.#heardAt;
    // An append has extended the lease meanwhile.
    if (silent < this.#beatMs) return this.#schedule(this.#beatMs - silent);
    const sentAt = now();
    const { acknowledged } = this.#events;
    let next = this.#beatMs;
    try {
      // A heartbeat that hangs must not outlast the lease.
      const timeoutMs = (this.#leaseSeconds * 1_000) / 3;
      const run = await this.#runs.heartbeat(this.runId, this.#attempt, this.#leaseSeconds, timeoutMs);
      this.#heardAt = Math.max(this.#heardAt, sentAt);
      if (run.stopRequested) this.#stopped();
      if (run.endedAt !== null) throw new ClosedError(`the run has ended: ${run.status}`);
      if (run.producerSeq < acknowledged) void this.#sendLost(() => this.#events.rewind(run.producerSeq + 1));
    } catch (error) {
      if (this.#ended || this.#terminal) return;
      if (isProblem(error, "run-not-found")) {
        await this.#sendLost(async () => {
          if (!(await this.#heal(error))) throw error;
        });
      } else if (!(error instanceof ThreadlineError && error.retryable)) return this.#failed(error);
      else next = Math.min(this.#beatMs, Math.max(FAILED_BEAT_MS, error.retryAfterMs ?? 0));
    }
    if (!this.#ended && this.#failure === undefined) this.#schedule(next);
  }
}
