// A run from start to end, around a body that produces it.

import { unlessAborted } from "./backoff.js";
import type { Conversation } from "./conversation/conversation.js";
import { ConfigError, messageOf, NotResumed } from "./errors.js";
import { newId } from "./ids.js";
import { DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS, REQUEST_TIMEOUT_MS } from "./limits.js";
import { throwIfAborted } from "./platform.js";
import { isOver, Producer, type RunOptions } from "./producer.js";
import type { Runs } from "./runs.js";
import { storedOf } from "./stored.js";
import type { ThreadRef } from "./threads.js";
import type { Run, StartedRun } from "./types.js";

/**
 * Starts a run, calls `body`, and ends the run: as finished if `body` returns, as failed if it throws; the error is
 * rethrown. After a requested stop, an error of `body` counts as its way to stop. If the run under the given id has already
 * ended, its record is returned and `body` is not called. A run with stored events rejects with `NotResumed` unless the
 * options have `onResume: "continue"`.
 */
export async function produce(
  runs: Runs,
  thread: ThreadRef,
  body: (run: Producer) => unknown,
  options: RunOptions,
): Promise<Run> {
  const { runId = newId(), agentId, leaseSeconds, producerSeq, onResume, signal } = options;
  if (leaseSeconds !== undefined && !(leaseSeconds >= 1 && leaseSeconds <= MAX_LEASE_SECONDS)) {
    throw new ConfigError(`leaseSeconds must be a number from 1 to ${MAX_LEASE_SECONDS}`);
  }
  throwIfAborted(signal);
  const started = await begun(runs, { runId, agentId, leaseSeconds }, signal);
  if (started.run.endedAt !== null) return started.run;
  let stored: Conversation | undefined;
  if (started.run.producerSeq > 0) {
    if (onResume !== "continue" && producerSeq === undefined) {
      if (started.run.stopRequested) return await runs.finish(runId);
      throw new NotResumed(started.run, await storedOf(thread, started));
    }
    // The lease may be about to expire. If this heartbeat fails, the first append fails too and reports the cause.
    void runs.heartbeat(runId, leaseSeconds ?? DEFAULT_LEASE_SECONDS, REQUEST_TIMEOUT_MS).catch(() => {});
    stored = await storedOf(thread, started);
  }
  const producer = new Producer(runs, thread.threadId, started, options, stored);
  // The response to an append or a heartbeat reports the stop.
  const stop = () => void runs.stop(runId).catch(() => {});
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    await body(producer);
    return await producer.finish();
  } catch (error) {
    if (producer.stopRequested) return await producer.finish();
    // The caller needs the first error, so an error of `fail` is ignored: the lease ends the run.
    if (!isOver(error)) await producer.fail("producer-failed", messageOf(error)).catch(() => {});
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
    producer.close();
  }
}

/** Starts the run. An abort rejects immediately; if the run has started nevertheless, it is ended. */
async function begun(runs: Runs, body: Parameters<Runs["begin"]>[0], signal?: AbortSignal): Promise<StartedRun> {
  const beginning = runs.begin(body, signal);
  try {
    return await unlessAborted(beginning, signal);
  } catch (error) {
    if (signal?.aborted) beginning.then(() => runs.finish(body.runId)).catch(() => {});
    throw error;
  }
}
