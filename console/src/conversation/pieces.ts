/** Longer texts are laid out in pieces, as these come near to what is in sight. In characters. */
export const LONG = 20_000;
/** Characters of a piece, at least. */
export const PIECE = 4_000;

/** A text in pieces of whole lines. Those of a text that has grown begin as before. Pure. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length;) {
    const end = text.indexOf("\n", from + PIECE);
    const to = end < 0 ? text.length : end + 1;
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}
