import { escaped } from "../json/tree.ts";

/** Changes that are listed. */
export const MOST_CHANGES = 200;

export interface Change {
  readonly kind: "added" | "removed" | "changed";
  /** A JSON pointer (RFC 6901); empty for the whole. */
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

/** What is different between two values, in the order of the later one; at most one more than are listed. */
export function changes(before: unknown, after: unknown): Change[] {
  const found: Change[] = [];
  const compare = (path: string, before: unknown, after: unknown): void => {
    // What is the same object was not touched.
    if (found.length > MOST_CHANGES || Object.is(before, after)) return;
    if (!isNode(before) || !isNode(after) || Array.isArray(before) !== Array.isArray(after)) {
      found.push({ kind: "changed", path, before, after });
      return;
    }
    const [old, now] = [new Map(Object.entries(before)), new Map(Object.entries(after))];
    for (const [name, value] of now) {
      if (found.length > MOST_CHANGES) return;
      const at = `${path}/${escaped(name)}`;
      if (old.has(name)) compare(at, old.get(name), value);
      else found.push({ kind: "added", path: at, after: value });
    }
    for (const [name, value] of old) {
      if (found.length > MOST_CHANGES) return;
      if (!now.has(name)) found.push({ kind: "removed", path: `${path}/${escaped(name)}`, before: value });
    }
  };
  compare("", before, after);
  return found;
}

function isNode(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
