//! Plain streams: logs of bytes or JSON messages that clients of the Durable Streams protocol create and write.

mod append;
mod messages;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use append::{AppendDone, AppendRefusal, NewAppend, Producer, ProducerState, Written, append};
pub use messages::{MessageError, array, messages, part};

use crate::{
    Epoch, Timestamp,
    kv::KvOwner,
    limits::{MAX_STREAM_PATH_BYTES, MAX_STREAM_TYPE_BYTES, STREAM_ROW_BYTES},
};

/// Path of a stream: what follows `/streams/v1/stream/` in its URL, decoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPath(String);

/// Reason for which a text is no path of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is empty, or begins or ends with a slash.
    #[error("the path of a stream must not be empty, or begin or end with a slash")]
    Empty,
    /// The text is longer than [`MAX_STREAM_PATH_BYTES`].
    #[error("the path of a stream must not exceed {MAX_STREAM_PATH_BYTES} bytes")]
    TooLong,
    /// The text has a control character, or a segment that is empty, `.` or `..`.
    #[error("the path of a stream must have no control characters, and no segment that is empty, \".\" or \"..\"")]
    Unclean,
    /// The first segment is reserved.
    #[error("paths that begin with `threads` or `__ds` are reserved")]
    Reserved,
}

impl StreamPath {
    /// Parses a decoded path of a URL.
    pub fn new(text: &str) -> Result<Self, PathError> {
        if text.is_empty() || text.starts_with('/') || text.ends_with('/') {
            return Err(PathError::Empty);
        }
        if text.len() > MAX_STREAM_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if text.chars().any(char::is_control) || text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(PathError::Unclean);
        }
        match text.split('/').next() {
            Some("threads" | "__ds") => Err(PathError::Reserved),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// Text of the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Key of a stream, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamKey(pub i64);

impl StreamKey {
    /// Makes a fresh key.
    pub fn generate() -> Self {
        Self(Epoch::generate().to_i64())
    }
}

/// Place of a stream: its owner, and its path among the streams of the owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamPlace {
    /// User who owns the stream, or the project itself.
    pub owner: KvOwner,
    /// Path of the stream.
    pub path: StreamPath,
}

/// Media type of a stream, as its creator has written it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentType(String);

impl ContentType {
    /// Type of a stream whose creator names none.
    pub fn binary() -> Self {
        Self("application/octet-stream".to_owned())
    }

    /// Parses a type: printable ASCII with a slash, of at most [`MAX_STREAM_TYPE_BYTES`].
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let (kind, rest) = text.split_once('/')?;
        let named = |part: &str| !part.is_empty() && !part.contains([' ', ',', '/']);
        let fits = text.len() <= MAX_STREAM_TYPE_BYTES && printable;
        (fits && named(kind) && named(rest.split(';').next()?.trim_end())).then(|| Self(text.to_owned()))
    }

    /// Text of the type, with its parameters.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Media type without parameters.
    fn essence(&self) -> &str {
        self.0.split(';').next().unwrap_or_default().trim_end()
    }

    /// True if both name the same media type, whatever its case and its parameters are.
    pub fn matches(&self, other: &Self) -> bool {
        self.essence().eq_ignore_ascii_case(other.essence())
    }

    /// True if the stream has JSON messages.
    pub fn is_json(&self) -> bool {
        self.essence().eq_ignore_ascii_case("application/json")
    }

    /// True if server-sent events can carry the bytes as text.
    pub fn is_text(&self) -> bool {
        self.is_json() || self.essence().get(..5).is_some_and(|kind| kind.eq_ignore_ascii_case("text/"))
    }
}

/// Life of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    /// Time in seconds after the last read or write at which the stream expires.
    Idle(u64),
    /// Moment at which the stream expires, in Unix milliseconds.
    Until(i64),
}

impl Life {
    /// Moment from which the stream is gone, if it was last used now.
    pub fn end(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Idle(seconds) => now.plus(Duration::from_secs(seconds)),
            Self::Until(at) => Timestamp(at),
        }
    }
}

/// Origin of a fork, as its creator has named it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Path of the source.
    pub path: String,
    /// Position after the last inherited byte or message.
    pub at: u64,
    /// Bytes or messages of these that lie behind the offset that the creator has named.
    pub sub: u64,
}

/// Bytes or messages that a fork reads from another stream: those up to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Stream that has the data itself.
    pub stream: StreamKey,
    /// Position after the last one that is read there.
    pub until: u64,
}

/// State of a stream that its row keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Incarnation of the stream, part of its offsets. A fork has that of its source.
    pub epoch: Epoch,
    /// Media type of the content.
    pub content_type: ContentType,
    /// Life; `None` for a stream that does not expire.
    pub life: Option<Life>,
    /// True once nothing more can be appended.
    pub closed: bool,
    /// Append of a producer that has closed the stream.
    pub closed_by: Option<Producer>,
    /// Position after the last byte, or JSON message.
    pub tail: u64,
    /// `Stream-Seq` of the last append that had one.
    pub last_seq: Option<String>,
    /// Origin, if the stream is a fork.
    pub origin: Option<Origin>,
    /// Data of other streams that a fork begins with, in the order of positions.
    pub inherited: Vec<Inherited>,
}

impl StreamRecord {
    /// Position at which the data begins that the stream has itself.
    pub fn own_from(&self) -> u64 {
        self.inherited.last().map_or(0, |last| last.until)
    }

    /// Stream that has the data after a position, and the position up to which it is read there; `None` at the tail.
    pub fn source_of(&self, own: StreamKey, after: u64) -> Option<Inherited> {
        let inherited = self.inherited.iter().copied().find(|part| part.until > after);
        inherited.or((after < self.tail).then_some(Inherited { stream: own, until: self.tail }))
    }

    /// Data that a fork at this position begins with.
    pub fn inherited_by(&self, own: StreamKey, at: u64) -> Vec<Inherited> {
        let mut parts = Vec::new();
        let all = self.inherited.iter().copied().chain([Inherited { stream: own, until: self.tail }]);
        for part in all {
            let begun = parts.last().map_or(0, |last: &Inherited| last.until);
            if begun < at && part.until > begun {
                parts.push(Inherited { until: part.until.min(at), ..part });
            }
        }
        parts
    }
}

/// State of a stream's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// The stream can be used, unless its life is over.
    Live,
    /// The stream was deleted. Its path is in use until its last fork is gone.
    Deleted,
}

/// A stream as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Key of the stream.
    pub key: StreamKey,
    /// Tag of the last write: a write names the one that it has read.
    pub tag: i64,
    /// State of the row.
    pub state: StreamState,
    /// Moment from which the stream is gone, if it expires.
    pub expires_at: Option<Timestamp>,
    /// True if forks of the stream exist.
    pub has_forks: bool,
    /// Counted bytes of the row, the chunks and the producers.
    pub size: i64,
    /// Record that the row keeps.
    pub record: StreamRecord,
}

impl Stream {
    /// True if the stream can be used now.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.state == StreamState::Live && self.expires_at.is_none_or(|at| at > now)
    }
}

/// Bytes of one append, or of the initial content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Position before the first byte or message.
    pub first: u64,
    /// Position after the last one.
    pub last: u64,
    /// Bytes; of JSON messages, each on a line of its own.
    pub body: Vec<u8>,
}

impl Chunk {
    /// True if the body has as many bytes, or lines, as lie between the positions.
    pub fn is_whole(&self, content_type: &ContentType) -> bool {
        let count = if content_type.is_json() {
            self.body.iter().filter(|byte| **byte == b'\n').count()
        } else {
            self.body.len()
        };
        self.last.checked_sub(self.first) == u64::try_from(count).ok() && count > 0
    }

    /// Counted bytes of the row.
    pub fn size(&self) -> i64 {
        counted(self.body.len())
    }
}

/// Counted bytes of a row with this many bytes of a client.
pub fn counted(bytes: usize) -> i64 {
    i64::try_from(bytes.saturating_add(STREAM_ROW_BYTES)).unwrap_or(i64::MAX)
}

impl fmt::Display for StreamPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_at_the_edge() {
        for good in ["a", "a/b", "a/b c/é", "thread/x", "threads2", "-"] {
            assert_eq!(StreamPath::new(good).map(|path| path.as_str().to_owned()).as_deref(), Ok(good));
        }
        for (bad, error) in [
            ("", PathError::Empty),
            ("/a", PathError::Empty),
            ("a/", PathError::Empty),
            ("a//b", PathError::Unclean),
            ("a/../b", PathError::Unclean),
            ("a\nb", PathError::Unclean),
            ("threads", PathError::Reserved),
            ("threads/x/y/z", PathError::Reserved),
            ("__ds/jwks.json", PathError::Reserved),
        ] {
            assert_eq!(StreamPath::new(bad), Err(error), "{bad:?}");
        }
        assert_eq!(StreamPath::new(&"a".repeat(MAX_STREAM_PATH_BYTES + 1)), Err(PathError::TooLong));
    }

    #[test]
    fn content_types_are_compared_without_case_and_parameters() {
        let of = |text| ContentType::parse(text).expect("a type");
        assert!(of("Application/JSON; charset=utf-8").is_json() && of("application/json").is_text());
        assert!(of("TEXT/plain").matches(&of("text/plain;charset=utf-8")) && of("TEXT/plain").is_text());
        assert!(!of("application/x-ndjson").is_json() && !of("application/x-protobuf").is_text());
        for bad in ["", "  ", "text", "/plain", "text/", "text/pl\u{e9}in", "a b/c", "a/b/c"] {
            assert_eq!(ContentType::parse(bad), None, "{bad:?}");
        }
    }

    fn record(tail: u64, inherited: Vec<Inherited>) -> StreamRecord {
        StreamRecord {
            epoch: Epoch::NONE,
            content_type: ContentType::binary(),
            life: None,
            closed: false,
            closed_by: None,
            tail,
            last_seq: None,
            origin: None,
            inherited,
        }
    }

    #[test]
    fn a_fork_reads_each_position_from_the_stream_that_has_it() {
        let part = |stream, until| Inherited { stream: StreamKey(stream), until };
        let root = record(10, Vec::new());
        assert_eq!(root.inherited_by(StreamKey(1), 6), [part(1, 6)]);
        assert_eq!(root.inherited_by(StreamKey(1), 0), []);
        let fork = record(9, root.inherited_by(StreamKey(1), 6));
        assert_eq!(fork.own_from(), 6);
        assert_eq!(
            [0, 5, 6, 8, 9].map(|after| fork.source_of(StreamKey(2), after)),
            [Some(part(1, 6)), Some(part(1, 6)), Some(part(2, 9)), Some(part(2, 9)), None]
        );
        // A fork of the fork, in its own part and in the inherited one.
        assert_eq!(fork.inherited_by(StreamKey(2), 8), [part(1, 6), part(2, 8)]);
        assert_eq!(fork.inherited_by(StreamKey(2), 6), [part(1, 6)]);
        assert_eq!(fork.inherited_by(StreamKey(2), 4), [part(1, 4)]);
        // A fork without data of its own adds no part.
        let empty = record(6, fork.inherited_by(StreamKey(2), 6));
        assert_eq!(empty.inherited_by(StreamKey(3), 6), [part(1, 6)]);
    }
}
