// Kinds of streams, told by the shapes of their items.

import type { Item } from "./source.js";

export type Kind = "ag-ui" | "ui-chunks" | "text-parts" | "openai-chat" | "openai-responses";

/** Items of the AI SDK that only a full stream has. */
const OF_PARTS = /^(tool-(call|result|error|input-end)|raw|source)$/;
/** Items of the AI SDK that only a UI message stream has. */
const OF_CHUNKS =
  /^(data-.*|message-metadata|tool-input-(available|error)|tool-output-(available|error)|source-(url|document)|reset-step)$/;
/** Items that both of them have. */
const OF_BOTH =
  /^(start|finish|start-step|finish-step|(text|reasoning)-(start|end)|abort|custom|ping|steering-message|tool-output-denied|tool-approval-response)$/;
/** Items that differ by a member, which the full stream has. */
const MEMBERS: Readonly<Record<string, string>> = {
  "text-delta": "text",
  "reasoning-delta": "text",
  "start-step": "request",
  "tool-input-start": "id",
  "tool-input-delta": "id",
  "tool-approval-request": "toolCall",
  file: "file",
  "reasoning-file": "file",
  error: "error",
};

/** The kind of an item; `either` if both kinds of the AI SDK have it; undefined if no kind has it. */
export function kindOf(item: Item): Kind | "either" | undefined {
  const { type, choices, object } = item;
  if (Array.isArray(choices) || object === "chat.completion.chunk") return "openai-chat";
  // The error with which an endpoint answers in place of chunks.
  if (typeof type !== "string") return typeof item["error"] === "object" && item["error"] ? "openai-chat" : undefined;
  if (/^[A-Z]+(_[A-Z]+)*$/.test(type)) return isAgUi(type) ? "ag-ui" : undefined;
  if (type.startsWith("response.")) return "openai-responses";
  if (type === "error" && !("error" in item) && !("errorText" in item)) return "openai-responses";
  if (OF_PARTS.test(type)) return "text-parts";
  if (OF_CHUNKS.test(type)) return "ui-chunks";
  const member = MEMBERS[type];
  if (member !== undefined) return member in item ? "text-parts" : "ui-chunks";
  return OF_BOTH.test(type) ? "either" : undefined;
}

/** True for the types of AG-UI's events. */
export function isAgUi(type: string): boolean {
  return /^(RUN|TEXT_MESSAGE|TOOL_CALL|REASONING|THINKING|STATE|STEP|ACTIVITY|MESSAGES|SUBAGENT)_|^(RAW|CUSTOM)$/.test(
    type,
  );
}
