//! Cursors as clients keep them: a text that names what it is a position in, so that no position is taken for one in
//! another list or another history.

use std::fmt;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use sha2::{Digest as _, Sha256};

use threadline_core::Epoch;

/// Start of every cursor: the version of its form.
const VERSION: &str = "c1.";
/// Bytes before `extra`: the kind, the epoch and the position.
const FIXED: usize = 1 + 8 + 8;
/// Bytes of the digest at the end, which tells a damaged cursor from another one.
const CHECK: usize = 4;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $of:literal;)*) => {
        /// Kind of the log, feed or list that a cursor is a position in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CursorKind {
            $($(#[$doc])* $name,)*
        }

        impl CursorKind {
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            fn byte(self) -> u8 {
                match self { $(Self::$name => $byte,)* }
            }
        }

        impl fmt::Display for CursorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $of,)* })
            }
        }
    };
}

kinds! {
    /// Events of a thread, read forwards.
    Events = 1, "the events of a thread";
    /// Events of a thread, read backwards.
    EventsBefore = 2, "the earlier events of a thread";
    /// Changes of a user's threads.
    Feed = 3, "a feed";
    /// A list of threads, the most recently used first.
    Threads = 4, "a list of threads";
    /// A list of threads in the order of their creation.
    ThreadsCreated = 5, "a list of threads by creation";
    /// Runs of a thread.
    Runs = 6, "the runs of a thread";
    /// Annotations of a thread.
    Annotations = 7, "the annotations of a thread";
    /// The audit log of a project.
    Audit = 8, "the audit log";
    /// Threads in the trash of a project.
    Trash = 9, "the trash";
    /// A search of key-value entries.
    Entries = 10, "a search of entries";
    /// Namespaces of key-value entries.
    Namespaces = 11, "a list of namespaces";
    /// Checkpoints of a thread or a project.
    Checkpoints = 12, "a list of checkpoints";
}

/// Reason why a text is not the cursor that a request can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// No cursor, or not all of one.
    #[error("is not a cursor, or a damaged one")]
    Damaged,
    /// A cursor of something else.
    #[error("is a cursor of {0}")]
    Foreign(CursorKind),
}

/// A position, with the log, feed or list that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Kind of the log, feed or list that the position is in.
    pub kind: CursorKind,
    /// Epoch of the log or feed; [`Epoch::NONE`] in a list without one.
    pub epoch: Epoch,
    /// Position of the last entry seen.
    pub position: u64,
    /// The rest of a position that is more than a number.
    pub extra: String,
}

impl Cursor {
    /// A position that is a number.
    pub fn new(kind: CursorKind, epoch: Epoch, position: u64) -> Self {
        Self { kind, epoch, position, extra: String::new() }
    }

    /// Reads a cursor of any of these kinds.
    pub fn parse(text: &str, kinds: &[CursorKind]) -> Result<Self, CursorError> {
        let cursor = Self::decode(text).ok_or(CursorError::Damaged)?;
        if kinds.contains(&cursor.kind) { Ok(cursor) } else { Err(CursorError::Foreign(cursor.kind)) }
    }

    fn decode(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(VERSION)?).ok()?;
        let (content, given) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        if check(content) != given {
            return None;
        }
        let (fixed, extra) = content.split_first_chunk::<FIXED>()?;
        let (kind, numbers) = fixed.split_first()?;
        let (epoch, position) = numbers.split_first_chunk()?;
        Some(Self {
            kind: *CursorKind::ALL.iter().find(|known| known.byte() == *kind)?,
            epoch: Epoch::from_i64(i64::from_be_bytes(*epoch)),
            position: u64::from_be_bytes(position.try_into().ok()?),
            extra: String::from_utf8(extra.to_vec()).ok()?,
        })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(FIXED + self.extra.len() + CHECK);
        bytes.push(self.kind.byte());
        bytes.extend_from_slice(&self.epoch.to_i64().to_be_bytes());
        bytes.extend_from_slice(&self.position.to_be_bytes());
        bytes.extend_from_slice(self.extra.as_bytes());
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        write!(f, "{VERSION}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}

fn check(content: &[u8]) -> [u8; CHECK] {
    let digest: [u8; 32] = Sha256::digest(content).into();
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are the same in each run of the test.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, bound: usize) -> usize {
            usize::try_from(self.next() % bound as u64).expect("fits")
        }

        fn cursor(&mut self) -> Cursor {
            let position = self.next() >> self.below(64);
            let chars = ['a', 'Z', '7', '-', 'é', '😀'];
            Cursor {
                kind: CursorKind::ALL[self.below(CursorKind::ALL.len())],
                epoch: Epoch::from_i64(self.next().cast_signed()),
                position,
                extra: (0..self.below(40)).map(|_| chars[self.below(chars.len())]).collect(),
            }
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for _ in 0..2_000 {
            let cursor = numbers.cursor();
            let text = cursor.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)), "{text}");
            assert_eq!(Cursor::parse(&text, CursorKind::ALL), Ok(cursor.clone()), "{text}");
            let others: Vec<_> = CursorKind::ALL.iter().copied().filter(|kind| *kind != cursor.kind).collect();
            assert_eq!(Cursor::parse(&text, &others), Err(CursorError::Foreign(cursor.kind)), "{text}");
        }
    }

    #[test]
    fn no_damaged_cursor_and_no_other_text_is_read() {
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        let alphabet: Vec<char> = "abcXYZ0189-_.c1+/= é\u{0}".chars().collect();
        for _ in 0..2_000 {
            let text: Vec<char> = numbers.cursor().to_string().chars().collect();
            let mut other = text.clone();
            let at = numbers.below(other.len());
            match numbers.below(4) {
                0 => other[at] = alphabet[numbers.below(alphabet.len())],
                1 => drop(other.remove(at)),
                2 => other.insert(at, alphabet[numbers.below(alphabet.len())]),
                _ => other.truncate(at),
            }
            let damaged: String = other.iter().collect();
            let expected = if other == text { None } else { Some(CursorError::Damaged) };
            assert_eq!(Cursor::parse(&damaged, CursorKind::ALL).err(), expected, "{damaged}");
            let noise: String = (0..numbers.below(60)).map(|_| alphabet[numbers.below(alphabet.len())]).collect();
            for text in [noise.clone(), format!("{VERSION}{noise}")] {
                assert_eq!(Cursor::parse(&text, CursorKind::ALL), Err(CursorError::Damaged), "{text}");
            }
            let bytes: Vec<u8> = (0..numbers.below(60)).map(|_| numbers.next().to_le_bytes()[0]).collect();
            let text = format!("{VERSION}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
            assert_eq!(Cursor::parse(&text, CursorKind::ALL), Err(CursorError::Damaged), "{text}");
        }
    }

    #[test]
    fn every_kind_has_a_byte_of_its_own() {
        let bytes: std::collections::BTreeSet<u8> = CursorKind::ALL.iter().map(|kind| kind.byte()).collect();
        assert_eq!(bytes.len(), CursorKind::ALL.len());
    }
}
