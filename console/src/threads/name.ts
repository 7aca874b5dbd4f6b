import type { Thread } from "threadline";

/** Longest part of an id that stands for a name. */
const ID_SHOWN = 12;

/** What a thread is called, also where it has no name. */
export function nameOf({ name, threadId, tail }: Pick<Thread, "name" | "threadId" | "tail">): string {
  if (name?.trim()) return name;
  if (tail === 0) return "New thread";
  return threadId.length > ID_SHOWN + 1 ? `Thread ${threadId.slice(0, ID_SHOWN)}…` : `Thread ${threadId}`;
}
