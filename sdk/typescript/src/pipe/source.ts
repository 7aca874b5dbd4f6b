// Parts that the mappings of all streams share.

import { messageOf } from "../errors.js";
import { toJson } from "../json.js";
import { MAX_UNMAPPED_CHARS } from "../limits.js";
import type { Interrupt, NewEvent } from "../types.js";

/** An item of a stream: an object of any shape, since streams come from other packages and their later versions. */
export type Item = { readonly [member: string]: unknown };

/** The mapping of one stream to AG-UI's events. Items are passed in order. */
export interface Source {
  /** The questions of the stream, which end the run after it. */
  readonly interrupts: readonly Interrupt[];
  /** Events of an item; undefined if the item is not known. Throws `StreamFailed` for an error in the stream. */
  of(item: Item): NewEvent[] | undefined;
  /** Events at the end of the stream: they end what it has left open. */
  last(): NewEvent[];
}

/** An error that a stream has reported. */
export class StreamFailed extends Error {
  override readonly name = "StreamFailed";
}

/** The failure that an item of a stream describes: an error, an object with a message, or a text. */
export function failed(error: unknown): StreamFailed {
  const message = error instanceof Error ? messageOf(error) : isItem(error) ? textOf(error["message"]) : textOf(error);
  return new StreamFailed(message || `the stream has failed: ${toJson(kept(error))}`, { cause: error });
}

export function event(type: string, members: Item): NewEvent {
  return { type, ...members } as NewEvent;
}

export function custom(name: string, value: unknown): NewEvent {
  return event("CUSTOM", { name, value: kept(value) });
}

/** A value as an event can have it: one that is no JSON, or too large for an event, is only named. */
export function kept(value: unknown): unknown {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // Circular, or with a BigInt.
  }
  if (text !== undefined && text.length <= MAX_UNMAPPED_CHARS) return value;
  if (value === undefined) return null;
  return { ...(isItem(value) && { type: value["type"] }), truncated: true };
}

export function isItem(value: unknown): value is Item {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A string; empty for any other value. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Id of a stream's, which may be a number. */
export function keyOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** The result of a call: a string as it is, any other value as JSON text. */
export function resultText(value: unknown): string {
  return typeof value === "string" ? value : toJson(kept(value ?? null));
}
