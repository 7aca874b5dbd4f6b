// JSON Patch (RFC 6902), applied atomically, by the same rules and with the same limits as on the server, since patches
// come from untrusted sources.

import { MAX_JSON_DEPTH, MAX_STATE_BYTES, PATCH_WORK } from "../limits.js";
import type { Drafts } from "./drafts.js";
import { attempt, isObject, json, Malformed } from "./read.js";
import { size, utf8Bytes } from "./size.js";

/** The work budget for the patches of a conversation. */
export class Purse {
  /**
   * Remaining work beyond the patches' own length: shifted array elements, and bytes that are copied or moved deeper. One
   * operation may overdraw it.
   */
  work = PATCH_WORK;
  /** Number of patches that could not be applied. Such a patch has no effect at all. */
  skipped = 0;
}

type Path = readonly string[];
type Branch = { [name: string]: unknown };

/**
 * Sizes of documents that patches have produced, so that the cost of a patch depends on its changes and not on the size of
 * the document.
 */
const sizes = new WeakMap<object, number>();

/**
 * Applies all operations to `holder.document`, or none of them and returns false. Operations unknown to RFC 6902 are
 * skipped. At most `mayCopy` bytes are copied; `copied` receives their number.
 */
export function patch(
  holder: { document: unknown },
  operations: unknown,
  drafts: Drafts,
  purse: Purse,
  mayCopy = MAX_STATE_BYTES,
  copied: (bytes: number) => void = () => {},
): boolean {
  const patcher = new Patcher(holder, drafts, purse, mayCopy);
  const done = attempt(() => {
    const read = json(operations);
    if (!Array.isArray(read)) throw new Malformed();
    for (const operation of read) patcher.operation(operation);
    copied(patcher.finish());
    return true;
  });
  if (!done) {
    patcher.undo();
    purse.skipped += 1;
  }
  return done ?? false;
}

class Patcher {
  /** Wraps the document as a member, so that its root is addressed like any other value. */
  readonly #holder: Branch;
  readonly #drafts: Drafts;
  readonly #purse: Purse;
  readonly #mayCopy: number;
  readonly #before: number;
  /** Growth of the document, and the amount of inserted data. */
  #grown = 0;
  #added = 0;
  #copied = 0;
  readonly #undo: (() => unknown)[] = [];

  constructor(holder: { document: unknown }, drafts: Drafts, purse: Purse, mayCopy: number) {
    this.#holder = holder;
    this.#drafts = drafts;
    this.#purse = purse;
    this.#mayCopy = mayCopy;
    this.#before = this.#size() ?? size(holder.document);
    this.#size(this.#before);
  }

  /** Returns the number of copied bytes. */
  finish(): number {
    const now = Math.max(0, this.#before + this.#grown);
    if (now > MAX_STATE_BYTES && now > this.#before) throw new Malformed();
    this.#size(now);
    return this.#copied;
  }

  undo(): void {
    for (const step of this.#undo.reverse()) step();
  }

  operation(operation: unknown): void {
    if (!isObject(operation)) throw new Malformed();
    const { op, value } = operation;
    if (!["add", "remove", "replace", "move", "copy", "test"].includes(op as string)) return;
    const path = pointer(operation.path);
    if (op === "remove") {
      if (path.length === 1) this.#addNew(path, null);
      // Taking counts as well: its count comes first.
      else this.#grown = -size(this.#take(path)) + this.#grown;
    } else if (op === "move") {
      this.#move(pointer(operation.from), path);
    } else if (op === "copy") {
      this.#copy(pointer(operation.from), path);
    } else if (value === undefined) {
      throw new Malformed();
    } else if (op === "add") {
      this.#addNew(path, value);
    } else if (op === "test") {
      if (!equal(this.#find(path), value)) throw new Malformed();
    } else {
      withinDepth(path, value);
      this.#find(path);
      this.#put(path, value, size(value));
    }
  }

  #move(from: Path, path: Path): void {
    const value = this.#find(from);
    if (equal(from, path)) return;
    this.#take(from);
    if (path.length > from.length) {
      this.#solvent();
      withinDepth(path, value);
      this.#purse.work -= size(value);
    }
    this.#add(path, value, 0, true);
  }

  #copy(from: Path, path: Path): void {
    this.#solvent();
    const value = this.#find(from);
    const copied = size(value);
    this.#purse.work -= copied;
    this.#copied += copied;
    const most = Math.max(this.#before + this.#added + copied - 2 * MAX_STATE_BYTES, this.#copied - this.#mayCopy);
    if (most > 0) throw new Malformed();
    this.#drafts.share(value);
    this.#addNew(path, value, true);
  }

  #addNew(path: Path, value: unknown, lax = false): void {
    withinDepth(path, value);
    this.#add(path, value, size(value), lax);
  }

  /** Adds a value. With `lax`, as in copies and moves, an index after the end of an array means its end. */
  #add(path: Path, value: unknown, added: number, lax: boolean): void {
    const [parent, last] = this.#parent(path);
    if (!Array.isArray(parent)) {
      return this.#put(path, value, added + (Object.hasOwn(parent, last) ? 0 : utf8Bytes(last) + 3));
    }
    let at = last === "-" ? parent.length : last === "" ? 0 : /^\d+$/.test(last) ? Number(last) : Number.NaN;
    if (lax) at = Math.min(at, parent.length);
    if (!(at === parent.length || (at < parent.length && this.#purse.work > 0))) throw new Malformed();
    this.#purse.work -= parent.length - at;
    this.#count(added);
    this.#undo.push(() => parent.splice(at, 1));
    parent.splice(at, 0, value);
  }

  /** Sets a value, which may replace another one. */
  #put(path: Path, value: unknown, added: number): void {
    const [parent, last] = this.#parent(path);
    if (Object.hasOwn(parent, last)) this.#grown -= size(parent[last]);
    this.#count(added);
    this.#set(parent, last, value);
  }

  #count(added: number): void {
    this.#added += added;
    this.#grown += added;
  }

  /** Removes a value from its parent. */
  #take(path: Path): unknown {
    const value = this.#find(path);
    if (path.length === 1) throw new Malformed();
    const [parent, last] = this.#parent(path);
    if (Array.isArray(parent)) {
      const at = Number(last);
      const shifted = parent.length - at - 1;
      if (shifted > 0) this.#solvent();
      this.#purse.work -= shifted;
      this.#undo.push(() => parent.splice(at, 0, value));
      parent.splice(at, 1);
    } else {
      this.#grown -= utf8Bytes(last) + 3;
      this.#undo.push(() => (parent[last] = value));
      delete parent[last];
    }
    return value;
  }

  #find(path: Path): unknown {
    return path.reduce(child, this.#holder);
  }

  /** The parent array or object of a path, for writing, and the last segment of the path. */
  #parent(path: Path): [Branch, string] {
    let parent = this.#holder;
    for (const token of path.slice(0, -1)) {
      const below = child(parent, token);
      if (!isBranch(below)) throw new Malformed();
      const draft = this.#drafts.of(below);
      if (draft !== below) this.#set(parent, token, draft);
      parent = draft;
    }
    return [parent, path.at(-1) as string];
  }

  #set(parent: Branch, token: string, value: unknown): void {
    const [had, old] = [Object.hasOwn(parent, token), parent[token]];
    this.#undo.push(() => (had ? (parent[token] = old) : delete parent[token]));
    parent[token] = value;
  }

  #solvent(): void {
    if (this.#purse.work <= 0) throw new Malformed();
  }

  #size(now?: number): number | undefined {
    const { document } = this.#holder;
    if (!isBranch(document)) return undefined;
    if (now !== undefined) sizes.set(document, now);
    return sizes.get(document);
  }
}

/** True if two values are the same JSON. */
export function equal(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (!isBranch(one) || !isBranch(other) || Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && equal(one[name], other[name]))
  );
}

function isBranch(value: unknown): value is Branch {
  return typeof value === "object" && value !== null;
}

function child(value: unknown, token: string): unknown {
  const isThere = isBranch(value) && Object.hasOwn(value, token);
  if (!isThere || (Array.isArray(value) && !/^\d+$/.test(token))) throw new Malformed();
  return value[token];
}

/** Limits the depth of a document to that of an event. */
function withinDepth(path: Path, value: unknown): void {
  if (path.length - 1 + depth(value) >= MAX_JSON_DEPTH) throw new Malformed();
}

function depth(value: unknown): number {
  if (!isBranch(value)) return 0;
  return 1 + Object.values(value).reduce((deepest: number, below) => Math.max(deepest, depth(below)), 0);
}

/** The segments of a pointer, from the holder. Names that would access a prototype are refused. */
function pointer(text: unknown): Path {
  if (typeof text !== "string" || /^[^/]|~(?![01])/.test(text)) throw new Malformed();
  const tokens = text
    .split("/")
    .slice(1)
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
  const reaches = (token: string, at: number) =>
    token === "__proto__" || (token === "prototype" && tokens[at - 1] === "constructor");
  if (tokens.length > MAX_JSON_DEPTH || tokens.some(reaches)) throw new Malformed();
  return ["document", ...tokens];
}
