// A run from start to end, around a body that produces it.

import { unlessAborted } from "./backoff.js";
import type { Conversation } from "./conversation/conversation.js";
import { ConfigError, isProblem, messageOf, NotResumed, type ProblemError } from "./errors.js";
import { Handle, Interrupted } from "./handle.js";
import type { Http } from "./http.js";
import { newId } from "./ids.js";
import { toJson } from "./json.js";
import { MAX_LEASE_SECONDS } from "./limits.js";
import { openingOf } from "./opening.js";
import { throwIfAborted } from "./platform.js";
import { isOver, Producer } from "./producer.js";
import { ProducedRuns, type TakenRun } from "./producing.js";
import type { RunHandle, RunOptions } from "./run-handle.js";
import { historyOf, storedOf, supersededUpTo } from "./stored.js";
import type { ThreadRef } from "./threads.js";
import type { WholeRunOptions } from "./runs.js";
import type { NewEvent, Run, StartedRun } from "./types.js";

/** Appends a complete run: see `ThreadRef.putRun`. */
export function put(
  http: Http,
  threadId: string,
  runId: string,
  events: readonly NewEvent[],
  { validate = false, ...options }: WholeRunOptions = {},
): Promise<StartedRun> {
  return new ProducedRuns(http, threadId, validate).put(runId, events, options);
}

/** Treatment of an active run of another call, in the words of the request. */
const ON_EXISTING = { restart: "restart", continue: "continue", refuse: "return" } as const;

/**
 * Starts a run, calls `body`, and ends the run: as finished if `body` returns, as failed if it throws; the error is
 * rethrown. After a requested stop, an error of `body` counts as its way to stop. If the run under the given id has already
 * ended, its record is returned and `body` is not called.
 */
export async function produce<S>(
  http: Http,
  thread: ThreadRef,
  options: RunOptions<S>,
  body: (run: RunHandle<S>) => unknown,
): Promise<Run> {
  const { threadId } = thread;
  if (typeof body !== "function") throw new ConfigError("run needs what the run begins with, and then its body");
  const { runId = newId(), agentId, leaseSeconds, onExisting = "restart", toolsRepeatable, signal } = options;
  const { logger } = http.producing;
  const runs = new ProducedRuns(http, threadId, options.validate ?? http.producing.validate);
  if (leaseSeconds !== undefined && !(leaseSeconds >= 1 && leaseSeconds <= MAX_LEASE_SECONDS)) {
    throw new ConfigError(`leaseSeconds must be a number from 1 to ${MAX_LEASE_SECONDS}`);
  }
  if (!(onExisting in ON_EXISTING))
    throw new ConfigError(`onExisting must be one of ${Object.keys(ON_EXISTING).join(", ")}`);
  throwIfAborted(signal);
  // One for each call: by it the server knows a repetition of the request, after a lost answer.
  const attemptId = newId();
  const start = { runId, agentId, leaseSeconds, attemptId, onExisting: ON_EXISTING[onExisting], toolsRepeatable };
  const events = openingOf(threadId, runId, options);
  const request = toJson({ ...start, events });
  // Another process may have begun a lost run again meanwhile: it keeps it.
  const again = () => toJson({ ...start, onExisting: "return", events });
  const taken = await begun(runs, { runId, attemptId, request }, signal);
  if (taken.run.endedAt !== null) return taken.run;
  if (taken.attemptId !== attemptId) throw await notResumed(thread, taken);
  const producer = new Producer(runs, { threadId, taken, again, leaseSeconds });
  // The response to an append or a heartbeat reports the stop.
  const stop = () => void runs.stop(runId).catch(() => {});
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  let handle: Handle<S> | undefined;
  try {
    const reader = { stored: await before(thread, taken, onExisting), history: () => historyOf(thread, taken) };
    handle = new Handle<S>(producer, reader, logger);
    await body(handle);
    await handle.end();
    return await producer.finish();
  } catch (error) {
    if (producer.stopRequested || (error instanceof Interrupted && error.run === handle)) {
      return await producer.finish().catch((failure: unknown) => fail(producer, failure));
    }
    // A failure of the producer has aborted the signal, which may be all that the error of the body says.
    return await fail(producer, producer.failure ?? error);
  } finally {
    signal?.removeEventListener("abort", stop);
    producer.release();
    handle?.release();
  }
}

/** Ends a run that has failed, and throws the error. */
async function fail(producer: Producer, error: unknown): Promise<never> {
  const [code, message] = isProblem(error, "invalid-event")
    ? [error.slug, error.detail]
    : ["producer-failed", messageOf(error)];
  // The caller needs the first error, so an error of `fail` is ignored: the lease ends the run.
  if (!isOver(error)) await producer.fail(code, message).catch(() => {});
  throw error;
}

async function notResumed(thread: ThreadRef, taken: TakenRun): Promise<NotResumed> {
  const { run } = taken;
  const why =
    `the run ${run.runId} is active in its attempt ${run.attempt}: nothing was written. Wait for its end, or take it up with` +
    ' onExisting: "restart" or "continue"';
  return new NotResumed(why, run, await storedOf(thread, taken, run.lastSeq));
}

/** The conversation of the attempts before; undefined if there were none. */
async function before(thread: ThreadRef, taken: TakenRun, onExisting: string): Promise<Conversation | undefined> {
  if (!taken.takenUp) return undefined;
  const at = onExisting === "continue" ? taken.run.lastSeq : await supersededUpTo(thread, taken);
  return storedOf(thread, taken, at);
}

interface Start {
  readonly runId: string;
  readonly attemptId: string;
  readonly request: string;
}

/** Starts the run, or takes it up. An abort rejects immediately; if the run has started nevertheless, it is ended. */
async function begun(
  runs: ProducedRuns,
  { runId, attemptId, request }: Start,
  signal?: AbortSignal,
): Promise<TakenRun> {
  const beginning = runs.begin(request, signal);
  try {
    return await unlessAborted(beginning, signal);
  } catch (error) {
    if (signal?.aborted) {
      const end = (taken: TakenRun) => (taken.attemptId === attemptId ? runs.finish(runId, taken.attempt) : undefined);
      beginning.then(end).catch(() => {});
    }
    if (isProblem(error, "recovery-unsafe") || isProblem(error, "recovery-too-large")) await giveUp(runs, runId, error);
    throw error;
  }
}

/** Ends a run that cannot be taken up, so that it does not wait for its lease, and everybody sees why. */
async function giveUp(runs: ProducedRuns, runId: string, { slug, detail }: ProblemError): Promise<void> {
  try {
    const { attempt, endedAt } = await runs.get(runId);
    if (endedAt === null) await runs.fail(runId, attempt, slug, detail);
  } catch {
    // The caller needs the refusal itself.
  }
}
