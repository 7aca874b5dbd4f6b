// Texts, reasoning and calls of one stream, by the keys that the stream has for them.

import { newId } from "../ids.js";
import type { NewEvent } from "../types.js";
import { event, resultText } from "./source.js";

type Kind = "TEXT" | "REASONING";

interface Call {
  readonly toolCallId: string;
  hasArgs: boolean;
  isOpen: boolean;
  hasResult: boolean;
}

/** The open parts of a stream. Every text gets a new id, because ids of messages belong to the thread. */
export class StreamParts {
  readonly #texts = new Map<string, { readonly kind: Kind; readonly messageId: string }>();
  readonly #calls = new Map<string, Call>();
  /** The message that calls belong to. */
  parent: string | undefined;

  /** Begins a text, unless it is open. */
  begin(kind: Kind, key: string): NewEvent[] {
    if (this.#texts.has(`${kind} ${key}`)) return [];
    const messageId = newId();
    this.#texts.set(`${kind} ${key}`, { kind, messageId });
    if (kind === "TEXT") this.parent = messageId;
    if (kind === "TEXT") return [event("TEXT_MESSAGE_START", { messageId, role: "assistant" })];
    const begins = event("REASONING_MESSAGE_START", { messageId, role: "reasoning" });
    return [event("REASONING_START", { messageId }), begins];
  }

  /** Appends to a text, which begins with its first piece at the latest. */
  delta(kind: Kind, key: string, delta: string): NewEvent[] {
    const begins = this.begin(kind, key);
    // An event of AG-UI has a piece that is not empty.
    if (delta === "") return begins;
    const { messageId } = this.#texts.get(`${kind} ${key}`)!;
    return [...begins, event(`${kind}_MESSAGE_CONTENT`, { messageId, delta })];
  }

  end(kind: Kind, key: string): NewEvent[] {
    const text = this.#texts.get(`${kind} ${key}`);
    this.#texts.delete(`${kind} ${key}`);
    if (!text) return [];
    const { messageId } = text;
    const ends = event(`${kind}_MESSAGE_END`, { messageId });
    return kind === "TEXT" ? [ends] : [ends, event("REASONING_END", { messageId })];
  }

  isOpen(kind: Kind, key: string): boolean {
    return this.#texts.has(`${kind} ${key}`);
  }

  /** Ends all texts of a kind. */
  endAll(kind: Kind): NewEvent[] {
    return [...this.#texts].flatMap(([key, text]) =>
      text.kind === kind ? this.end(kind, key.slice(kind.length + 1)) : [],
    );
  }

  hasCall(key: string): boolean {
    return this.#calls.has(key);
  }

  /** Begins a call, whose id is that of the stream: whoever carries it out knows it by this id. */
  call(key: string, toolCallName: string, toolCallId = key): NewEvent[] {
    if (this.#calls.has(key)) return [];
    this.#calls.set(key, { toolCallId, hasArgs: false, isOpen: true, hasResult: false });
    const parent = this.parent === undefined ? {} : { parentMessageId: this.parent };
    return [event("TOOL_CALL_START", { toolCallId, toolCallName, ...parent })];
  }

  args(key: string, delta: string): NewEvent[] {
    const call = this.#calls.get(key);
    if (!call?.isOpen || delta === "") return [];
    call.hasArgs = true;
    return [event("TOOL_CALL_ARGS", { toolCallId: call.toolCallId, delta })];
  }

  /** Ends the arguments of a call. `whole` is their JSON text, of which nothing or all was passed before. */
  endCall(key: string, whole = ""): NewEvent[] {
    const call = this.#calls.get(key);
    if (!call?.isOpen) return [];
    const args = call.hasArgs ? [] : this.args(key, whole);
    call.isOpen = false;
    return [...args, event("TOOL_CALL_END", { toolCallId: call.toolCallId })];
  }

  /** The result of a call, which has one at most. */
  result(key: string, output: unknown): NewEvent[] {
    const call = this.#calls.get(key);
    if (call?.hasResult) return [];
    if (call) call.hasResult = true;
    const toolCallId = call?.toolCallId ?? key;
    const content = resultText(output);
    return [...this.endCall(key), event("TOOL_CALL_RESULT", { messageId: newId(), toolCallId, role: "tool", content })];
  }

  /** The result of a call that has failed: AG-UI has no mark for it. */
  failure(key: string, error: string): NewEvent[] {
    return this.result(key, { error });
  }

  /** Ends all that is open. */
  last(): NewEvent[] {
    const calls = [...this.#calls.keys()].flatMap((key) => this.endCall(key));
    return [...this.endAll("REASONING"), ...this.endAll("TEXT"), ...calls];
  }
}
