// Conversion between AG2B's and AG-UI's messages. Members that AG-UI has are stored as such, so that every other reader of
// the thread can show them. Other members are stored as JSON text in the metadata of the message, so that AG2B gets back
// exactly its own messages.

import type { Message, ToolCall } from "../types.js";
import type { AssistantMessage, ChatMessage } from "./types.js";

/** Member of a message's metadata. Its value is JSON text, so that no reader or writer in between can change it. */
export const KEPT = "ag2b";
/** Value of that member for a partial answer of an interrupted chat, which AG2B does not keep. */
export const DROPPED = "dropped";

export const reasoningId = (id: string): string => `${id}:reasoning`;

/** Converts a message to AG-UI's format: reasoning becomes a separate message before the answer. */
export function toMessages(message: ChatMessage, id: string): Message[] {
  if (message.role === "user") return [{ id, role: "user", content: message.content }];
  if (message.role === "tool") return [{ id, role: "tool", toolCallId: message.id, content: message.content }];
  const { content, reasoning, calls = [] } = message;
  const kept = keptOf(message, { content, reasoning, calls: calls.map(toolCallOf) });
  const answer: Message = {
    id,
    role: "assistant",
    ...(content && { content }),
    ...(calls.length > 0 && { toolCalls: calls.map(toolCallOf) }),
    ...(kept !== undefined && { metadata: { [KEPT]: kept } }),
  };
  return reasoning ? [{ id: reasoningId(id), role: "reasoning", content: reasoning }, answer] : [answer];
}

/** A message of AG2B with the stored messages from which it was read; its id is that of the last one. */
export interface Read {
  readonly message: ChatMessage;
  readonly from: readonly Message[];
}

/**
 * Converts the messages of a thread to AG2B's format. A message that `known` returns for the same stored messages is
 * reused.
 */
export function fromMessages(
  messages: readonly Message[],
  known: (from: readonly Message[]) => ChatMessage | undefined = () => undefined,
): Read[] {
  const found: Read[] = [];
  const add = (from: readonly Message[], read: () => ChatMessage) =>
    found.push({ from, message: known(from) ?? read() });
  let reasoning: Message[] = [];
  for (const message of messages) {
    const { role } = message;
    const kept = keptIn(message);
    if (kept === DROPPED) {
      reasoning = [];
    } else if (role === "user") {
      add([message], () => ({ role, content: textOf(message.content) }));
      reasoning = [];
    } else if (role === "reasoning") {
      reasoning.push(message);
    } else if (role === "assistant") {
      const thoughts = reasoning.map(({ content }) => textOf(content)).join("\n\n");
      add([...reasoning, message], () => {
        const calls = message.toolCalls ?? [];
        const read = assistant({ content: textOf(message.content), reasoning: thoughts, calls });
        return kept === undefined ? read : withKept(read, kept);
      });
      reasoning = [];
    } else if (role === "tool") {
      add([message], () => ({ role, id: message.toolCallId ?? "", content: textOf(message.content) }));
    }
  }
  return found;
}

/** Contents of an assistant message that AG-UI's members can express. */
export interface Said {
  readonly content?: string | undefined;
  readonly reasoning?: string | undefined;
  readonly calls: readonly ToolCall[];
}

function assistant({ content, reasoning, calls }: Said): AssistantMessage {
  return {
    role: "assistant",
    ...(content && { content }),
    ...(reasoning && { reasoning }),
    ...(calls.length > 0 && { calls: calls.map(({ id, function: call }) => ({ id, ...argumentsOf(call) })) }),
  };
}

/** JSON text of the members of `message` that cannot be restored from `said`; `undefined` if there are none. */
export function keptOf(message: AssistantMessage, said: Said): string | undefined {
  const read = assistant(said);
  const kept: Record<string, unknown> = {};
  for (const name of ["content", "reasoning", "calls", "metadata"] as const) {
    if (JSON.stringify(message[name]) !== JSON.stringify(read[name])) kept[name] = message[name] ?? null;
  }
  return Object.keys(kept).length > 0 ? JSON.stringify(kept) : undefined;
}

function withKept(read: AssistantMessage, kept: string): AssistantMessage {
  const message: Record<string, unknown> = { ...read };
  try {
    for (const [name, value] of Object.entries(JSON.parse(kept) as object)) {
      if (value === null) delete message[name];
      else message[name] = value;
    }
  } catch {
    // Not written by this module.
    return read;
  }
  return message as unknown as AssistantMessage;
}

function keptIn({ metadata }: Message): string | undefined {
  const kept = (metadata as Record<string, unknown> | null | undefined)?.[KEPT];
  return typeof kept === "string" ? kept : undefined;
}

export function toolCallOf(call: {
  readonly id: string;
  readonly name: string;
  readonly arguments: unknown;
}): ToolCall {
  return {
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: JSON.stringify(call.arguments) ?? "{}" },
  };
}

function argumentsOf(call: ToolCall["function"]): { name: string; arguments: Record<string, unknown> } {
  let read: unknown;
  try {
    read = JSON.parse(call.arguments);
  } catch {
    // A truncated call has no valid arguments.
  }
  return {
    name: call.name,
    arguments: typeof read === "object" && read !== null ? (read as Record<string, unknown>) : {},
  };
}

/** The text of a content, which may consist of parts. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown } | null) => (typeof part?.text === "string" ? part.text : "")).join("");
}
