//! Plain streams: created, written and read by clients of the Durable Streams protocol.

mod appending;
mod creating;
mod error;
mod reading;
mod service;
mod watchers;

pub use appending::AppendRequest;
pub use creating::{NewFork, NewStream};
pub use error::{ContentError, StreamConflict, StreamError};
pub use reading::{StreamFollower, StreamPage};
pub(crate) use service::StreamDeps;
pub use service::{Content, Streams};
pub(crate) use watchers::StreamWatchers;
