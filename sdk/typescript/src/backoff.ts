import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, RETRY_AFTER_MAX_MS } from "./limits.js";

/**
 * How long to wait after `failures` failures in a row (1 after the first): drawn evenly from zero to a bound that doubles
 * (full jitter), so that the many clients of a server that restarts do not come back at one moment. A wait that the server
 * asks for is kept, up to five minutes, and the jitter added. `chance` is drawn from 0 to 1.
 */
export function backoff(failures: number, chance: number, retryAfterMs = 0): number {
  const bound = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** Math.min(failures - 1, 20));
  return Math.min(Math.max(retryAfterMs, 0), RETRY_AFTER_MAX_MS) + bound * chance;
}

/** Waits; rejects with the signal's reason if it is aborted first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The promise, or the signal's reason if it is aborted first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
