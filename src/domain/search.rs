//! Searching threads by their names.
//!
//! The package for TypeScript has the same rule (`sdk/typescript/src/search.ts`), for what the feed brings to a list that is
//! searched; `tests/shared/search.json` is what both are tested with.

use super::limits::MAX_NAME_BYTES;

/// A text that names are searched for, whatever their case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameSearch {
    folded: String,
}

impl NameSearch {
    /// A search for this text, without the white space around it; `None` if nothing is left, or more than a name can have.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (1..=MAX_NAME_BYTES).contains(&text.len()).then(|| Self { folded: fold(text) })
    }

    /// Whether the name has the text somewhere in it.
    pub fn finds(&self, name: &str) -> bool {
        fold(name).contains(&self.folded)
    }
}

/// Unicode's lower case, with one small sigma: which of the two it is depends on what stands behind it, and of that the text
/// that is searched for knows nothing.
fn fold(text: &str) -> String {
    text.to_lowercase().replace('\u{3c2}', "\u{3c3}")
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
        let table = include_str!("../../tests/shared/search.json");
        let cases: Vec<Case> = serde_json::from_str(table).expect("a table");
        assert!(cases.len() > 20);
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
