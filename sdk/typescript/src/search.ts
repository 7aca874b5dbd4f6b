/**
 * Whether a name has a text somewhere in it, whatever the case: the rule of the server (`src/domain/search.rs`), for what comes
 * after its answer. Both are tested with `tests/shared/search.json`.
 */
export function isFound(name: string | null, search: string): boolean {
  return name !== null && fold(name).includes(fold(trimmed(search)));
}

/** Without the white space around it, as Unicode and the server have it: `trim` has a little more, and a little less. */
export function trimmed(search: string): string {
  return search.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");
}

/** Unicode's lower case, with one small sigma: which of the two it is depends on what stands behind it. */
function fold(text: string): string {
  return text.toLowerCase().replaceAll("\u03c2", "\u03c3");
}
