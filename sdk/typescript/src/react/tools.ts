import type { Message, ToolCall } from "../types.js";

/** Returns the tool calls without a result, in the order of the messages; `before` itself if they are unchanged. */
export function pendingCalls(
  messages: readonly Message[],
  ids: readonly string[],
  before: readonly ToolCall[],
): readonly ToolCall[] {
  const pending = new Set(ids);
  const calls = ids.length === 0 ? [] : messages.flatMap(callsOf).filter(({ id }) => pending.has(id));
  return calls.length === before.length && calls.every((call, at) => call === before[at]) ? before : calls;
}

/** The calls of an assistant message. */
export function callsOf(message: Message): readonly ToolCall[] {
  return (message.role === "assistant" && message.toolCalls) || [];
}
