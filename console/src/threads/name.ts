import type { Thread } from "threadline";

/** Longest part of an id that is shown in place of a name. */
const ID_SHOWN = 12;

/** The displayed name of a thread, also where it has none. */
export function nameOf({ name, threadId, tail }: Pick<Thread, "name" | "threadId" | "tail">): string {
  if (name?.trim()) return name;
  if (tail === 0) return "New thread";
  return threadId.length > ID_SHOWN + 1 ? `Thread ${threadId.slice(0, ID_SHOWN)}…` : `Thread ${threadId}`;
}
