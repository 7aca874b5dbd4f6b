// Stand-ins for parts that some engines lack, React Native's among them: clocks, and parts of AbortSignal. Nothing else of the package uses these
// parts directly; a test looks for them.

/** A clock for durations, in milliseconds; monotonic where the engine has such a clock. */
export function now(): number {
  return ((globalThis.performance as Performance | undefined) ?? Date).now();
}

/** Aborts with a reason, also where a signal keeps none by itself. */
export function abort(over: AbortController, reason: unknown): void {
  const { signal } = over;
  // Set first, since listeners read it.
  if (!("reason" in signal)) Object.defineProperty(signal, "reason", { value: reason });
  over.abort(reason);
}

/** The reason of an aborted signal. */
export function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? Object.assign(new Error("This operation was aborted"), { name: "AbortError" });
}

/** Throws the reason of a signal that is aborted. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw reasonOf(signal);
}

/** Calls a listener and keeps its errors from the caller: they are thrown as uncaught ones. */
export function guarded<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
    return undefined;
  }
}
