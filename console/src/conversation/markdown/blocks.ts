import { CarefulLexer } from "./lexer.ts";
import type { MarkedToken, Token } from "marked";

/** Longer texts are shown as they are: what is read as markdown must not keep the page busy. */
export const MAX_MARKDOWN = 100_000;

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
  if (text.length > MAX_MARKDOWN) return { text, tokens: [{ type: "plain", raw: text }] };
  const kept = before && text.startsWith(before.text) ? settled(before.tokens) : [];
  // What the lexer has changed in `raw` cannot be found again: then all of it is read.
  if (!isPrefix(kept, text)) return blocksOf(text);
  const lexer = new CarefulLexer({ gfm: true });
  for (const token of kept as readonly MarkedToken[]) if (token.type === "def") lexer.tokens.links[token.tag] ??= token;
  const tokens = lexer.lex(text.slice(kept.reduce((sum, { raw }) => sum + raw.length, 0)));
  return { text, tokens: [...kept, ...tokens] };
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
