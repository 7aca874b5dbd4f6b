/** Listener of changes of the environment. */
export interface Surroundings {
  online(): void;
  offline(): void;
  /** The page has become visible. */
  wake(): void;
}

/**
 * Watches the network and the visibility of the page, where the environment reports them; Node and edge runtimes do not.
 * Returns a function that stops watching.
 */
export function watchSurroundings(told: Surroundings): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  const document = globalThis.document as Document | undefined;
  const visible = () => document?.visibilityState === "visible" && told.wake();
  if (typeof globalThis.addEventListener === "function") {
    addEventListener("online", () => told.online(), { signal });
    addEventListener("offline", () => told.offline(), { signal });
    document?.addEventListener("visibilitychange", visible, { signal });
  }
  if ((globalThis.navigator as Navigator | undefined)?.onLine === false) told.offline();
  return () => stop.abort();
}
