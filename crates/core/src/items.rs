//! Item lists: what a framework keeps in order with a thread, such as the items of a session.

use super::{
    agent_data::row_size,
    kv::{Tag, is_plain, shown},
    limits::{MAX_LIST_NAME_BYTES, MAX_OP_KEY_BYTES},
};

/// Reason for which a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemsError {
    /// The name of a list is empty or too long, or holds other characters.
    #[error(
        "the name of a list has 1 to {MAX_LIST_NAME_BYTES} of the characters A-Z, a-z, 0-9, `_`, `.` and `-`; {0:?} has {1} bytes"
    )]
    List(String, usize),
    /// The key of an operation is empty or too long, or holds a control character.
    #[error("the key of an operation has 1 to {MAX_OP_KEY_BYTES} bytes and no control characters; {0:?} has {1} bytes")]
    Key(String, usize),
}

/// Name of a list, unique in its thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName(String);

impl ListName {
    /// Checks the name of a list.
    pub fn new(text: impl Into<String>) -> Result<Self, ItemsError> {
        let text = text.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if (1..=MAX_LIST_NAME_BYTES).contains(&text.len()) && text.bytes().all(plain) && text != "." && text != ".." {
            return Ok(Self(text));
        }
        Err(ItemsError::List(shown(&text), text.len()))
    }

    /// Text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Counted bytes of an item of the list, from the length of its body.
    pub fn item_size(&self, body: usize) -> i64 {
        row_size(&[self.0.len(), body])
    }

    /// Counted bytes of a remembered operation on the list, from its key and the length of its stored answer.
    pub fn op_size(&self, op: &OpKey, answer: usize) -> i64 {
        row_size(&[self.0.len(), op.0.len(), answer])
    }
}

/// Key by which a client marks an operation on a list and its repetitions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(String);

impl OpKey {
    /// Checks the key of an operation.
    pub fn new(text: impl Into<String>) -> Result<Self, ItemsError> {
        let text = text.into();
        if is_plain(&text, MAX_OP_KEY_BYTES) { Ok(Self(text)) } else { Err(ItemsError::Key(shown(&text), text.len())) }
    }

    /// Text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// State of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListState {
    /// Tag of the last operation.
    pub tag: Tag,
    /// Number of the items.
    pub count: u64,
    /// Position of the next item. No position is given twice.
    pub next_pos: u64,
}

/// Item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Position, from 1. Positions grow, and may have gaps.
    pub pos: u64,
    /// The item: a JSON text on one line.
    pub body: String,
}

/// Answer of an operation on a list, the same for its repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListAnswer {
    /// First and last position of the items that were added, or taken from the end; `None` if there were none.
    pub range: Option<(u64, u64)>,
    /// Items that the list had then.
    pub count: u64,
    /// Tag that the list had then; `None` if there was no list.
    pub tag: Option<Tag>,
}

/// Part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemRange {
    /// The last items of the list.
    Newest,
    /// The last items before a position.
    Before(u64),
    /// The first items after a position.
    After(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_at_the_edge() {
        for good in ["openai-agents", "a.B_9", &"x".repeat(64)] {
            assert_eq!(ListName::new(good).map(|name| name.as_str().to_owned()), Ok(good.to_owned()));
        }
        for bad in ["", ".", "..", "a b", "é", "a/b", &"x".repeat(65)] {
            assert_eq!(ListName::new(bad), Err(ItemsError::List(shown(bad), bad.len())), "{bad}");
        }
        assert!(OpKey::new("é").is_ok() && OpKey::new("").is_err() && OpKey::new("x".repeat(129)).is_err());
    }
}
