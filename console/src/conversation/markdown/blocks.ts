import type { MarkedToken, Token, Tokens } from "marked";
import { LONG, PIECE } from "../pieces.ts";
import { CarefulLexer } from "./lexer.ts";

/** Items of one block: a longer list is several blocks, so that one that grows is not read from its beginning with each token. */
const MAX_ITEMS = 50;

/** A text cut into blocks: paragraphs, lists, code, tables. */
export interface Blocks {
  readonly text: string;
  readonly tokens: readonly Token[];
}

/**
 * The blocks of a text. Of one that has grown since `before` only the end is read again, so that a long answer costs no more with
 * each token; all other blocks are the same objects. A link that is defined after its use shows with the next full reading.
 */
export function blocksOf(given: string, before?: Blocks): Blocks {
  const text = given.replace(/\r\n?/g, "\n");
  if (before && text === before.text) return before;
  const kept = before && text.startsWith(before.text) ? settled(before.tokens) : [];
  // What the lexer has changed in `raw` cannot be found again: then all of it is read.
  if (!isPrefix(kept, text)) return blocksOf(text);
  const lexer = new CarefulLexer({ gfm: true });
  for (const token of kept as readonly MarkedToken[]) if (token.type === "def") lexer.tokens.links[token.tag] ??= token;
  const tokens = lexer.lex(text.slice(kept.reduce((sum, { raw }) => sum + raw.length, 0)));
  return { text, tokens: [...kept, ...tokens.flatMap(pieces)] };
}

/**
 * The blocks that a text begins with, and those that follow, in parts that are laid out together. Those of a text that has grown
 * begin as before. A heading begins a part or is within one: it belongs to the text that follows.
 */
export function partsOf(tokens: readonly Token[]): {
  readonly near: readonly Token[];
  readonly far: readonly (readonly Token[])[];
} {
  const far: Token[][] = [];
  const near: Token[] = [];
  let [part, size, before] = [near, 0, ""];
  for (const token of tokens) {
    const isFull = size >= (part === near ? LONG : PIECE);
    if (isFull && token.type !== "space" && before !== "heading") {
      far.push((part = []));
      size = 0;
    }
    part.push(token);
    size += token.raw.length;
    if (token.type !== "space") before = token.type;
  }
  return { near, far };
}

/** A list in pieces that follow each other; any other block as it is. */
function pieces(token: Token): readonly Token[] {
  if (token.type !== "list") return [token];
  const list = token as Tokens.List;
  const isWhole = list.items.map(({ raw }) => raw).join("") === list.raw;
  if (list.items.length <= MAX_ITEMS || !isWhole) return [token];
  return Array.from({ length: Math.ceil(list.items.length / MAX_ITEMS) }, (_, at) => {
    const items = list.items.slice(at * MAX_ITEMS, (at + 1) * MAX_ITEMS);
    const start: number | "" = list.ordered ? Number(list.start) + at * MAX_ITEMS : "";
    return { ...list, items, start, raw: items.map(({ raw }) => raw).join("") };
  });
}

/** All blocks but the last: more text can change only that. */
function settled(tokens: readonly Token[]): readonly Token[] {
  const last = tokens.findLastIndex(({ type }) => type !== "space");
  return tokens.slice(0, Math.max(0, last));
}

function isPrefix(tokens: readonly Token[], text: string): boolean {
  let at = 0;
  for (const { raw } of tokens) {
    if (!text.startsWith(raw, at)) return false;
    at += raw.length;
  }
  return true;
}
