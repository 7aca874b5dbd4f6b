/** What is told of what surrounds the program. */
export interface Surroundings {
  online(): void;
  offline(): void;
  /** The page is looked at again. */
  wake(): void;
}

/**
 * Watches whether there is a network and whether the page is looked at, where something tells of that: in Node and on the
 * edge nothing does. Gives what ends it.
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
