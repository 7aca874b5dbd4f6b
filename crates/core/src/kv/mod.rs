//! Key-value entries: values that agents keep by namespace and key, beside all threads.

use serde_json::value::RawValue;

use super::{
    ProjectId, Timestamp, UserId,
    agent_data::row_size,
    json,
    limits::{
        MAX_JSON_DEPTH, MAX_KV_KEY_BYTES, MAX_KV_LABEL_BYTES, MAX_KV_LABELS, MAX_KV_NAMESPACE_BYTES, MAX_KV_TAG_BYTES,
        MAX_KV_VALUE_BYTES,
    },
};

mod decimal;
mod matching;
mod words;

pub use matching::{InvalidFilter, KvFilter, LabelPattern, NamespaceMatch, Wanted, members_of};
pub use words::{Comparison, InvalidQuery, KvWords};

/// End of each label in the stored form of a namespace. Less than every character of a label, so that the order of the stored
/// forms is that of the lists of labels.
const END: char = '\u{1f}';
/// First character that is not below a namespace: the one after [`END`].
const BEYOND: char = '\u{20}';

/// Beginning of a first label under which the server keeps entries of its own.
pub const RESERVED_LABEL: &str = "threadline.";

/// Reason for which an entry is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The namespace has too many labels.
    #[error("a namespace has at most {MAX_KV_LABELS} labels, and this one has {0}")]
    Labels(usize),
    /// A label is empty or too long, or holds a control character.
    #[error(
        "a label of a namespace has 1 to {MAX_KV_LABEL_BYTES} bytes and no control characters; {0:?} has {1} bytes"
    )]
    Label(String, usize),
    /// The namespace is too long as a whole.
    #[error(
        "the labels of a namespace have at most {MAX_KV_NAMESPACE_BYTES} bytes, with one more for each label; these have {0}"
    )]
    Namespace(usize),
    /// The key is empty or too long, or holds a control character.
    #[error("a key has 1 to {MAX_KV_KEY_BYTES} bytes and no control characters; {0:?} has {1} bytes")]
    Key(String, usize),
    /// The tag is empty or too long, or holds a control character.
    #[error("a tag has 1 to {MAX_KV_TAG_BYTES} bytes and no control characters; {0:?} has {1} bytes")]
    Tag(String, usize),
    /// The value is too large.
    #[error("a value has at most {MAX_KV_VALUE_BYTES} bytes of JSON, and this one has {0}")]
    Value(usize),
    /// The value is nested too deeply.
    #[error("a value has at most {MAX_JSON_DEPTH} levels")]
    Depth,
}

/// True for a text of 1 to `most` bytes without control characters.
pub(crate) fn is_plain(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control)
}

/// The beginning of a text that an error shows.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(32).collect()
}

/// Namespace of entries: a list of labels, such as `["memories", "ann"]`. The empty list is a namespace as well.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KvNamespace(String);

impl KvNamespace {
    /// Namespace of these labels.
    pub fn new<L: AsRef<str>>(labels: &[L]) -> Result<Self, KvError> {
        if labels.len() > MAX_KV_LABELS {
            return Err(KvError::Labels(labels.len()));
        }
        let mut text = String::new();
        for label in labels.iter().map(AsRef::as_ref) {
            if !is_plain(label, MAX_KV_LABEL_BYTES) {
                return Err(KvError::Label(shown(label), label.len()));
            }
            text.push_str(label);
            text.push(END);
        }
        if text.len() > MAX_KV_NAMESPACE_BYTES {
            return Err(KvError::Namespace(text.len()));
        }
        Ok(Self(text))
    }

    /// Namespace of a stored form; `None` if the text is none.
    pub fn stored(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        Self::new(&text.strip_suffix(END)?.split(END).collect::<Vec<_>>()).ok()
    }

    /// Stored form. Forms compare, by bytes, as the lists of labels do.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels, from the first one.
    pub fn labels(&self) -> Vec<&str> {
        self.0.split_terminator(END).collect()
    }

    /// True for a namespace whose first label begins with [`RESERVED_LABEL`]: only the server writes its entries.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(RESERVED_LABEL)
    }

    /// The namespace of the first labels.
    #[must_use]
    pub fn first(&self, labels: usize) -> Self {
        let cut = self.0.match_indices(END).take(labels).last().map_or(0, |(at, end)| at + end.len());
        Self(self.0[..cut].to_owned())
    }

    /// Text that is greater than the stored forms of all namespaces that begin with this one, and less than all others after it.
    pub fn end(&self) -> String {
        match self.0.strip_suffix(END) {
            Some(rest) => format!("{rest}{BEYOND}"),
            // Longer than the longest label, in the greatest character.
            None => "\u{10ffff}".repeat(MAX_KV_LABEL_BYTES / 4 + 1),
        }
    }

    /// Text that is greater than the stored form of this namespace, and not greater than that of the next one.
    pub fn next(&self) -> String {
        format!("{}\u{1}", self.0)
    }
}

/// Key of an entry, unique in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvKey(String);

impl KvKey {
    /// Checks the text of a key.
    pub fn new(text: impl Into<String>) -> Result<Self, KvError> {
        let text = text.into();
        if is_plain(&text, MAX_KV_KEY_BYTES) { Ok(Self(text)) } else { Err(KvError::Key(shown(&text), text.len())) }
    }

    /// Text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Version of an entry or a list, changed with each write. Opaque: tags may be compared for equality only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

impl Tag {
    /// Checks a tag that a client has chosen.
    pub fn new(text: impl Into<String>) -> Result<Self, KvError> {
        let text = text.into();
        if is_plain(&text, MAX_KV_TAG_BYTES) { Ok(Self(text)) } else { Err(KvError::Tag(shown(&text), text.len())) }
    }

    /// Makes a fresh tag.
    pub fn generate() -> Self {
        Self(uuid::Uuid::now_v7().simple().to_string())
    }

    /// Text of the tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Owner of entries: a user of a project, or the project itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvOwner {
    /// Project of the owner.
    pub project: ProjectId,
    /// User who owns the entries; `None` for those of the project itself.
    pub user: Option<UserId>,
}

/// Place of an entry among those of its owner, in the order of searches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvPlace {
    /// Namespace of the entry.
    pub ns: KvNamespace,
    /// Key of the entry.
    pub key: KvKey,
}

impl KvPlace {
    /// Counted bytes of an entry at this place, from its tag and the length of its value.
    pub fn size(&self, tag: &Tag, value: usize) -> i64 {
        row_size(&[self.ns.0.len(), self.key.0.len(), tag.0.len(), value])
    }
}

/// Checks a value, and returns its text on one line: only CR and LF outside of strings are changed.
pub fn kv_value(value: &RawValue) -> Result<String, KvError> {
    let text = value.get();
    if text.len() > MAX_KV_VALUE_BYTES {
        return Err(KvError::Value(text.len()));
    }
    if json::depth(text.as_bytes(), MAX_JSON_DEPTH) > MAX_JSON_DEPTH {
        return Err(KvError::Depth);
    }
    // Valid JSON has CR and LF only between tokens.
    Ok(text.replace(['\r', '\n'], " "))
}

/// Entry, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// Namespace and key of the entry.
    pub place: KvPlace,
    /// Value: a JSON text on one line.
    pub value: String,
    /// Tag of the write that stored the value.
    pub tag: Tag,
    /// Time at which the entry was stored first.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Time from which the entry is gone; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl KvEntry {
    /// Counted bytes of the entry, with its names.
    pub fn size(&self) -> i64 {
        self.place.size(&self.tag, self.value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(labels: &[&str]) -> KvNamespace {
        KvNamespace::new(labels).expect("a namespace")
    }

    #[test]
    fn a_namespace_is_read_back_from_its_stored_form() {
        for labels in [&[][..], &["a"], &["a", "b c", "é."]] {
            assert_eq!(ns(labels).labels(), labels);
            assert_eq!(KvNamespace::stored(ns(labels).as_str()), Some(ns(labels)));
        }
        assert_eq!([KvNamespace::stored("a"), KvNamespace::stored("\u{1f}")], [None, None]);
    }

    #[test]
    fn the_first_labels_of_a_namespace_are_a_namespace() {
        let whole = ns(&["a", "b", "c"]);
        let firsts: Vec<_> = (0..5).map(|labels| whole.first(labels)).collect();
        assert_eq!(firsts, [ns(&[]), ns(&["a"]), ns(&["a", "b"]), whole.clone(), whole.clone()]);
        assert_eq!(ns(&[]).first(2), ns(&[]));
    }

    #[test]
    fn namespaces_sort_as_their_labels_and_below_their_ends() {
        let most = "\u{10ffff}".repeat(64);
        let sorted =
            [ns(&[]), ns(&["a"]), ns(&["a", "b"]), ns(&["a b"]), ns(&["ab"]), ns(&[&most]), ns(&[&most, &most])];
        assert!(sorted.is_sorted_by(|one, other| one < other && one.next().as_str() <= other.as_str()));
        for whole in &sorted {
            let below = sorted.iter().filter(|other| *other >= whole && other.as_str() < whole.end().as_str());
            let wanted = sorted.iter().filter(|other| other.labels().starts_with(&whole.labels()));
            assert!(below.eq(wanted), "{whole:?}");
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let many = vec!["a"; MAX_KV_LABELS + 1];
        assert_eq!(KvNamespace::new(&many), Err(KvError::Labels(17)));
        for label in ["", "a\u{1f}b", "a\0", &"x".repeat(257)] {
            assert_eq!(KvNamespace::new(&[label]), Err(KvError::Label(shown(label), label.len())));
        }
        let long = "x".repeat(256);
        assert!(
            KvNamespace::new(&[&long, &long, &long, &long[1..], "x"])
                .is_err_and(|error| error == KvError::Namespace(1_029))
        );
        assert!(KvKey::new("").is_err() && KvKey::new("x".repeat(513)).is_err() && KvKey::new("x".repeat(512)).is_ok());
        assert!(Tag::new("").is_err() && Tag::new("x".repeat(65)).is_err() && Tag::new("x".repeat(64)).is_ok());
        let value = |text: &str| kv_value(serde_json::from_str(text).expect("JSON"));
        assert_eq!(value("{\"a\":\r\n 1.0}"), Ok("{\"a\":   1.0}".to_owned()));
        assert_eq!(
            value(
                &"[".repeat(MAX_JSON_DEPTH + 1)
                    .chars()
                    .chain("]".repeat(MAX_JSON_DEPTH + 1).chars())
                    .collect::<String>()
            ),
            Err(KvError::Depth)
        );
        let large = format!("\"{}\"", "x".repeat(MAX_KV_VALUE_BYTES - 1));
        assert_eq!(value(&large), Err(KvError::Value(MAX_KV_VALUE_BYTES + 1)));
        assert!(value(&large.replacen('x', "", 1)).is_ok());
    }
}
