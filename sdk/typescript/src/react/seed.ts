import type { EventBatch, Interrupt, Message, Thread } from "../types.js";

/** A thread at one seq, as `dehydrate` has read it. */
export interface Seed {
  readonly thread: Thread;
  /** Seq at which no run was active: the messages, the state and the interrupts are those after it. */
  readonly at: number;
  /** Seq of the last event in `batches`; `at` if there is none. */
  readonly seq: number;
  readonly messages: readonly Message[];
  /** True if there are older messages. */
  readonly hasMore: boolean;
  readonly state: unknown;
  readonly interrupts: readonly Interrupt[];
  /** The events after `at`. Consecutive deltas are joined, so an event has no seq of its own. */
  readonly batches: readonly Pick<EventBatch, "seq" | "runId" | "events">[];
}

/**
 * Threads that a server has read for a page, as plain JSON: the value for `initial` of the provider. Its JSON text contains no
 * `<`, so it can be embedded in a `<script>` unchanged.
 */
export interface Dehydrated {
  /** A JSON text for each thread. */
  readonly threads: readonly string[];
}

/** The JSON text of a value, without characters that end a `<script>`, or a line of JavaScript. */
export function embeddable(value: unknown): string {
  return JSON.stringify(value).replace(
    /[<\u2028\u2029]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
