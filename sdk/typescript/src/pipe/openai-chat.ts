// Chunks of OpenAI's chat completions, and of the many endpoints that speak like it.

import { newId } from "../ids.js";
import type { Interrupt, NewEvent } from "../types.js";
import { StreamParts } from "./parts.js";
import { failed, isItem, type Item, type Source, textOf } from "./source.js";

interface Call {
  readonly key: string;
  /** Index that identifies the call within the answer, if the endpoint sends one. */
  readonly index: unknown;
  readonly id: string;
}

export class ChatChunks implements Source {
  readonly interrupts: readonly Interrupt[] = [];
  readonly #parts = new StreamParts();
  readonly #calls: Call[] = [];

  of(chunk: Item): NewEvent[] | undefined {
    const { choices, error } = chunk;
    if (error !== undefined && error !== null) throw failed(error);
    if (!Array.isArray(choices)) return undefined;
    // Several choices would be several answers to one question.
    const choice: unknown = choices.find((each) => isItem(each) && (each["index"] ?? 0) === 0);
    if (!isItem(choice)) return [];
    const { delta, finish_reason: reason } = choice;
    const said = isItem(delta) ? this.#delta(delta) : [];
    if (reason === "error") throw failed(choice["error"] ?? choice);
    return textOf(reason) === "" ? said : [...said, ...this.#parts.last()];
  }

  last(): NewEvent[] {
    return this.#parts.last();
  }

  #delta(delta: Item): NewEvent[] {
    const parts = this.#parts;
    const events: NewEvent[] = [];
    // Extensions of DeepSeek, vLLM and OpenRouter.
    let thought = textOf(delta["reasoning_content"]) || textOf(delta["reasoning"]);
    let text = textOf(delta["content"]) || textOf(delta["refusal"]);
    // Reasoning models of Mistral send a list of parts.
    for (const part of listOf(delta["content"])) {
      text += textOf(part["text"]);
      for (const piece of listOf(part["thinking"])) thought += textOf(piece["text"]);
    }
    if (thought !== "") events.push(...parts.delta("REASONING", "", thought));
    if (text !== "") events.push(...parts.endAll("REASONING"), ...parts.delta("TEXT", "", text));
    for (const piece of listOf(delta["tool_calls"])) events.push(...this.#call(piece));
    return events;
  }

  /** One piece of a call. Pieces of several calls may alternate, so calls are ended at the end. */
  #call({ index, id, function: called }: Item): NewEvent[] {
    const { name, arguments: args } = isItem(called) ? called : {};
    // Some endpoints send no index, or the same for all calls: then a new id begins a new call, and a piece without an id belongs to
    // the last one. Others change the id from piece to piece: a piece without a name continues a call.
    const call = this.#calls.findLast(
      (call) => (!textOf(id) || !textOf(name) || call.id === id) && (index === undefined || call.index === index),
    );
    if (call) return this.#parts.args(call.key, textOf(args));
    const key = textOf(id) || newId();
    this.#calls.push({ key, index, id: textOf(id) });
    const begins = [
      ...this.#parts.endAll("REASONING"),
      ...this.#parts.endAll("TEXT"),
      ...this.#parts.call(key, textOf(name)),
    ];
    return [...begins, ...this.#parts.args(key, textOf(args))];
  }
}

function listOf(value: unknown): Item[] {
  return Array.isArray(value) ? value.filter(isItem) : [];
}
