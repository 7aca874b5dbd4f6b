import type { NewEvent } from "./types.js";

type Chunk = NewEvent & { readonly messageId?: unknown; readonly subagentRunId?: unknown };

/**
 * Ids for the messages of one run whose chunks have none. Made of the run's id and the event's number: no other run has them, and a
 * producer that makes the same events again makes the same ids.
 */
export class MessageIds {
  readonly #runId: string;
  /** The last event was a chunk of text, which one without an id goes on with. */
  #continues = false;

  constructor(runId: string) {
    this.#runId = runId;
  }

  /** The event as it is appended under this producerSeq. */
  given(event: NewEvent, producerSeq: number): NewEvent {
    const { type, messageId, subagentRunId } = (event ?? {}) as Chunk;
    // The streams of subagents are open beside that of the agent.
    if (subagentRunId !== undefined && subagentRunId !== null) return event;
    const isNameless = type === "TEXT_MESSAGE_CHUNK" && (messageId === undefined || messageId === null);
    const begins = isNameless && !this.#continues;
    this.#continues = type === "TEXT_MESSAGE_CHUNK";
    return begins ? ({ ...event, messageId: `${this.#runId}-${producerSeq}` } as NewEvent) : event;
  }
}
