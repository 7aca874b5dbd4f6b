import type { NewEvent } from "./types.js";

type Lane = string | undefined;

/** Members of a chunk that say which message it belongs to. */
interface Chunk {
  readonly type?: unknown;
  readonly messageId?: unknown;
  readonly role?: unknown;
  readonly name?: unknown;
  readonly subagentRunId?: unknown;
}

/** A message that chunks build. */
interface Open {
  readonly id: string;
  readonly role: string;
  readonly name: string | undefined;
}

/** Events of the whole run, which end all messages that are open. */
const OF_THE_RUN: readonly unknown[] = ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT"];

/** Roles that a streamed text may have. */
const ROLES: readonly unknown[] = ["developer", "system", "assistant", "user"];

/**
 * Ids for the messages of one run whose chunks have none. Made of the run's id and the event's number: no other run has them, and a
 * producer that makes the same events again makes the same ids.
 */
export class MessageIds {
  readonly #runId: string;
  /** Per subagent, or none: the message of the last event, if that was a chunk of text. A chunk without an id goes on with it. */
  readonly #open = new Map<Lane, Open>();

  constructor(runId: string) {
    this.#runId = runId;
  }

  /** The event as it is appended under this producerSeq. */
  given(event: NewEvent, producerSeq: number): NewEvent {
    const { type, messageId, role, name, subagentRunId } = (event ?? {}) as Chunk;
    const lane = typeof subagentRunId === "string" ? subagentRunId : undefined;
    if (OF_THE_RUN.includes(type)) this.#open.clear();
    if (type !== "TEXT_MESSAGE_CHUNK") {
      this.#open.delete(lane);
      return event;
    }
    // No reader takes a chunk that is malformed, so it opens nothing.
    if (!(role === undefined || ROLES.includes(role)) || !isWord(name)) return event;
    const begins = (id: string) => this.#open.set(lane, { id, role: (role ?? "assistant") as string, name });
    if (messageId !== undefined && messageId !== null) {
      if (typeof messageId === "string" && !this.#isOpen(messageId)) begins(messageId);
      return event;
    }
    const open = this.#open.get(lane);
    // A chunk that goes on with a message may only repeat what the first one said of it.
    if (open && (role ?? open.role) === open.role && (name ?? open.name) === open.name) {
      return messageId === null ? ({ ...event, messageId: open.id } as NewEvent) : event;
    }
    const id = `${this.#runId}-${producerSeq}`;
    begins(id);
    return { ...event, messageId: id } as NewEvent;
  }

  /** Whether chunks of this id belong to a message that is open, in whichever lane. */
  #isOpen(messageId: string): boolean {
    return [...this.#open.values()].some(({ id }) => id === messageId);
  }
}

/** These events of a run that is appended whole, with the ids that they lack. */
export function withMessageIds(runId: string, events: readonly NewEvent[]): NewEvent[] {
  const ids = new MessageIds(runId);
  return events.map((event, index) => ids.given(event, index + 1));
}

function isWord(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}
