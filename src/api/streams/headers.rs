//! Header fields of responses.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::Response,
};

use super::offset::Offset;

/// Offset at which the next read continues.
pub const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
/// Header of a response that reaches the current end of the stream.
pub const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
/// Header of a response that reaches the end of a closed stream.
pub const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
/// Cursor of a live response.
pub const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");

/// End of a response, as its header fields tell it.
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
