/**
 * Finds a text in a name, ignoring case and accents: the rule of the server (`crates/core/src/search.rs`),
 * for what comes after its answer. Both are tested with `tests/shared/search.json`.
 */
export function isFound(name: string | null, search: string): boolean {
  return name !== null && fold(name).includes(fold(trimmed(search)));
}

/** Without the white space around it, as Unicode and the server have it: `trim` has a little more, and a little less. */
export function trimmed(search: string): string {
  return search.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");
}

/**
 * Marks that may be left out: those of Latin, Greek and Cyrillic (without what strikes out a sign, as in ≠), the points of Hebrew,
 * the vowels of Arabic, and how a sign is to be drawn.
 */
const ACCENTS =
  /[\u0300-\u0333\u0339-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0652\u0670\ufe00-\ufe0f]+/gu;

/** Letters with an accent that Unicode does not take apart, those that stand for two, and one of the two small sigmas. */
const LETTERS: Readonly<Record<string, string>> = {
  ς: "σ",
  ı: "i",
  ł: "l",
  ø: "o",
  đ: "d",
  ħ: "h",
  ŧ: "t",
  ß: "ss",
  æ: "ae",
  œ: "oe",
};

/**
 * What is compared: lower case, in one form of all those that say the same, without accents. Marks that make another letter stay:
 * か is not found in が.
 */
function fold(text: string): string {
  const lower = text.normalize("NFKD").toLowerCase();
  const bare = lower.replace(ACCENTS, "").replace(/[ςıłøđħŧßæœ]/g, (letter) => LETTERS[letter] ?? letter);
  // Accents that stand on nothing are all that there is: without them every name would be found.
  return (bare || lower).normalize("NFC");
}
