//! The end of a response, as header fields and as an event tell it.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use threadline_core::Timestamp;
use threadline_http::etag::Tags;

use super::offset::{Offset, cursor};

/// Offset at which the next read continues.
pub const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
/// Header of a response that reaches the current end of the stream.
pub const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
/// Header of a response that reaches the end of a closed stream.
pub const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
/// Cursor of a live response.
pub const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");

/// End of a response.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub next: Offset,
    pub up_to_date: bool,
    pub closed: bool,
}

impl End {
    /// Adds the header fields, and the cursor of a live response unless the stream is closed.
    pub fn mark(self, mut response: Response, cursor: Option<u64>) -> Response {
        let headers = response.headers_mut();
        // Digits and an underscore are a valid header value.
        if let Ok(next) = HeaderValue::try_from(self.next.to_string()) {
            headers.insert(NEXT_OFFSET, next);
        }
        for (name, holds) in [(UP_TO_DATE, self.up_to_date), (CLOSED, self.closed)] {
            if holds {
                headers.insert(name, HeaderValue::from_static("true"));
            }
        }
        if let Some(cursor) = cursor.filter(|_| !self.closed) {
            headers.insert(CURSOR, HeaderValue::from(cursor));
        }
        response
    }

    /// Response to a read of the page from `start` to this end: the content, unless the client has it already.
    pub fn page(self, start: u64, known: Option<Tags>, content: impl FnOnce() -> Response) -> Response {
        let etag = self.etag(start);
        let response = match known {
            Some(known) if known.have(&etag) => StatusCode::NOT_MODIFIED.into_response(),
            _ => content(),
        };
        tagged(self.mark(response, None), &etag)
    }

    /// Data of the event `control` of an event stream; `seen` is the cursor that the client has sent.
    pub fn control(self, now: Timestamp, seen: Option<u64>) -> Value {
        let mut members = Map::new();
        members.insert("streamNextOffset".to_owned(), self.next.to_string().into());
        if !self.closed {
            members.insert("streamCursor".to_owned(), cursor(now, seen).to_string().into());
        }
        if self.up_to_date {
            members.insert("upToDate".to_owned(), true.into());
        }
        if self.closed {
            members.insert("streamClosed".to_owned(), true.into());
        }
        Value::Object(members)
    }

    /// Entity tag of the messages from `start` to this end.
    pub fn etag(self, start: u64) -> String {
        let Offset { seq, epoch } = self.next;
        format!("\"{epoch}:{start}:{seq}{}\"", if self.closed { ":c" } else { "" })
    }
}

/// Adds the entity tag to a response.
pub fn tagged(mut response: Response, etag: &str) -> Response {
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}
