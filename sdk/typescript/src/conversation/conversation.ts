import { PATCH_WORK_PER_BYTE } from "../limits.js";
import type { AgUiEvent, Interrupt, Message } from "../types.js";
import { Activities } from "./activities.js";
import { Drafts } from "./drafts.js";
import { Interrupts } from "./interrupts.js";
import { equal, patch, Purse } from "./patch.js";
import { isObject, json, Malformed, type Members, required, unreadableNumbers } from "./read.js";
import { size } from "./size.js";
import { Transcript } from "./transcript.js";

/**
 * The starting point of a fold: the messages and state of a thread after an event, between two runs, as returned by the
 * server.
 */
export interface ConversationStart {
  readonly messages?: readonly Message[];
  /** True if there are older messages that are not included. */
  readonly hasMore?: boolean;
  readonly state?: unknown;
  readonly interrupts?: readonly Interrupt[];
}

/**
 * Folds the events of a thread into messages, state and interrupts, exactly as the server does: the same events from the
 * same start produce the results of `GET …/messages` and `GET …/state`. Malformed events are ignored.
 *
 * Returned values are immutable, and the same object is returned until it changes. Objects of applied events become part of
 * the result and must not be changed either. Reading `messages` copies the list once if it has changed, while applying an
 * event does not, so apply events in batches and read in between.
 *
 * Two counters start with the fold and not with the first event of the thread: the names of THINKING_* events, which have
 * no ids (`thinking-1`, …), and the work budget of patches.
 */
export class Conversation<S = unknown> {
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

  get state(): S {
    this.#drafts.seal();
    return this.#state.document as S;
  }

  /** The open interrupts. An interrupt is settled when a run that answers it in its `resume` has finished. */
  get interrupts(): readonly Interrupt[] {
    return this.#interrupts.open;
  }

  /** Ids of the tool calls without a result, in the order of the messages. */
  get pendingToolCallIds(): readonly string[] {
    return this.#transcript.list.pendingCalls();
  }

  /** Count of STATE_DELTA and ACTIVITY_DELTA events that could not be applied. Such an event has no effect at all. */
  get skippedDeltas(): number {
    return this.#purse.skipped;
  }

  /**
   * Count of numbers that are out of the range of a double (`1e400`). Each of them reads as null, without an effect on
   * other values; the log has the original text.
   */
  get skippedNumbers(): number {
    return this.#skippedNumbers;
  }

  /**
   * True if an event refers to a message that may be among the older ones, which are not loaded: start again with all
   * messages in that case.
   */
  get isIncomplete(): boolean {
    return this.#transcript.isIncomplete;
  }

  /** Applies the next events. */
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

  /** Inserts older messages before the existing ones; `hasMore`: there are even older ones. */
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
  /**
   * Increases the work budget of patches with each event of state and activities, so that the total work is linear in the
   * size of the log.
   */
  #earn(event: Members): void {
    this.#purse.work += size(event) * PATCH_WORK_PER_BYTE;
  }
}
