// The exact value of an AgentResult, stored in the log in addition to the events for other readers.

import { AgentResult, type Message, type ToolResultMessage } from "@inngest/agent-kit";
import { RESULT_DEPTH, RESULT_PART_CHARS } from "../limits.js";
import type { AgUiEvent, ThreadEvent } from "../types.js";

/** Name of the CUSTOM events that hold an AgentResult. */
const RESULT = "agentkit.result";

/** Data from which an AgentResult is restored. Its `history` is not stored, since the thread contains it. */
export interface ResultRecord {
  readonly id?: string;
  readonly agentName: string;
  readonly output: Message[];
  readonly toolCalls: ToolResultMessage[];
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly prompt?: Message[];
  readonly raw?: string;
}

/** A result with its key, which is unique in the thread and the same however often the result is saved. */
export interface KeyedResult {
  readonly key: string;
  readonly result: AgentResult;
}

/** Encodes a result as one CUSTOM event, or as several if it is large or deeply nested. */
export function recordEvents({ key, result }: KeyedResult): AgUiEvent[] {
  const text = jsonText(recordOf(result));
  if (text.length <= RESULT_PART_CHARS && depthOf(text) <= RESULT_DEPTH) {
    return [{ type: "CUSTOM", name: RESULT, value: { key, result: JSON.parse(text) as ResultRecord } }];
  }
  const parts = Math.ceil(text.length / RESULT_PART_CHARS);
  return Array.from({ length: parts }, (_, part) => ({
    type: "CUSTOM",
    name: RESULT,
    value: { key, part, parts, json: text.slice(part * RESULT_PART_CHARS, (part + 1) * RESULT_PART_CHARS) },
  }));
}

/** Decodes records from their events. The parts of a record may arrive in any order. */
export class Records {
  readonly #parts = new Map<string, string[]>();

  /** Returns the record that this event completes, if there is one. */
  add(event: ThreadEvent): { readonly key: string; readonly record: ResultRecord } | undefined {
    if (event.type !== "CUSTOM" || event.name !== RESULT) return undefined;
    const value = event.value as {
      key: string;
      result?: ResultRecord;
      part: number;
      parts: number;
      json: string;
    };
    if (value.result) return { key: value.key, record: value.result };
    const parts = this.#parts.get(value.key) ?? [];
    this.#parts.set(value.key, parts);
    parts[value.part] = value.json;
    for (let part = 0; part < value.parts; part += 1) if (parts[part] === undefined) return undefined;
    this.#parts.delete(value.key);
    return { key: value.key, record: JSON.parse(parts.join("")) as ResultRecord };
  }
}

/** Creates an AgentResult, of the package's own class. */
export function resultOf(record: ResultRecord): AgentResult {
  const { agentName, output, toolCalls, createdAt, prompt, raw, id } = record;
  return new AgentResult(agentName, output, toolCalls, new Date(createdAt), prompt, undefined, raw, id);
}

/**
 * The key of a result without an id, derived from its content. AgentKit's checksum is not used, since it is equal for equal
 * texts of the same second.
 */
export async function contentKey(result: AgentResult): Promise<string> {
  const { agentName, createdAt, output, toolCalls } = recordOf(result);
  return digest(jsonText([agentName, createdAt, output, toolCalls]));
}

/** SHA-256 in hexadecimal. */
export async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** JSON text, also for values returned by tools that JSON cannot represent. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === "bigint" ? String(each) : each)) ?? "null";
}

function recordOf(result: AgentResult): ResultRecord {
  const { id, agentName, output, toolCalls, createdAt, prompt, raw } = result;
  return {
    ...(id !== undefined && { id }),
    agentName,
    output,
    toolCalls,
    createdAt: createdAt.getTime(),
    ...(prompt && { prompt }),
    ...(raw !== undefined && { raw }),
  };
}

/** The nesting depth of a JSON text. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, (depth += 1));
    else if (token === "]" || token === "}") depth -= 1;
  }
  return deepest;
}
