// A list of threads with headings between the days. Pure.

import type { Thread } from "threadline";

/** A line of the list: a heading, or a thread. */
export type Line =
  { readonly kind: "heading"; readonly title: string } | { readonly kind: "thread"; readonly thread: Thread };

/** When something last happened in a thread: what the list is ordered by. */
export function lastActive({ lastRunAt, updatedAt }: Thread): string {
  return lastRunAt ?? updatedAt;
}

/** The threads, newest first, with a heading wherever another group begins. */
export function linesOf(threads: readonly Thread[], now: number): readonly Line[] {
  const lines: Line[] = [];
  let title: string | undefined;
  for (const thread of threads) {
    const group = dayOf(new Date(lastActive(thread)), now);
    if (group !== title) lines.push({ kind: "heading", title: (title = group) });
    lines.push({ kind: "thread", thread });
  }
  return lines;
}

/** "Today", "Yesterday", "Previous 7 days", then the month. */
export function dayOf(date: Date, now: number): string {
  const days = midnights(date, new Date(now));
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "Previous 7 days";
  const isThisYear = date.getFullYear() === new Date(now).getFullYear();
  return date.toLocaleDateString(undefined, { month: "long", ...(!isThisYear && { year: "numeric" }) });
}

/** How many midnights lie between two times. Days have 23 to 25 hours. */
function midnights(from: Date, to: Date): number {
  const day = (date: Date) => Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((day(to) - day(from)) / 86_400_000);
}
