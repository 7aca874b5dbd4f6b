// AgentKit's results as AG-UI events, which every other reader of the thread shows.

import type { AgentResult, Message, ToolMessage } from "@inngest/agent-kit";
import { RESULT_PART_CHARS, VIEW_CUT_CHARS, VIEW_TEXT_BYTES } from "../limits.js";
import type { AgUiEvent, TextMessageRole } from "../types.js";
import { jsonText, type KeyedResult } from "./record.js";

/** Events of one message, call or tool result, which stay in one run. */
export type Unit = readonly AgUiEvent[];

export function textUnit(messageId: string, role: TextMessageRole, content: string): Unit {
  const text = viewText(content);
  const events: AgUiEvent[] = [{ type: "TEXT_MESSAGE_START", messageId, role }];
  for (let at = 0; at < text.length; at += RESULT_PART_CHARS) {
    events.push({ type: "TEXT_MESSAGE_CONTENT", messageId, delta: text.slice(at, at + RESULT_PART_CHARS) });
  }
  events.push({ type: "TEXT_MESSAGE_END", messageId });
  return events;
}

/** The messages of a result. For a streamed result, only what AgentKit does not stream: all texts but the last one. */
export function resultUnits({ key, result }: KeyedResult, streamed: boolean): Unit[] {
  const units: Unit[] = [];
  const texts = result.output.filter(isAssistantText);
  const last = texts.at(-1);
  let parent: string | undefined;
  for (const [index, message] of result.output.entries()) {
    if (message.type === "text") {
      const text = plainText(message.content);
      // The id under which AgentKit streams the last text.
      const messageId = message === last ? key : `${key}:${index}`;
      parent = messageId;
      if (!streamed || (message !== last && text !== "")) units.push(textUnit(messageId, roleOf(message), text));
    } else if (message.type === "tool_call" && !streamed) {
      for (const [position, tool] of message.tools.entries()) {
        units.push(callUnit(callId(tool, `${key}:${index}:${position}`), tool, parent ?? key));
      }
    }
  }
  if (streamed) return units;
  for (const [index, { tool, content }] of result.toolCalls.entries()) {
    units.push([answerEvent(callId(tool, `${key}:answer:${index}`), content)]);
  }
  return units;
}

/** The result of a tool call. AgentKit wraps it as `{ data }` or `{ error }`; a string is shown unchanged. */
export function answerEvent(toolCallId: string, content: unknown): AgUiEvent {
  const wrapped = typeof content === "object" && content !== null && "data" in content ? content.data : content;
  const text = viewText(typeof wrapped === "string" ? wrapped : jsonText(wrapped));
  return { type: "TOOL_CALL_RESULT", messageId: `${toolCallId}:result`, toolCallId, role: "tool", content: text };
}

/** Size of the events in a request, in bytes. */
export function sizeOf(events: readonly AgUiEvent[]): number {
  return new TextEncoder().encode(JSON.stringify(events)).length;
}

/** The text of a message's content. */
export function plainText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown }) => (typeof part?.text === "string" ? part.text : "")).join("");
}

function callUnit(toolCallId: string, tool: ToolMessage, parentMessageId: string): Unit {
  return [
    { type: "TOOL_CALL_START", toolCallId, toolCallName: tool.name, parentMessageId },
    { type: "TOOL_CALL_ARGS", toolCallId, delta: viewText(jsonText(tool.input ?? {})) },
    { type: "TOOL_CALL_END", toolCallId },
  ];
}

/** Truncates a text that is too long for an event: the complete value is in the events of the result. */
function viewText(text: string): string {
  // A character takes at most 6 bytes of JSON.
  if (text.length * 6 <= VIEW_TEXT_BYTES) return text;
  if (new TextEncoder().encode(JSON.stringify(text)).length <= VIEW_TEXT_BYTES) return text;
  return `${text.slice(0, VIEW_CUT_CHARS)} … (${text.length - VIEW_CUT_CHARS} more characters)`;
}

function callId(tool: ToolMessage, otherwise: string): string {
  return tool.id || otherwise;
}

function isAssistantText(message: AgentResult["output"][number]): boolean {
  return message.type === "text" && message.role === "assistant" && plainText(message.content) !== "";
}

function roleOf(message: Message): TextMessageRole {
  return message.role === "user" || message.role === "system" ? message.role : "assistant";
}
