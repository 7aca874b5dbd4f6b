//! Words that a search looks for in the texts of values.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::limits::{MAX_KV_QUERY_BYTES, MAX_KV_WORDS};

/// Cost of the comparison with a text in addition to the bytes of the text.
const TEXT_BYTES: usize = 64;

/// Reason for which a query is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// The text is too long.
    #[error("query has {0} bytes, but at most {MAX_KV_QUERY_BYTES}")]
    Bytes(usize),
    /// The text has too many words.
    #[error("query has {0} different words, but at most {MAX_KV_WORDS}")]
    Words(usize),
}

/// Words that a search looks for in the texts of a value, in any case.
#[derive(Debug, Clone)]
pub struct KvWords(Vec<String>);

impl KvWords {
    /// Words of a query; `None` if it has none.
    pub fn new(query: &str) -> Result<Option<Self>, InvalidQuery> {
        if query.len() > MAX_KV_QUERY_BYTES {
            return Err(InvalidQuery::Bytes(query.len()));
        }
        let words = query.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: BTreeSet<String> = words.map(str::to_lowercase).collect();
        match words.len() {
            0 => Ok(None),
            1..=MAX_KV_WORDS => Ok(Some(Self(words.into_iter().collect()))),
            count => Err(InvalidQuery::Words(count)),
        }
    }

    /// Begins to compare the words with the texts of a value. Names of members are no texts.
    pub fn compare(&self, value: &Value) -> Comparison<'_> {
        let mut comparison = Comparison { words: &self.0, at: 0, found: 0, texts: Vec::new(), bytes: 0 };
        comparison.add(value);
        comparison
    }
}

/// Comparison of words with the texts of a value, which takes time by the product of both, and is done in parts.
#[derive(Debug)]
pub struct Comparison<'w> {
    words: &'w [String],
    /// Words that are compared.
    at: usize,
    found: usize,
    /// Texts of the value, in lower case.
    texts: Vec<String>,
    /// Cost of the comparison of all texts with one word, in bytes.
    bytes: usize,
}

impl Comparison<'_> {
    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.bytes += text.len() + TEXT_BYTES;
                self.texts.push(text.to_lowercase());
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => members.values().for_each(|member| self.add(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Compares the next words, at least one, up to a cost of about this many bytes. Returns what was spent; `None` if no word is left.
    pub fn go_on(&mut self, bytes: usize) -> Option<usize> {
        let rest = self.words.get(self.at..).filter(|rest| !rest.is_empty())?;
        let count = (bytes / self.bytes.max(1)).clamp(1, rest.len());
        let is_found = |word: &&String| self.texts.iter().any(|text| text.contains(word.as_str()));
        self.found += rest[..count].iter().filter(is_found).count();
        self.at += count;
        Some(count * self.bytes)
    }

    /// Cost of the rest of the comparison, in bytes.
    pub fn rest(&self) -> usize {
        self.bytes * (self.words.len() - self.at)
    }

    /// Share of the words that were found, from 0 to 1.
    pub fn score(&self) -> f64 {
        self.found as f64 / self.words.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(query: &str) -> KvWords {
        KvWords::new(query).expect("a query").expect("words")
    }

    #[test]
    fn the_score_is_the_share_of_the_words_found() {
        let value = json!({ "text": "Ann likes GREEN tea", "tags": ["drinks"], "oolong": 1 });
        let score = |query: &str| {
            let words = words(query);
            let mut comparison = words.compare(&value);
            while comparison.go_on(1).is_some() {}
            comparison.score()
        };
        assert_eq!(["green", "tea, Drinks", "green coffee", "oolong"].map(score), [1.0, 1.0, 0.5, 0.0]);
        assert!(matches!(KvWords::new(" ,. "), Ok(None)));
    }

    #[test]
    fn a_query_is_bounded() {
        let many = |count: usize| (0..count).map(|n| format!("w{n} W{n}")).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&many(MAX_KV_WORDS)).0.len(), MAX_KV_WORDS, "a word that occurs twice counts once");
        assert_eq!(KvWords::new(&many(MAX_KV_WORDS + 1)).err(), Some(InvalidQuery::Words(MAX_KV_WORDS + 1)));
        assert_eq!(words(&"x".repeat(MAX_KV_QUERY_BYTES)).0.len(), 1);
        let long = "x ".repeat(MAX_KV_QUERY_BYTES / 2 + 1);
        assert_eq!(KvWords::new(&long).err(), Some(InvalidQuery::Bytes(MAX_KV_QUERY_BYTES + 2)));
    }

    #[test]
    fn a_comparison_is_cut_by_its_cost() {
        let (query, value) = (words("a b c d e"), json!(["a", "e".repeat(1_000 - 2 * TEXT_BYTES - 1)]));
        let parts = |bytes: usize| {
            let mut comparison = query.compare(&value);
            assert_eq!(comparison.rest(), 5_000);
            let parts: Vec<usize> = std::iter::from_fn(|| comparison.go_on(bytes)).collect();
            (parts, comparison.score())
        };
        assert_eq!(parts(2_999), (vec![2_000, 2_000, 1_000], 0.4));
        assert_eq!(parts(0), (vec![1_000; 5], 0.4), "a part has at least one word");
        assert_eq!(parts(usize::MAX), (vec![5_000], 0.4));
    }
}
