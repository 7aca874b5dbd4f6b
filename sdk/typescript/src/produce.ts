// A run from its beginning to its end, around a body that does it.

import { unlessAborted } from "./backoff.js";
import { ConfigError, messageOf } from "./errors.js";
import { newId } from "./ids.js";
import { MAX_LEASE_SECONDS } from "./limits.js";
import { isOver, Producer, type RunOptions } from "./producer.js";
import type { Runs } from "./runs.js";
import type { Run, StartedRun } from "./types.js";

/**
 * Begins a run, has `body` do it, and ends it: well if `body` returns, badly if it throws, which is then thrown again.
 * Whatever it throws after a stop was asked for is its way to give up: what was wanted. Of a run that has ended already,
 * under the id given, the record is returned, and `body` is not called.
 */
export async function produce(
  runs: Runs,
  threadId: string,
  body: (run: Producer) => unknown,
  options: RunOptions = {},
): Promise<Run> {
  const { runId = newId(), agentId, leaseSeconds, signal } = options;
  if (leaseSeconds !== undefined && !(leaseSeconds >= 1 && leaseSeconds <= MAX_LEASE_SECONDS)) {
    throw new ConfigError(`leaseSeconds is a number from 1 to ${MAX_LEASE_SECONDS}`);
  }
  signal?.throwIfAborted();
  const started = await begun(runs, { runId, agentId, leaseSeconds }, signal);
  if (started.run.endedAt !== null) return started.run;
  const producer = new Producer(runs, threadId, started, options);
  // The answer to an append or a heartbeat brings the news.
  const stop = () => void runs.stop(runId).catch(() => {});
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  try {
    await body(producer);
    return await producer.finish();
  } catch (error) {
    if (producer.stopRequested) return await producer.finish();
    // Whatever comes of it: what went wrong first is what the caller has to know, and the lease ends the run.
    if (!isOver(error)) await producer.fail("producer-failed", messageOf(error)).catch(() => {});
    throw error;
  } finally {
    signal?.removeEventListener("abort", stop);
    producer.close();
  }
}

/** Begins the run. Who gives that up does not wait; should the run have begun all the same, it is ended. */
async function begun(runs: Runs, body: Parameters<Runs["begin"]>[0], signal?: AbortSignal): Promise<StartedRun> {
  const beginning = runs.begin(body, signal);
  try {
    return await unlessAborted(beginning, signal);
  } catch (error) {
    if (signal?.aborted) beginning.then(() => runs.finish(body.runId)).catch(() => {});
    throw error;
  }
}
