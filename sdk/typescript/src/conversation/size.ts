import { isObject } from "./read.js";

/** Approximate size of a value as JSON text, in bytes. */
export function size(value: unknown): number {
  if (typeof value === "string") return utf8Bytes(value) + 3;
  if (Array.isArray(value)) return value.reduce((sum: number, element) => sum + size(element), 3);
  if (!isObject(value)) return 5;
  return Object.entries(value).reduce((sum, [name, member]) => sum + utf8Bytes(name) + 3 + size(member), 3);
}

/** Length of a text in UTF-8, in bytes. */
export function utf8Bytes(text: string): number {
  let sum = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // A surrogate pair takes four bytes, so each half counts as two.
    if (unit >= 0x80) sum += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return sum;
}
