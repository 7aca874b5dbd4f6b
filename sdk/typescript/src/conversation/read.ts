import type { Interrupt, ToolCall } from "../types.js";

/** A JSON object. */
export type Members = { readonly [name: string]: unknown };

/**
 * A message while it is folded: with whatever members its events give it. Of AG-UI's members, those that streams write have
 * AG-UI's types.
 */
export interface FoldedMessage {
  readonly id: string;
  readonly role: string;
  readonly content?: unknown;
  readonly toolCalls?: readonly ToolCall[];
  readonly toolCallId?: string;
  readonly [member: string]: unknown;
}

/** Thrown for a member of an invalid type: the event is ignored. */
export class Malformed extends Error {}

/** A lone surrogate, which UTF-8 text cannot contain. */
const LONE_HALF = /\p{Surrogate}/gu;

export function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A required string. A text may be cut inside a surrogate pair, and be completed by the next delta. */
export function required(value: unknown): string {
  if (typeof value !== "string") throw new Malformed();
  return value;
}

/** An id, a name or a role: lone surrogates become U+FFFD, as on the server. */
export function word(value: unknown): string {
  return required(value).replace(LONE_HALF, "\ufffd");
}

/** An id, a name or a role that may be absent. */
export function optionalWord(value: unknown): string | undefined {
  return value === undefined ? undefined : word(value);
}

/**
 * A value as the server reads it: lone surrogates become U+FFFD, and a number out of the range of a double (`1e400`, which
 * `JSON.parse` reads as Infinity) becomes null, as in `JSON.stringify`. Returns the same object if there is nothing to
 * change.
 */
export function json(value: unknown): unknown {
  if (typeof value === "string") return word(value);
  if (isBeyondDouble(value)) return null;
  if (Array.isArray(value)) {
    const read = value.map(json);
    return read.every((element, at) => element === value[at]) ? value : read;
  }
  if (!isObject(value)) return value;
  let same = true;
  const read = Object.entries(value).map(([name, member]) => {
    const entry = [word(name), json(member)] as const;
    same &&= entry[0] === name && entry[1] === member;
    return entry;
  });
  return same ? value : Object.fromEntries(read);
}

function isBeyondDouble(value: unknown): boolean {
  return typeof value === "number" && !Number.isFinite(value);
}

/** Count of numbers in a value that are out of the range of a double. */
function beyondDoubles(value: unknown): number {
  if (isBeyondDouble(value)) return 1;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, member) => sum + beyondDoubles(member), 0);
}

/** Count of such numbers in the members of an event that are folded into messages, state and interrupts. */
export function unreadableNumbers(type: string, event: Members): number {
  switch (type) {
    case "STATE_SNAPSHOT":
      return beyondDoubles(event.snapshot);
    case "STATE_DELTA":
      return beyondDoubles(event.delta);
    case "RUN_STARTED":
      return isObject(event.input) ? beyondDoubles(event.input.messages) : 0;
    case "RUN_FINISHED":
      return beyondDoubles(event.outcome);
    case "MESSAGES_SNAPSHOT":
      return beyondDoubles(event.messages) + beyondDoubles(event.metadata);
    case "ACTIVITY_SNAPSHOT":
    case "TOOL_CALL_RESULT":
      return beyondDoubles(event.content) + beyondDoubles(event.metadata);
    case "ACTIVITY_DELTA":
      return beyondDoubles(event.patch) + beyondDoubles(event.metadata);
    default:
      return /^(TEXT|TOOL|REASONING|THINKING)_/.test(type) ? beyondDoubles(event.metadata) : 0;
  }
}

/** Metadata of an event, if it is an object. */
export function metadataOf(value: unknown): Members | undefined {
  if (value === undefined) return undefined;
  const read = json(value);
  if (!isObject(read)) throw new Malformed();
  return read;
}

/** Returns the result of the function, or undefined if it throws `Malformed`. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Malformed) return undefined;
    throw error;
  }
}

/**
 * Reads complete messages. Messages without an `id` or a `role` are left out, as are tool calls without an id, a name or
 * arguments. `null` is treated as absent for optional members, since some producers write it.
 */
export function readMessages(value: unknown): FoldedMessage[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((message) => attempt(() => readMessage(message)) ?? []);
}

function readMessage(value: unknown): FoldedMessage {
  if (!isObject(value)) throw new Malformed();
  const { id, role, content, toolCalls, subagentRunId, ...rest } = value;
  const message: { -readonly [K in keyof FoldedMessage]: FoldedMessage[K] } = {
    id: word(id),
    role: word(role),
    ...(json(rest) as Members),
  };
  if (content !== undefined && content !== null)
    message.content = typeof content === "string" ? content : json(content);
  if (subagentRunId !== undefined && subagentRunId !== null) message.subagentRunId = json(subagentRunId);
  if (toolCalls !== undefined && toolCalls !== null) {
    if (message.role === "assistant") {
      message.toolCalls = Array.isArray(toolCalls)
        ? toolCalls.flatMap((call) => attempt(() => readCall(call)) ?? [])
        : [];
    } else {
      message.toolCalls = json(toolCalls) as ToolCall[];
    }
  }
  return message;
}

function readCall(value: unknown): ToolCall {
  if (!isObject(value) || !isObject(value.function)) throw new Malformed();
  const { id, function: called, ...rest } = value;
  const { name, arguments: given, ...more } = called as Members;
  return {
    ...(json(rest) as { type: "function" }),
    id: word(id),
    function: { ...(json(more) as Members), name: word(name), arguments: required(given) },
  };
}

/** The interrupts that the outcome of a run requests; empty for other outcomes. */
export function readInterrupts(outcome: unknown): Interrupt[] {
  const read = json(outcome);
  if (!isObject(read) || read.type !== "interrupt" || !Array.isArray(read.interrupts)) return [];
  return read.interrupts.filter(isObject).map((interrupt) => {
    const { subagentRunId, ...rest } = interrupt;
    return subagentRunId === null ? rest : interrupt;
  }) as Interrupt[];
}

/** The subagent to which an event is attributed; undefined is the parent agent. */
export function ownerOf(event: Members): string | undefined {
  return optionalWord(event.subagentRunId);
}

/** The role of a streamed text, if it is a permitted one. */
export function textRole(event: Members): string | undefined {
  const role = optionalWord(event.role);
  if (role !== undefined && !["developer", "system", "assistant", "user"].includes(role)) throw new Malformed();
  return role;
}

/** The parent message of a tool call; older producers write `null` for none. */
export function parentOf(event: Members): string | undefined {
  return event.parentMessageId === null ? undefined : optionalWord(event.parentMessageId);
}

/** Merges the metadata of an event, key by key; the last write wins. */
export function mergeMetadata(into: object, metadata: Members | undefined): void {
  if (metadata === undefined) return;
  const target = into as { metadata?: unknown };
  target.metadata = isObject(target.metadata) ? { ...target.metadata, ...metadata } : metadata;
}
