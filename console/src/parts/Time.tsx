import { useSyncExternalStore } from "react";
import { serverClock } from "../clock.ts";

const TICK_MS = 15_000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = serverClock.now();
serverClock.onChange(tick);

/** The server's time, to a quarter of a minute: one timer for the page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function tick(): void {
  now = serverClock.now();
  for (const each of listeners) each();
}

/** A moment, as people say it: "now", "5 min", "3 h", "Tue", "12 Mar", with all of it in the tooltip. */
export function Time({ at }: { readonly at: string }) {
  const date = new Date(at);
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {ago(date, useNow())}
    </time>
  );
}

export function ago(date: Date, now: number): string {
  const seconds = (now - date.getTime()) / 1000;
  if (seconds < 45) return "now";
  if (seconds < 3_600) return `${Math.max(1, Math.round(seconds / 60))} min`;
  if (seconds < 86_400) return `${Math.round(seconds / 3_600)} h`;
  if (seconds < 6 * 86_400) return date.toLocaleDateString(undefined, { weekday: "short" });
  const isThisYear = date.getFullYear() === new Date(now).getFullYear();
  return date.toLocaleDateString(undefined, {
    day: "numeric",
    month: "short",
    ...(!isThisYear && { year: "numeric" }),
  });
}
