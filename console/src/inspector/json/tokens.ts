// JSON as lines of coloured pieces. It is text all the way: nothing in it is ever markup.

/** Characters of one string that are shown; the rest is there to be copied. */
export const MOST_STRING = 4_000;

export type TokenKind = "key" | "string" | "number" | "word" | "mark" | "cut";

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

export interface Line {
  /** Depth of nesting. */
  readonly depth: number;
  readonly tokens: readonly Token[];
}

/** A text that has no end is the last of what was cut. */
const PIECE = /"(?:[^"\\]|\\.)*(?:"|\\?$)|[[\]{},:]|[^\s[\]{},:"]+/gs;

/**
 * JSON, printed with a member a line. Texts and numbers stand there as they are written: nothing is read and written again, so what is
 * seen is what is stored. Of texts that are very long the beginning is shown.
 */
export function jsonLines(json: string): Line[] {
  const lines: Line[] = [];
  let tokens: Token[] = [];
  let depth = 0;
  let before = "";
  const end = () => {
    lines.push({ depth, tokens });
    tokens = [];
  };
  const pieces = json.match(PIECE) ?? [];
  pieces.forEach((piece, index) => {
    const isOpening = piece === "{" || piece === "[";
    const isClosing = piece === "}" || piece === "]";
    const wasOpening = before === "{" || before === "[";
    if (isClosing) {
      // The line before is the last member's.
      if (!wasOpening) {
        end();
        depth -= 1;
      }
    } else if (wasOpening) {
      end();
      depth += 1;
    } else if (before === ",") {
      end();
    }
    if (isOpening || isClosing || piece === ",") tokens.push({ kind: "mark", text: piece });
    else if (piece === ":") tokens.push({ kind: "mark", text: ": " });
    else if (pieces[index + 1] === ":") tokens.push({ kind: "key", text: piece });
    else tokens.push(...written(piece));
    before = piece;
  });
  end();
  return lines;
}

/** A value without members, as it is written. */
function written(piece: string): Token[] {
  if (!piece.startsWith('"')) return [{ kind: /^[-\d]/.test(piece) ? "number" : "word", text: piece }];
  if (piece.length - 2 <= MOST_STRING) return [{ kind: "string", text: piece }];
  return cut(piece.slice(0, MOST_STRING + 1), piece.length - 2 - MOST_STRING);
}

function cut(shown: string, missing: number): Token[] {
  return [
    { kind: "string", text: shown },
    { kind: "cut", text: `… ${missing.toLocaleString("en")} more characters` },
  ];
}

/** A value without members, in pieces. */
export function scalar(value: unknown): Token[] {
  if (typeof value === "string") {
    if (value.length <= MOST_STRING) return [{ kind: "string", text: JSON.stringify(value) }];
    return cut(JSON.stringify(value.slice(0, MOST_STRING)).slice(0, -1), value.length - MOST_STRING);
  }
  if (typeof value === "number") return [{ kind: "number", text: String(value) }];
  return [{ kind: "word", text: String(value ?? null) }];
}
