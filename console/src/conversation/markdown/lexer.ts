import { Lexer, type Token } from "marked";

/** Lists and quotes within each other; deeper ones are shown as they are written. */
const MAX_DEPTH = 16;
/** Marks of emphasis, links and the like in one paragraph. No real text has more; their cost is quadratic in their number or worse. */
const MAX_MARKS = 250;

/** Reads markdown in a time that goes with its length, whatever is in it. */
export class CarefulLexer extends Lexer {
  #depth = 0;

  override blockTokens<T extends Token[]>(src: string, tokens?: T, lastParagraphClipped = false): T {
    if (this.#depth >= MAX_DEPTH) return plain(src, tokens);
    this.#depth += 1;
    try {
      return super.blockTokens(src, tokens, lastParagraphClipped) as T;
    } finally {
      this.#depth -= 1;
    }
  }

  override inlineTokens(src: string, tokens?: Token[]): Token[] {
    const marks = src.match(/[*_~`[\]!<]+/g);
    return (marks?.length ?? 0) > MAX_MARKS ? plain(src, tokens) : super.inlineTokens(src, tokens);
  }
}

function plain<T extends Token[]>(src: string, tokens: T = [] as Token[] as T): T {
  if (src) tokens.push({ type: "plain", raw: src });
  return tokens;
}
