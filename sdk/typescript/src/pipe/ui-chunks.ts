// Chunks of a UI message stream of the AI SDK: `toUIMessageStream()` of `ai` 6 and 7.

import { toJson } from "../json.js";
import { RESERVED_NAMES } from "../log.js";
import type { Interrupt, NewEvent } from "../types.js";
import { StreamParts } from "./parts.js";
import { custom, event, failed, type Item, keyOf, kept, type Source, StreamFailed, textOf } from "./source.js";

/** Chunks without a part in AG-UI, whose content is kept under the name of their type. */
const KEPT: readonly unknown[] = [
  "file",
  "reasoning-file",
  "source-url",
  "source-document",
  "custom",
  "steering-message",
];

export class UiChunks implements Source {
  readonly interrupts: Interrupt[] = [];
  #steps = 0;
  #isInStep = false;
  readonly #parts = new StreamParts();
  /** Ids of calls whose pieces are text, and no JSON. */
  readonly #ofText = new Set<string>();

  of(chunk: Item): NewEvent[] | undefined {
    const parts = this.#parts;
    const type = textOf(chunk["type"]);
    const id = keyOf(chunk["id"]);
    const call = keyOf(chunk["toolCallId"]);
    switch (type) {
      case "start":
      case "finish":
      case "message-metadata":
        return chunk["messageMetadata"] === undefined ? [] : [custom("message-metadata", chunk["messageMetadata"])];
      case "start-step":
        return [...this.#endStep(), ...this.#beginStep()];
      case "finish-step":
        return this.#endStep();
      case "text-start":
        return parts.begin("TEXT", id);
      case "text-delta":
        return parts.delta("TEXT", id, textOf(chunk["delta"]));
      case "text-end":
        return parts.end("TEXT", id);
      case "reasoning-start":
        return parts.begin("REASONING", id);
      case "reasoning-delta":
        return parts.delta("REASONING", id, textOf(chunk["delta"]));
      case "reasoning-end":
        return parts.end("REASONING", id);
      case "tool-input-start":
        if (chunk["inputEncoding"] === "text") this.#ofText.add(call);
        return parts.call(call, textOf(chunk["toolName"]));
      case "tool-input-delta":
        return this.#ofText.has(call) ? [] : parts.args(call, textOf(chunk["inputTextDelta"]));
      case "tool-input-available":
        return this.#input(call, chunk);
      case "tool-input-error":
        return [...this.#input(call, chunk), ...parts.failure(call, textOf(chunk["errorText"]))];
      case "tool-output-available":
        // A preliminary output is replaced by a later one, and a result in the log is not.
        return chunk["preliminary"] ? [] : parts.result(call, chunk["output"]);
      case "tool-output-error":
        return parts.failure(call, textOf(chunk["errorText"]));
      case "tool-output-denied":
        return parts.failure(call, "The call was denied.");
      case "tool-approval-request":
        // An automatic decision of the application needs no answer of a person.
        if (!chunk["isAutomatic"]) this.#ask(chunk, call);
        return [];
      case "tool-approval-response":
      case "ping":
        return [];
      case "error":
        throw failed(chunk["errorText"]);
      case "abort": {
        const reason = textOf(chunk["reason"]);
        throw new StreamFailed(`the stream was aborted${reason && `: ${reason}`}`);
      }
    }
    if (KEPT.includes(type)) return [custom(type, chunk)];
    const name = type.startsWith("data-") ? type.slice("data-".length) : "";
    return name === "" || name.startsWith(RESERVED_NAMES) ? undefined : [custom(name, chunk["data"] ?? null)];
  }

  last(): NewEvent[] {
    return [...this.#parts.last(), ...this.#endStep()];
  }

  #beginStep(): NewEvent[] {
    this.#parts.parent = undefined;
    this.#steps += 1;
    this.#isInStep = true;
    return [event("STEP_STARTED", { stepName: `step ${this.#steps}` })];
  }

  #endStep(): NewEvent[] {
    if (!this.#isInStep) return [];
    this.#isInStep = false;
    return [event("STEP_FINISHED", { stepName: `step ${this.#steps}` })];
  }

  /** Complete arguments, of which nothing or all was streamed. */
  #input(call: string, chunk: Item): NewEvent[] {
    const begins = this.#parts.call(call, textOf(chunk["toolName"]));
    return [...begins, ...this.#parts.endCall(call, toJson(kept(chunk["input"] ?? {})))];
  }

  #ask({ approvalId: id, reason }: Item, toolCallId: string): void {
    const message = typeof reason === "string" ? { message: reason } : {};
    this.interrupts.push({ id: keyOf(id), reason: "tool_call", toolCallId, ...message });
  }
}
