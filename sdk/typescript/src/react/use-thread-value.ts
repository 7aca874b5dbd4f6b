"use client";

import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import type { Message } from "../types.js";
import { useShownThread } from "./shown-thread.js";
import type { ThreadSnapshot } from "./snapshot.js";

/**
 * Returns a part of a thread, and renders only when that part changes: the title of a thread does not render while its
 * messages stream. `equal` compares two parts; `Object.is` by default. Pass null if no thread is selected.
 */
export function useThreadValue<T, S = unknown, M extends Message = Message>(
  threadId: string | null,
  select: (thread: ThreadSnapshot<S, M>) => T,
  equal: (one: T, other: T) => boolean = Object.is,
): T {
  const shown = useShownThread(threadId);
  const last = useRef<{ readonly value: T } | undefined>(undefined);
  const [live, rendered] = useMemo(() => {
    const selected = (read: () => ThreadSnapshot) => {
      let memo: { readonly snapshot: ThreadSnapshot; readonly value: T } | undefined;
      return () => {
        const snapshot = read();
        if (memo?.snapshot === snapshot) return memo.value;
        const value = select(snapshot as ThreadSnapshot<S, M>);
        const before = memo ?? last.current;
        memo = { snapshot, value: before && equal(before.value, value) ? before.value : value };
        return memo.value;
      };
    };
    return [selected(shown.getSnapshot), selected(shown.getServerSnapshot)];
  }, [shown, select, equal]);
  const value = useSyncExternalStore(shown.subscribe, live, rendered);
  useEffect(() => {
    last.current = { value };
  }, [value]);
  return value;
}
