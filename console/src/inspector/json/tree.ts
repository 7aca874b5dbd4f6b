// A value as a tree of rows, of which only those are made that are open.

import { line } from "../events/preview.ts";

/** Rows that are open at first. */
const FIRST_ROWS = 120;

export interface TreeRow {
  /** A JSON pointer (RFC 6901), which is also its name among all rows. */
  readonly path: string;
  readonly depth: number;
  /** Its name in its parent; null for the whole. */
  readonly name: string | null;
  readonly isIndex: boolean;
  readonly value: unknown;
  /** How many members it has; null for what can have none. */
  readonly members: number | null;
  /** Place among its siblings, from 1, and how many they are. */
  readonly place: number;
  readonly siblings: number;
}

/** The rows of a value, where these paths are open. */
export function treeRows(value: unknown, isOpen: (path: string) => boolean): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (row: Omit<TreeRow, "members">) => {
    const { value, path, depth } = row;
    const members = membersOf(value);
    rows.push({ ...row, members: members ? members.length : null });
    if (!members || !isOpen(path)) return;
    const isIndex = Array.isArray(value);
    members.forEach(([name, member], index) =>
      add({
        path: `${path}/${escaped(name)}`,
        depth: depth + 1,
        name,
        isIndex,
        value: member,
        place: index + 1,
        siblings: members.length,
      }),
    );
  };
  add({ path: "", depth: 0, name: null, isIndex: false, value, place: 1, siblings: 1 });
  return rows;
}

/** Which paths are open at first: level by level, as long as there is room. */
export function firstOpen(value: unknown): Set<string> {
  const open = new Set<string>();
  let level: (readonly [string, unknown])[] = [["", value]];
  let rows = 1;
  while (level.length > 0) {
    const next: (readonly [string, unknown])[] = [];
    for (const [path, value] of level) {
      const members = membersOf(value);
      if (!members || rows + members.length > FIRST_ROWS) continue;
      rows += members.length;
      open.add(path);
      for (const [name, member] of members) next.push([`${path}/${escaped(name)}`, member]);
    }
    level = next;
  }
  // However much it is: the whole is not closed.
  return open.add("");
}

/** What stands for a value that is closed. */
export function summary(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[ ${value.length} ]`;
  const names = Object.keys(value as object);
  return names.length === 0 ? "{}" : line(`{ ${names.slice(0, 6).join(", ")}${names.length > 6 ? ", …" : ""} }`);
}

/** A name as it is escaped in a JSON pointer. */
export function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function membersOf(value: unknown): [string, unknown][] | undefined {
  return typeof value === "object" && value !== null ? Object.entries(value) : undefined;
}
