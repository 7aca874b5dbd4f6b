import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, RETRY_AFTER_MAX_MS } from "./limits.js";
import { reasonOf } from "./platform.js";

/**
 * Delay in milliseconds after `failures` consecutive failures (1 after the first): uniformly distributed between zero and a
 * bound that doubles with every failure (full jitter), so that the clients of a restarting server do not all reconnect at
 * the same moment. A delay requested by the server is honored, up to five minutes, and the jitter is added to it. `chance`
 * is a random number from 0 to 1.
 */
export function backoff(failures: number, chance: number, retryAfterMs = 0): number {
  const bound = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** Math.min(failures - 1, 20));
  return Math.min(Math.max(retryAfterMs, 0), RETRY_AFTER_MAX_MS) + bound * chance;
}

/** Resolves after `ms` milliseconds; rejects with the signal's reason if the signal is aborted first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(reasonOf(signal));
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(reasonOf(signal!));
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Settles like the promise; rejects with the signal's reason if the signal is aborted first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(reasonOf(signal));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
