// Texts about the queue of a thread, and places in it. Pure.

import type { Hold } from "threadline";
import type { ShownTurn, UseThread } from "threadline/react";
import { textOf } from "./content.ts";

/** Reason for which the queue rests. */
export type Rest = Hold | "interrupts";

const WHY: Readonly<Record<Rest, string>> = {
  stop: "Held: the run was stopped.",
  error: "Held: the run failed.",
  hand: "Held until it is released.",
  interrupts: "Waits for your answer to the agent.",
};

/** Reason for which the queue of a thread rests; null if only the active run is before it. */
export function restOf({
  queue,
  interrupts,
  isRunning,
}: Pick<UseThread, "queue" | "interrupts" | "isRunning">): Rest | null {
  return queue.held ?? (!isRunning && interrupts.length > 0 ? "interrupts" : null);
}

/** Number of messages that wait, and the reason if that is not the active run. */
export function summaryOf(count: number, rest: Rest | null): string {
  const waiting = count === 0 ? "No message waits." : count === 1 ? "1 message waits." : `${count} messages wait.`;
  return rest === null ? waiting : `${waiting} ${WHY[rest]}`;
}

/** Text of a turn. */
export function textOfTurn({ messages }: ShownTurn): string {
  return messages.map(textOf).filter(Boolean).join("\n\n") || "No text";
}

/** True if the turn is a text and nothing else, so that another text can take its place. */
export function isText({ messages }: ShownTurn): boolean {
  return messages.length === 1 && typeof messages[0]?.content === "string";
}

/** The places to which a turn can be moved, as the turn before which it stands then; undefined if there is none. */
export function movesOf(
  items: readonly ShownTurn[],
  at: number,
): { readonly up: string | undefined; readonly down: string | null | undefined } {
  const before = items[at - 1];
  const up = before && !before.hasBegun ? before.runId : undefined;
  return { up, down: at + 1 < items.length ? (items[at + 2]?.runId ?? null) : undefined };
}
