// AG-UI's events for the chunks of a UI message stream.

import type { UIMessageChunk } from "ai";
import { newId } from "../ids.js";
import { toJson } from "../json.js";
import type { NewEvent } from "../types.js";

/** Prefix of the names of the server's own events. */
const RESERVED = "threadline.";

/** Arguments of a call. */
interface Call {
  /** True once a piece of them was appended. */
  hasArgs: boolean;
  /** True once they are complete. */
  isComplete: boolean;
  /** True if pieces of them are no JSON. */
  readonly isText: boolean;
}

type Kind = "TEXT" | "REASONING";
type Tool = Extract<UIMessageChunk, { type: "tool-input-available" | "tool-input-error" }>;

/** Events of one stream, whose chunks are passed in order. */
export class Events {
  #steps = 0;
  /** Ids of messages, by the ids of the stream, which are unique only within a step. */
  readonly #texts = new Map<string, string>();
  readonly #calls = new Map<string, Call>();
  /** The message that calls belong to: the last text of the step. */
  #parent: string | undefined;
  readonly #interrupts: unknown[] = [];

  /** Events of a chunk. Throws for an `error`. */
  of(chunk: UIMessageChunk): NewEvent[] {
    switch (chunk.type) {
      case "start":
      case "finish":
      case "message-metadata":
        return chunk.messageMetadata === undefined ? [] : [custom("message-metadata", chunk.messageMetadata)];
      case "start-step":
        this.#parent = undefined;
        this.#steps += 1;
        return [event("STEP_STARTED", { stepName: `step ${this.#steps}` })];
      case "finish-step":
        return this.#steps === 0 ? [] : [event("STEP_FINISHED", { stepName: `step ${this.#steps}` })];
      case "text-start":
        return this.#begin("TEXT", chunk.id);
      case "text-delta":
        return this.#delta("TEXT", chunk.id, chunk.delta);
      case "text-end":
        return this.#end("TEXT", chunk.id);
      case "reasoning-start":
        return this.#begin("REASONING", chunk.id);
      case "reasoning-delta":
        return this.#delta("REASONING", chunk.id, chunk.delta);
      case "reasoning-end":
        return this.#end("REASONING", chunk.id);
      case "tool-input-start":
        return this.#call(chunk.toolCallId, chunk.toolName, chunk.inputEncoding === "text");
      case "tool-input-delta":
        return this.#args(chunk.toolCallId, chunk.inputTextDelta);
      case "tool-input-available":
        return this.#input(chunk);
      case "tool-input-error":
        return [...this.#input(chunk), failed(chunk.toolCallId, chunk.errorText)];
      case "tool-output-available":
        // A preliminary output is replaced by a later one, and a result in the log is not.
        return chunk.preliminary ? [] : [result(chunk.toolCallId, chunk.output)];
      case "tool-output-error":
        return [failed(chunk.toolCallId, chunk.errorText)];
      case "tool-output-denied":
        return [failed(chunk.toolCallId, "The call was denied.")];
      case "tool-approval-request": {
        const { approvalId: id, toolCallId } = chunk;
        this.#interrupts.push({ id, reason: "tool_call", toolCallId });
        return [];
      }
      case "error":
        throw new Error(chunk.errorText);
      default:
        return [other(chunk)];
    }
  }

  /** Events at the end of the stream: requests for approval end the run. */
  last({ threadId, runId }: { readonly threadId: string; readonly runId: string }): NewEvent[] {
    const interrupts = this.#interrupts;
    if (interrupts.length === 0) return [];
    return [event("RUN_FINISHED", { threadId, runId, outcome: { type: "interrupt", interrupts } })];
  }

  /** A text begins. Its id is new, because ids of messages belong to the thread. */
  #begin(kind: Kind, id: string): NewEvent[] {
    const messageId = newId();
    this.#texts.set(`${kind} ${id}`, messageId);
    if (kind === "TEXT") this.#parent = messageId;
    if (kind === "TEXT") return [event("TEXT_MESSAGE_START", { messageId, role: "assistant" })];
    const begins = event("REASONING_MESSAGE_START", { messageId, role: "reasoning" });
    return [event("REASONING_START", { messageId }), begins];
  }

  #delta(kind: Kind, id: string, delta: string): NewEvent[] {
    const key = `${kind} ${id}`;
    const begins = this.#texts.has(key) ? [] : this.#begin(kind, id);
    // An event of AG-UI has a piece that is not empty.
    if (delta === "") return begins;
    return [...begins, event(`${kind}_MESSAGE_CONTENT`, { messageId: this.#texts.get(key), delta })];
  }

  #end(kind: Kind, id: string): NewEvent[] {
    const messageId = this.#texts.get(`${kind} ${id}`);
    this.#texts.delete(`${kind} ${id}`);
    if (messageId === undefined) return [];
    const ends = event(`${kind}_MESSAGE_END`, { messageId });
    return kind === "TEXT" ? [ends] : [ends, event("REASONING_END", { messageId })];
  }

  #call(toolCallId: string, toolCallName: string, isText: boolean): NewEvent[] {
    this.#calls.set(toolCallId, { hasArgs: false, isComplete: false, isText });
    const parent = this.#parent === undefined ? {} : { parentMessageId: this.#parent };
    return [event("TOOL_CALL_START", { toolCallId, toolCallName, ...parent })];
  }

  #args(toolCallId: string, delta: string): NewEvent[] {
    const call = this.#calls.get(toolCallId);
    if (!call || call.isText || call.isComplete || delta === "") return [];
    call.hasArgs = true;
    return [event("TOOL_CALL_ARGS", { toolCallId, delta })];
  }

  /** Complete arguments, of which nothing or all was streamed. */
  #input({ toolCallId, toolName, input = {} }: Tool): NewEvent[] {
    const begins = this.#calls.has(toolCallId) ? [] : this.#call(toolCallId, toolName, false);
    const call = this.#calls.get(toolCallId)!;
    if (call.isComplete) return [];
    call.isComplete = true;
    const args = call.hasArgs ? [] : [event("TOOL_CALL_ARGS", { toolCallId, delta: toJson(input) })];
    return [...begins, ...args, event("TOOL_CALL_END", { toolCallId })];
  }
}

function event(type: string, members: Readonly<Record<string, unknown>>): NewEvent {
  return { type, ...members } as NewEvent;
}

function custom(name: string, value: unknown): NewEvent {
  return event("CUSTOM", { name, value });
}

function result(toolCallId: string, output: unknown): NewEvent {
  const content = typeof output === "string" ? output : toJson(output ?? null);
  return event("TOOL_CALL_RESULT", { messageId: newId(), toolCallId, role: "tool", content });
}

/** AG-UI has no mark for a call that has failed. */
function failed(toolCallId: string, error: string): NewEvent {
  return result(toolCallId, { error });
}

/** A part of the application, or a chunk without a counterpart: perhaps one of a later version. */
function other(chunk: { readonly type: string; readonly data?: unknown }): NewEvent {
  const name = chunk.type.startsWith("data-") ? chunk.type.slice("data-".length) : "";
  return name === "" || name.startsWith(RESERVED) ? custom("unmapped", chunk) : custom(name, chunk.data ?? null);
}
