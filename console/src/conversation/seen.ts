import { useEffect, useSyncExternalStore } from "react";
import type { UseThread } from "threadline/react";

/** Marks a thread as read when all of it is shown to a user with write access, and no event is pending. */
export function useSeen({ thread, messages, isLoading, isRunning, markRead }: UseThread, mayWrite: boolean): void {
  const isVisible = useSyncExternalStore(subscribe, () => document.visibilityState === "visible");
  const isSeen = mayWrite && isVisible && thread !== null && !isLoading && !isRunning;
  const tail = thread?.tail;
  useEffect(() => {
    if (isSeen) void markRead();
  }, [isSeen, tail, messages, markRead]);
}

function subscribe(listener: () => void): () => void {
  document.addEventListener("visibilitychange", listener);
  return () => document.removeEventListener("visibilitychange", listener);
}
