//! Search for threads by their names.
//!
//! The package for TypeScript has the same rule (`sdk/typescript/src/search.ts`), for threads that the feed adds to a
//! searched list; both are tested with `tests/shared/search.json`.

use unicode_normalization::{IsNormalized, UnicodeNormalization, char::decompose_compatible, is_nfc_quick};

use super::limits::MAX_NAME_BYTES;

/// Text that names are searched for, regardless of case and accents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameSearch {
    folded: String,
}

impl NameSearch {
    /// Makes a search for this text, without the white space around it; `None` if no text is left, or more than a name
    /// can have.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (1..=MAX_NAME_BYTES).contains(&text.len()).then(|| Self { folded: fold(text) })
    }

    /// True if the name contains the text.
    pub fn finds(&self, name: &str) -> bool {
        fold(name).contains(&self.folded)
    }
}

/// Form of a text that is compared: Unicode's lower case, in one form of all that are equivalent (full width,
/// ligatures, decomposed letters), without the accents that people leave out when they search. Marks that make another
/// letter stay, as those of Indic scripts, of Thai and of kana do, and are composed with it in the end: か is not found
/// in が, nor 하 in 한.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut apart = String::with_capacity(2 * text.len());
    for c in text.chars() {
        match c {
            // Kana, Han and Hangul would be decomposed only to be composed again, or not at all.
            '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => {
                apart.push(c)
            }
            c => decompose_compatible(c, |c| apart.push(c)),
        }
    }
    let lower = apart.to_lowercase();
    let mut folded = String::with_capacity(lower.len());
    for c in lower.chars() {
        match c {
            c if is_accent(c) => {}
            // The form of a sigma depends on the letter after it, which a search does not know.
            'ς' => folded.push('σ'),
            // Accented letters that Unicode does not decompose, and letters that stand for two.
            'ı' => folded.push('i'),
            'ł' => folded.push('l'),
            'ø' => folded.push('o'),
            'đ' => folded.push('d'),
            'ħ' => folded.push('h'),
            'ŧ' => folded.push('t'),
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            c => folded.push(c),
        }
    }
    // A text of accents alone keeps them: without them every name would be found.
    let folded = if folded.is_empty() { lower } else { folded };
    // Composition puts marks in order as well.
    if is_nfc_quick(folded.chars()) == IsNormalized::Yes { folded } else { folded.nfc().collect() }
}

/// True for a mark that may be left out.
fn is_accent(c: char) -> bool {
    matches!(c,
        // Marks of Latin, Greek and Cyrillic, without those that strike out a sign: ≠
        '\u{300}'..='\u{333}' | '\u{339}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{fe20}'..='\u{fe2f}'
        // Points of Hebrew, and vowels of Arabic
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}'
        | '\u{64b}'..='\u{652}' | '\u{670}'
        // Variation selectors, which say how a sign is drawn
        | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        search: String,
        found: bool,
    }

    #[test]
    fn names_are_found_as_the_table_says() {
        let table = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/shared/search.json"));
        let cases: Vec<Case> = serde_json::from_str(table).expect("a table");
        assert!(cases.len() > 80);
        for Case { name, search, found } in cases {
            let asked = NameSearch::new(&search).expect("a search");
            assert_eq!(asked.finds(&name), found, "{search:?} in {name:?}");
        }
    }

    #[test]
    fn a_search_has_something_to_look_for_and_no_more_than_a_name() {
        for none in ["", " ", "\t\u{a0}\u{2003}\u{85}"] {
            assert_eq!(NameSearch::new(none), None, "{none:?}");
        }
        let long = "ä".repeat(MAX_NAME_BYTES / 2);
        assert!(NameSearch::new(&format!(" {long} ")).is_some_and(|search| search.finds(&long.to_uppercase())));
        assert_eq!(NameSearch::new(&format!("{long}x")), None);
    }
}
