/**
 * True if a name contains the text, ignoring case and accents. The rule is that of the server
 * (`crates/core/src/search.rs`), and is applied to changes that arrive after the server's response. Both are tested with
 * `tests/shared/search.json`.
 */
export function isFound(name: string | null, search: string): boolean {
  return name !== null && fold(name).includes(fold(trimmed(search)));
}

/** The text without surrounding white space, as defined by Unicode and the server: `trim` differs slightly. */
export function trimmed(search: string): string {
  return search.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, "");
}

/**
 * Marks that are ignored: those of Latin, Greek and Cyrillic (without those that strike out a sign, as in ≠), the points of
 * Hebrew, the vowels of Arabic, and variation selectors.
 */
const ACCENTS =
  /[\u0300-\u0333\u0339-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0652\u0670\ufe00-\ufe0f]+/gu;

/** Accented letters that Unicode does not decompose, ligatures, and one of the two small sigmas. */
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
 * The text in the form used for comparison: lower case, normalized, without accents. Marks that make a different letter are
 * kept: か is not found in が.
 */
function fold(text: string): string {
  const lower = text.normalize("NFKD").toLowerCase();
  const bare = lower.replace(ACCENTS, "").replace(/[ςıłøđħŧßæœ]/g, (letter) => LETTERS[letter] ?? letter);
  // A text of nothing but accents is kept, since an empty text would match every name.
  return (bare || lower).normalize("NFC");
}
