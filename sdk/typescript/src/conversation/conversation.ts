import { PATCH_WORK_PER_BYTE } from "../limits.js";
import type { AgUiEvent, Interrupt, Message } from "../types.js";
import { Activities } from "./activities.js";
import { Drafts } from "./drafts.js";
import { Interrupts } from "./interrupts.js";
import { equal, patch, Purse } from "./patch.js";
import { isObject, json, Malformed, type Members, required, unreadableNumbers } from "./read.js";
import { size } from "./size.js";
import { Transcript } from "./transcript.js";

/** Where a fold begins: what the server says of a thread after one of its events, between two runs. */
export interface ConversationStart {
  readonly messages?: readonly Message[];
  /** Whether there are older messages, which are not among these. */
  readonly hasMore?: boolean;
  readonly state?: unknown;
  readonly interrupts?: readonly Interrupt[];
}

/**
 * The messages, the state and the interrupts that the events of a thread make, exactly as the server has them: the same
 * events from the same start give what `GET …/messages` and `GET …/state` say. Malformed events are passed over.
 *
 * What it gives out never changes, and is the same object as long as nothing of it does; the events' objects are built in
 * and must not be changed either. Reading `messages` costs one copy of the list if it has changed, applying an event does
 * not: so apply events in batches, and read in between.
 *
 * Two things are counted anew where a fold begins and not at the thread's first event: the names of THINKING_* events, which
 * have no ids (`thinking-1`, …), and the work that patches may cost.
 */
export class Conversation {
  readonly #transcript: Transcript;
  readonly #drafts = new Drafts();
  readonly #purse = new Purse();
  readonly #activities: Activities;
  readonly #state: { document: unknown };
  #skippedNumbers = 0;
  readonly #interrupts: Interrupts;

  constructor({ messages = [], hasMore = false, state = {}, interrupts = [] }: ConversationStart = {}) {
    this.#transcript = new Transcript(messages, hasMore, this.#drafts);
    this.#activities = new Activities(this.#transcript, this.#drafts, this.#purse);
    this.#state = { document: state };
    this.#interrupts = new Interrupts(interrupts);
  }

  get messages(): readonly Message[] {
    return this.#transcript.list.read();
  }

  get state(): unknown {
    this.#drafts.seal();
    return this.#state.document;
  }

  /** The interrupts that wait for an answer, until a run has finished that answers them in its `resume`. */
  get interrupts(): readonly Interrupt[] {
    return this.#interrupts.open;
  }

  /** Ids of the tool calls that have no result, in the order of the messages. */
  get pendingToolCallIds(): readonly string[] {
    return this.#transcript.list.pendingCalls();
  }

  /** How many STATE_DELTA and ACTIVITY_DELTA events could not be applied. Of such an event nothing was. */
  get skippedDeltas(): number {
    return this.#purse.skipped;
  }

  /**
   * Count of numbers that were beyond a double (`1e400`). Each of them reads as null, and what stands beside it is kept; the log has
   * what came.
   */
  get skippedNumbers(): number {
    return this.#skippedNumbers;
  }

  /**
   * Whether an event has spoken of messages that may be among the older ones, which are not here: then start again with
   * all of them.
   */
  get isIncomplete(): boolean {
    return this.#transcript.isIncomplete;
  }

  /** Takes in the next events. */
  apply(events: Iterable<AgUiEvent>): void {
    for (const event of events) {
      try {
        if (!isObject(event)) continue;
        const type = required(event.type);
        this.#apply(type, event);
        this.#skippedNumbers += unreadableNumbers(type, event);
      } catch (error) {
        if (!(error instanceof Malformed)) throw error;
      }
    }
  }

  /** Puts older messages before those that are there; `hasMore`: there are still older ones. */
  prepend(older: readonly Message[], hasMore = false): void {
    this.#transcript.prepend(older, hasMore);
  }

  #apply(type: string, event: Members): void {
    this.#transcript.apply(type, event);
    switch (type) {
      case "STATE_SNAPSHOT": {
        if (event.snapshot === undefined) throw new Malformed();
        const state = json(event.snapshot);
        if (!equal(state, this.#state.document)) this.#state.document = state;
        return this.#earn(event);
      }
      case "STATE_DELTA":
        patch(this.#state, event.delta, this.#drafts, this.#purse);
        return this.#earn(event);
      case "ACTIVITY_SNAPSHOT":
        this.#activities.snapshot(event);
        return this.#earn(event);
      case "ACTIVITY_DELTA":
        this.#activities.delta(event);
        return this.#earn(event);
      case "RUN_STARTED":
        return this.#interrupts.runStarted(event.input);
      case "RUN_ERROR":
        return this.#interrupts.runFailed();
      case "RUN_FINISHED":
        return this.#interrupts.runFinished(event.outcome);
    }
  }
  /** Each event of state and activities brings some of the work that patches may cost: so all is linear in the log. */
  #earn(event: Members): void {
    this.#purse.work += size(event) * PATCH_WORK_PER_BYTE;
  }
}
