//! Errors of plain streams. Only the Durable Streams API has them, so they are no part of [`ServiceError`].

use threadline_core::{
    Epoch,
    limits::MAX_STREAM_FORK_DEPTH,
    streams::{AppendRefusal, MessageError, StreamRecord},
};
use threadline_store::StoreError;

use crate::{DrainingError, RoomError, ServiceError, limits::Limited};

/// Error of an operation on a plain stream.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StreamError {
    /// The owner has no stream of this path.
    #[error("the stream {0:?} does not exist")]
    NotFound(String),
    /// The stream was deleted or has expired, and forks of it exist.
    #[error("the stream {0:?} was deleted or has expired; forks of it exist")]
    Gone(String),
    /// The offset belongs to an earlier stream of the path.
    #[error("the offset belongs to an earlier stream of this path: the present one has the epoch {0}")]
    Replaced(Epoch),
    /// The stream cannot be created as the request wants it.
    #[error("{0}")]
    Conflict(StreamConflict),
    /// The append is refused.
    #[error("{}", refusal_text(.0))]
    Refused(AppendRefusal, Box<StreamRecord>),
    /// The content has no JSON messages.
    #[error("{0}")]
    Content(ContentError),
    /// A position that the source of a fork does not have.
    #[error("{0}")]
    ForkOffset(String),
    /// The operation is refused for a reason that all operations share.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Content of an append, or initial content, that a JSON stream cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The content is not JSON.
    #[error("{0}")]
    Messages(#[from] MessageError),
    /// An append has an empty array.
    #[error("the array has no items: an append must have at least one message")]
    NoMessages,
}

/// Reason for which a stream cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamConflict {
    /// A stream of the path exists, and differs in its configuration.
    #[error("a stream of this path exists, with another content type, life, end or origin")]
    Exists,
    /// A deleted stream of the path has forks.
    #[error(
        "a stream of this path was deleted or has expired, and forks of it exist: the path is in use until the last of them is gone"
    )]
    PathInUse,
    /// The source of a fork was deleted.
    #[error("the source was deleted or has expired; only forks of it exist")]
    SourceGone,
    /// A fork has another media type than its source.
    #[error("the source has another content type: a fork has that of its source")]
    SourceType,
    /// The fork would read from more streams than allowed.
    #[error("the fork would read from more than {MAX_STREAM_FORK_DEPTH} streams: copy the data into a new stream")]
    TooDeep,
}

fn refusal_text(refusal: &AppendRefusal) -> String {
    match refusal {
        AppendRefusal::Closed => "the stream is closed".to_owned(),
        AppendRefusal::ContentType => "the stream has another content type than the append".to_owned(),
        AppendRefusal::Seq => "Stream-Seq is not greater than that of the last append".to_owned(),
        AppendRefusal::StaleEpoch { current } => format!("the producer has begun epoch {current}"),
        AppendRefusal::EpochNotFromZero => {
            "the first append of a new Producer-Epoch must have Producer-Seq 0".to_owned()
        }
        AppendRefusal::Gap { expected } => format!("expected Producer-Seq {expected} next"),
    }
}

macro_rules! from_service {
    ($($source:ty => $error:ident, $variant:expr;)+) => {$(
        impl From<$source> for StreamError {
            fn from($error: $source) -> Self {
                Self::Service($variant)
            }
        }
    )+};
}

from_service! {
    StoreError => error, ServiceError::Store(error);
    RoomError => error, error.into();
    DrainingError => error, error.into();
    Limited => limited, ServiceError::Limited(limited);
}

impl From<ContentError> for StreamError {
    fn from(error: ContentError) -> Self {
        Self::Content(error)
    }
}

impl From<StreamConflict> for StreamError {
    fn from(conflict: StreamConflict) -> Self {
        Self::Conflict(conflict)
    }
}
