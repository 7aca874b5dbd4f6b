// Numbers as they are written. JavaScript rounds integers beyond 2^53; what is read here is written again with the digits that it had.

import type { AnyEvent } from "../../untrusted.ts";

/** Of ES2026, which not every browser has yet: there the numbers stay rounded. */
const { parse, rawJSON } = JSON as unknown as {
  parse(
    text: string,
    revive: (name: string, value: unknown, context?: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON?(text: string): unknown;
};

/** Whether there is a number in it that may have been rounded when it was read. */
export function isRounded(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

/** An event whose large integers `JSON.stringify` writes as they are in the JSON. */
export function exactly(json: string): AnyEvent {
  return parse(json, (_, value, context) =>
    typeof value === "number" && isRounded(value) && rawJSON && context?.source ? rawJSON(context.source) : value,
  ) as AnyEvent;
}
