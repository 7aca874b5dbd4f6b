// Events of OpenAI's Responses API.

import { toJson } from "../json.js";
import type { Interrupt, NewEvent } from "../types.js";
import { StreamParts } from "./parts.js";
import { custom, failed, isItem, type Item, keyOf, type Source, textOf } from "./source.js";

/** Events of which the deltas, or the finished items, say the same. */
const SAID_ELSEWHERE =
  /^response\.(created|queued|in_progress|completed|incomplete|content_part\.\w+|output_text\.done|refusal\.done|reasoning_\w+\.done|custom_tool_call_input\.delta|\w+_call\.\w+)$/;

export class ResponseEvents implements Source {
  readonly interrupts: readonly Interrupt[] = [];
  readonly #parts = new StreamParts();

  of(item: Item): NewEvent[] | undefined {
    const parts = this.#parts;
    const type = textOf(item["type"]);
    const key = keyOf(item["item_id"]) || keyOf(item["output_index"]);
    const delta = textOf(item["delta"]);
    switch (type) {
      case "response.output_item.added":
        return isItem(item["item"]) ? this.#begin(item["item"], keyOf(item["output_index"])) : [];
      case "response.output_item.done":
        return isItem(item["item"]) ? this.#end(item["item"], keyOf(item["output_index"])) : [];
      case "response.output_text.delta":
      case "response.refusal.delta":
        return parts.delta("TEXT", key, delta);
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return parts.delta("REASONING", key, delta);
      case "response.reasoning_summary_part.added":
        // A summary has several paragraphs.
        return parts.isOpen("REASONING", key) ? parts.delta("REASONING", key, "\n\n") : [];
      case "response.function_call_arguments.delta":
      case "response.mcp_call_arguments.delta":
        return parts.args(key, delta);
      case "response.function_call_arguments.done":
      case "response.mcp_call_arguments.done":
        return parts.endCall(key, textOf(item["arguments"]));
      case "response.custom_tool_call_input.done":
        return parts.endCall(key, toJson(textOf(item["input"])));
      case "response.output_text.annotation.added":
        return [custom("annotation", item["annotation"])];
      case "response.failed":
        throw failed(isItem(item["response"]) ? item["response"]["error"] : item);
      case "error":
        throw failed(item["error"] ?? item);
      case "keepalive":
        return [];
    }
    return SAID_ELSEWHERE.test(type) ? [] : undefined;
  }

  last(): NewEvent[] {
    return this.#parts.last();
  }

  /** Texts begin with their first piece. */
  #begin(item: Item, index: string): NewEvent[] {
    const toolCallId = callOf(item);
    return toolCallId === undefined
      ? []
      : this.#parts.call(keyOf(item["id"]) || index, textOf(item["name"]), toolCallId);
  }

  #end(item: Item, index: string): NewEvent[] {
    const parts = this.#parts;
    const key = keyOf(item["id"]) || index;
    if (item["type"] === "message") return parts.end("TEXT", key);
    if (item["type"] === "reasoning") return parts.end("REASONING", key);
    // Searches, code and pictures, which the endpoint has carried out itself.
    if (callOf(item) === undefined) return [custom(textOf(item["type"]) || "unmapped", item)];
    const args = item["type"] === "custom_tool_call" ? toJson(textOf(item["input"])) : textOf(item["arguments"]);
    const ends = [...this.#begin(item, index), ...parts.endCall(key, args)];
    if (item["error"]) return [...ends, ...parts.failure(key, failed(item["error"]).message)];
    return typeof item["output"] === "string" ? [...ends, ...parts.result(key, item["output"])] : ends;
  }
}

/** The id of the call that an item is; undefined for other items. */
function callOf({ type, id, call_id: callId }: Item): string | undefined {
  if (type === "function_call" || type === "custom_tool_call") return keyOf(callId) || keyOf(id);
  return type === "mcp_call" ? keyOf(id) : undefined;
}
