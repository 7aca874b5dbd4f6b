"use client";

import { useSyncExternalStore } from "react";
import { ConfigError, type ThreadlineError } from "../errors.js";
import { SUSPENDED_MS } from "../limits.js";
import type { Message, State } from "../types.js";
import { useShownThread } from "./shown-thread.js";
import type { ThreadStore } from "./thread.js";
import { useThread, type UseThread, type UseThreadOptions } from "./use-thread.js";

const loads = new WeakMap<ThreadStore, Promise<void>>();
/** The refusals with which loads have ended. */
const refusals = new WeakMap<ThreadStore, ThreadlineError>();

/**
 * `useThread` for a `<Suspense>`: its fallback is shown until the thread is loaded, and the nearest error boundary gets the
 * refusal if the server refuses it. On a server, the fallback is rendered unless `initial` of the provider has the thread.
 */
export function useSuspenseThread<S = State, M extends Message = Message>(
  threadId: string,
  options?: UseThreadOptions,
): Omit<UseThread<S, M>, "isLoading"> {
  const shown = useShownThread(threadId);
  const thread = useThread<S, M>(threadId, options);
  const isServer = useSyncExternalStore(
    unchanging,
    () => false,
    () => true,
  );
  if (thread.isLoading) {
    // React renders the fallback, and the page renders what is inside.
    if (isServer) throw new ConfigError(`the provider's \`initial\` does not have thread ${threadId}: see dehydrate`);
    throw load(shown.store());
  }
  const store = shown.open();
  if (thread.error !== null && store && refusals.get(store) === thread.error) throw thread.error;
  return thread;
}

function unchanging(): () => void {
  return () => {};
}

/** Loads a thread for a component that is not mounted yet, and so cannot subscribe. Resolves when loading has ended. */
function load(store: ThreadStore): Promise<void> {
  let loading = loads.get(store);
  if (loading) return loading;
  loading = new Promise<void>((resolve) => {
    const leave = store.subscribe(() => {
      const { isLoading, error } = store.getSnapshot();
      if (isLoading || !loads.delete(store)) return;
      if (error) refusals.set(store, error);
      setTimeout(leave, SUSPENDED_MS);
      resolve();
    });
  });
  loads.set(store, loading);
  return loading;
}
