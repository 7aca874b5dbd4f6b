//! Positions on the wire: ids of events on streams, cursors of feeds and of pages.

use axum::http::HeaderMap;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use threadline_core::{Epoch, FeedCursor, ListPosition, ThreadId, Timestamp};

use crate::problem::Problem;

/// Header that a browser sends when it reconnects: the `id` of the last event it has seen.
const LAST_EVENT_ID: &str = "last-event-id";

/// A position that belongs to one log or feed: the `id` of an event on every stream, `<epoch>:<seq>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Epoch of the log or feed.
    pub epoch: Epoch,
    /// Position in that log or feed.
    pub seq: u64,
}

impl EventId {
    /// Parses `Last-Event-ID`, which must have this form.
    pub fn last_seen(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
        let text = String::from_utf8_lossy(id.as_bytes());
        let id = text.trim().split_once(':').and_then(|(epoch, seq)| {
            let is_seq = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
            Some(Self { epoch: Epoch::parse(epoch)?, seq: seq.parse().ok().filter(|_| is_seq)? })
        });
        id.map(Some).ok_or_else(|| {
            let detail = format!("Last-Event-ID is {text:?}: send the id of an event unchanged, <epoch>:<seq>");
            Problem::invalid(detail)
        })
    }
}

/// Cursor of a feed from its parameters. A position without its epoch may be that of another feed.
pub fn feed_cursor(after: u64, epoch: Option<&str>) -> Result<FeedCursor, Problem> {
    match (after, epoch) {
        (0, None) => Ok(FeedCursor::START),
        (position, Some(epoch)) => Ok(FeedCursor { epoch: Epoch::named(epoch), position }),
        (position, None) => Err(Problem::invalid(format!(
            "after is {position}, without epoch: send the epoch that came with the position, `feedEpoch` of a list or \
             `epoch` of the feed"
        ))),
    }
}

/// Cursor of the next page of a list.
pub fn write_position(position: &ListPosition) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{}:{}", position.at.0, position.id))
}

/// Parses a `nextCursor`; any other text is an invalid request.
pub fn read_position(cursor: &str) -> Result<ListPosition, Problem> {
    let position = || {
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (at, id) = text.split_once(':')?;
        Some(ListPosition { at: Timestamp(at.parse().ok()?), id: ThreadId::new(id).ok()? })
    };
    position().ok_or_else(|| Problem::invalid("cursor is not a nextCursor"))
}
