"use client";

import { useEffect, useRef } from "react";
import type { EventListener } from "./events.js";
import { useShownThread } from "./shown-thread.js";
import type { ThreadEvent } from "../types.js";

/** The events that a listener wants: those of one of the types, and those with one of the names; all if neither is given. */
export interface EventFilter {
  /** Types of events, such as `RUN_FINISHED`. */
  readonly types?: readonly string[];
  /** Names of CUSTOM events. */
  readonly names?: readonly string[];
}

/**
 * Calls a listener with each event that is appended while the component shows the thread: once, in order, also after a
 * reconnect. The events that were stored before the thread was loaded are not among them. Each event is passed before the
 * render that shows it. Pass null if no thread is selected.
 */
export function useThreadEvents(threadId: string | null, filter: EventFilter, listener: EventListener): void {
  const shown = useShownThread(threadId);
  const latest = useRef({ filter, listener });
  useEffect(() => {
    latest.current = { filter, listener };
  });
  useEffect(
    () =>
      shown.attach((store) => {
        const end = store.events.listen((event, place) => {
          if (isWanted(latest.current.filter, event)) latest.current.listener(event, place);
        });
        // Keeps the store open.
        const leave = store.subscribe(() => {});
        return () => {
          end();
          leave();
        };
      }),
    [shown],
  );
}

function isWanted({ types, names }: EventFilter, event: ThreadEvent): boolean {
  const { type, name } = event as { readonly type: string; readonly name?: unknown };
  if (!types && !names) return true;
  return types?.includes(type) === true || (type === "CUSTOM" && names?.includes(name as string) === true);
}
