import type { NewEvent } from "./types.js";

type Lane = string | undefined;

/** Members of a chunk that identify its message. */
interface Chunk {
  readonly type?: unknown;
  readonly messageId?: unknown;
  readonly role?: unknown;
  readonly name?: unknown;
  readonly subagentRunId?: unknown;
}

/** A message that is built by chunks. */
interface Open {
  readonly id: string;
  readonly role: string;
  readonly name: string | undefined;
}

/** Events of the whole run, which end all open messages. */
const OF_THE_RUN: readonly unknown[] = ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"];

/** Roles that a streamed text may have. */
const ROLES: readonly unknown[] = ["developer", "system", "assistant", "user"];

/**
 * Assigns ids to the messages of one run whose chunks have none. An id is derived from the run's id and the event's number:
 * it is unique to the run, and a producer that repeats its events produces the same ids.
 */
export class MessageIds {
  readonly #runId: string;
  readonly #isExplicit: boolean;
  /** Per subagent, or none: the message of the last event, if that was a text chunk. A chunk without an id continues it. */
  readonly #open = new Map<Lane, Open>();

  /** With `isExplicit`, a chunk that continues a message gets its id too: it may be appended among others. */
  constructor(runId: string, isExplicit = false) {
    this.#runId = runId;
    this.#isExplicit = isExplicit;
  }

  /** Returns the event as it is appended under this producerSeq. */
  given(event: NewEvent, producerSeq: number): NewEvent {
    const { type, messageId, role, name, subagentRunId } = (event ?? {}) as Chunk;
    const lane = typeof subagentRunId === "string" ? subagentRunId : undefined;
    if (OF_THE_RUN.includes(type)) this.#open.clear();
    if (type !== "TEXT_MESSAGE_CHUNK") {
      this.#open.delete(lane);
      return event;
    }
    // A malformed chunk opens nothing, since readers ignore it.
    if (!(role === undefined || ROLES.includes(role)) || !isWord(name)) return event;
    const begins = (id: string) => this.#open.set(lane, { id, role: (role ?? "assistant") as string, name });
    if (messageId !== undefined && messageId !== null) {
      if (typeof messageId === "string" && !this.#isOpen(messageId)) begins(messageId);
      return event;
    }
    const open = this.#open.get(lane);
    // A chunk that continues a message may only repeat the members of the first chunk.
    if (open && (role ?? open.role) === open.role && (name ?? open.name) === open.name) {
      return messageId === null || this.#isExplicit ? ({ ...event, messageId: open.id } as NewEvent) : event;
    }
    const id = `${this.#runId}-${producerSeq}`;
    begins(id);
    return { ...event, messageId: id } as NewEvent;
  }

  /** True if chunks of this id belong to a message that is open, in any lane. */
  #isOpen(messageId: string): boolean {
    return [...this.#open.values()].some(({ id }) => id === messageId);
  }
}

/** Returns the events of a complete run, with missing message ids assigned. */
export function withMessageIds(runId: string, events: readonly NewEvent[]): NewEvent[] {
  const ids = new MessageIds(runId);
  return events.map((event, index) => ids.given(event, index + 1));
}

function isWord(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}
