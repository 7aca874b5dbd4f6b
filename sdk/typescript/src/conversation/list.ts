import type { ToolCall } from "../types.js";
import type { Drafts } from "./drafts.js";
import type { FoldedMessage } from "./read.js";

/** A mutable version of a type, for objects that no reader has seen yet. */
export type Draft<T> = { -readonly [K in keyof T]: T[K] };

export interface CallDraft extends Draft<ToolCall> {
  function: Draft<ToolCall["function"]>;
}

/** The position of a message. */
export interface Place {
  message: FoldedMessage;
  /** The last known index. Messages are inserted and never removed, so the index can only have increased. */
  index: number;
  /** The last of the following tool messages, as far as known, and the `List` generation at that time. */
  results?: { readonly generation: number; readonly place: Place };
}

/** A tool call: its message and its index there. */
export interface Called {
  readonly place: Place;
  readonly at: number;
}

/**
 * The messages in order, indexed by their ids and by those of their tool calls. Ids should be unique but need not be: the
 * first message with an id counts.
 */
export class List {
  #places: Place[] = [];
  #byId = new Map<string, Place>();
  /** All calls with an id, in order. Calls of replaced messages may still be included. */
  #calls = new Map<string, Called[]>();
  /** Counter of changes that may end a sequence of tool messages. */
  #generation = 0;
  readonly #drafts: Drafts;
  #read: readonly FoldedMessage[];
  #isChanged = true;
  #pending: readonly string[] | undefined;

  /** Creates a list; `before` is the last value that readers have of the list it replaces. */
  constructor(messages: Iterable<FoldedMessage>, drafts: Drafts, before: readonly FoldedMessage[] = []) {
    this.#drafts = drafts;
    this.#read = before;
    for (const message of messages) this.push(message);
  }

  /** Returns the messages. The same array is returned until a message changes. */
  read(): readonly FoldedMessage[] {
    if (this.#isChanged) {
      const messages = this.#places.map((place) => place.message);
      const same = messages.length === this.#read.length && messages.every((message, at) => message === this.#read[at]);
      if (!same) this.#read = messages;
      this.#isChanged = false;
      this.#drafts.seal();
    }
    return this.#read;
  }

  /** Ids of the tool calls without a result, in the order of the messages. */
  pendingCalls(): readonly string[] {
    if (this.#pending === undefined) {
      const messages = this.#places.map((place) => place.message);
      const answered = new Set(messages.map((message) => (message.role === "tool" ? message.toolCallId : undefined)));
      this.#pending = messages.flatMap(callsOf).flatMap(({ id }) => (answered.has(id) ? [] : id));
    }
    return this.#pending;
  }

  find(id: string): Place | undefined {
    return this.#byId.get(id);
  }

  findCall(id: string): Called | undefined {
    const calls = this.#calls.get(id);
    while (calls?.[0] && callsOf(calls[0].place.message)[calls[0].at]?.id !== id) calls.shift();
    return calls?.[0];
  }

  /** Returns a message for a change of anything but its id, its role and the identity of its calls. */
  edit(place: Place): Draft<FoldedMessage> {
    this.#isChanged = true;
    return (place.message = this.#drafts.of(place.message));
  }

  /** Returns a call for a change of anything but its id. */
  editCall({ place, at }: Called): CallDraft {
    const calls = this.#editCalls(place);
    const call = this.#drafts.of(calls[at] as CallDraft);
    calls[at] = call;
    call.function = this.#drafts.of(call.function);
    return call;
  }

  push(message: FoldedMessage): Place {
    return this.#insert(message, this.#places.length);
  }

  /** Inserts a message after `owner` and the tool messages that follow it. */
  pushResult(owner: Place, message: FoldedMessage): void {
    const known = owner.results?.generation === this.#generation ? owner.results.place : owner;
    let at = this.#indexOf(known) + 1;
    while (this.#places[at]?.message.role === "tool") at += 1;
    owner.results = { generation: this.#generation, place: this.#insert(message, at) };
  }

  /** Adds a call to a message. */
  pushCall(place: Place, call: ToolCall): void {
    const calls = this.#editCalls(place);
    calls.push(call);
    this.#indexCall(call.id, { place, at: calls.length - 1 });
  }

  /** Replaces a message with another one that has the same id and no calls. */
  replace(place: Place, message: FoldedMessage): void {
    if (place.message.role === "tool") this.#generation += 1;
    place.message = message;
    this.#isChanged = true;
    this.#pending = undefined;
  }

  #editCalls(place: Place): ToolCall[] {
    const message = this.edit(place);
    const calls = this.#drafts.of(callsOf(message) as ToolCall[]);
    message.toolCalls = calls;
    return calls;
  }

  #indexOf(place: Place): number {
    while (this.#places[place.index] !== place) place.index += 1;
    return place.index;
  }

  #insert(message: FoldedMessage, index: number): Place {
    const place: Place = { message, index };
    if (index === this.#places.length) this.#places.push(place);
    else this.#places.splice(index, 0, place);
    const first = this.#byId.get(message.id);
    if (first === undefined || this.#indexOf(first) > index) this.#byId.set(message.id, place);
    this.#isChanged = true;
    this.#pending = undefined;
    callsOf(message).forEach(({ id }, at) => this.#indexCall(id, { place, at }));
    return place;
  }

  #indexCall(id: string, called: Called): void {
    this.#pending = undefined;
    const calls = this.#calls.get(id);
    if (calls === undefined) this.#calls.set(id, [called]);
    else calls.push(called);
  }
}

/** The calls of an assistant message. In other roles the member has no defined meaning. */
function callsOf(message: FoldedMessage): readonly ToolCall[] {
  return (message.role === "assistant" && message.toolCalls) || [];
}
