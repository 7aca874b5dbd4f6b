//! Live reads of plain streams as server-sent events: `data` has bytes or messages, `control` has the offset after them.

use axum::body::Bytes;
use base64::{Engine, engine::general_purpose::STANDARD};
use threadline_core::{
    Principal,
    limits::PAGE_BYTES,
    streams::{ContentType, StreamRecord, array},
};
use threadline_engine::{ServiceError, StoreError, StreamError, StreamFollower};
use threadline_http::{
    HttpState,
    sse::{EventSource, Farewell},
};

use super::answers;

/// A live read of one client.
pub struct Live {
    follower: StreamFollower,
    principal: Principal,
    http: HttpState,
    /// Position after the data that was sent.
    at: u64,
    /// Cursor that the client has sent.
    seen: Option<u64>,
    /// True once the client was told that it is up to date.
    up_to_date: bool,
    ended: bool,
}

/// Writes data as one event. Line breaks of any kind begin another line of the event, so that data cannot pretend to be an event.
fn data(kind: &ContentType, body: &[u8]) -> Vec<u8> {
    let mut out = b"event: data\n".to_vec();
    if kind.is_json() {
        out.extend_from_slice(b"data:[");
        array(body, &mut out);
        out.push(b']');
    } else if kind.is_text() {
        let mut rest = Some(body);
        while let Some(text) = rest {
            let end = memchr::memchr2(b'\r', b'\n', text);
            out.extend_from_slice(b"data:");
            out.extend_from_slice(&text[..end.unwrap_or(text.len())]);
            rest = end.map(|end| {
                let broken = &text[end..];
                broken.strip_prefix(b"\r\n").unwrap_or(&broken[1..])
            });
            out.extend_from_slice(if rest.is_some() { b"\n" } else { b"" });
        }
    } else {
        out.extend_from_slice(b"data:");
        out.extend_from_slice(STANDARD.encode(body).as_bytes());
    }
    out.extend_from_slice(b"\n\n");
    out
}

impl Live {
    pub fn new(follower: StreamFollower, principal: Principal, http: HttpState, at: u64, seen: Option<u64>) -> Self {
        Self { follower, principal, http, at, seen, up_to_date: false, ended: false }
    }

    fn control(&self, record: &StreamRecord, at: u64) -> String {
        let control = answers::end(record, at).control(self.http.clock.now(), self.seen);
        // Without the space that the standard allows behind the colon: not every client of the protocol takes it.
        format!("event: control\ndata:{control}\n\n")
    }

    /// The next page as an event, with the control event after it, within the memory for responses.
    async fn page(&self) -> Result<(Bytes, u64), StoreError> {
        let make = || async {
            let page = self.follower.page(self.at, PAGE_BYTES).await?;
            let record = self.follower.record();
            let mut frames = data(&record.content_type, &page.body);
            frames.extend_from_slice(self.control(record, page.next).as_bytes());
            Ok((frames, page.next))
        };
        let made = self.http.responses.page_chunk(&self.principal, PAGE_BYTES, make).await;
        // The protocol has no event for a refusal: the connection is cut, and the client continues from its offset.
        made.map_err(|problem| StoreError::Unavailable(problem.detail))
    }

    /// Notes that the client has data up to a position.
    fn sent(&mut self, at: u64) {
        let end = answers::end(self.follower.record(), at);
        (self.at, self.up_to_date, self.ended) = (at, end.up_to_date, end.closed);
    }
}

impl EventSource for Live {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while !self.ended {
            if self.follower.record().tail > self.at {
                let (frames, next) = self.page().await?;
                if next == self.at {
                    break;
                }
                self.sent(next);
                return Ok(Some(frames));
            }
            if !self.up_to_date || self.follower.record().closed {
                let frames = self.control(self.follower.record(), self.at);
                self.sent(self.at);
                return Ok(Some(frames.into()));
            }
            match self.follower.wait(self.at, None).await {
                Ok(_) => {}
                Err(StreamError::Service(ServiceError::Store(error))) => return Err(error),
                // The client connects again, and the status of the response says why.
                Err(_) => self.ended = true,
            }
        }
        Ok(None)
    }

    fn tail(&self) -> u64 {
        self.follower.record().tail
    }

    /// Cuts the connection: the protocol has no event for a failure.
    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        None
    }

    /// Sends a comment: the client connects again from its offset.
    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        Some(Bytes::from_static(b": closing\n\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, body: &[u8]) -> String {
        let kind = ContentType::parse(kind).expect("a type");
        String::from_utf8(data(&kind, body)).expect("UTF-8")
    }

    #[test]
    fn data_cannot_pretend_to_be_an_event() {
        let attack = b"a\r\n\r\nevent: control\rdata: {}\n\nb\n";
        let lines = "data:a\ndata:\ndata:event: control\ndata:data: {}\ndata:\ndata:b\ndata:\n";
        assert_eq!(event("text/plain", attack), format!("event: data\n{lines}\n"));
        assert_eq!(event("text/plain", b" x"), "event: data\ndata: x\n\n");
        assert_eq!(event("application/json", b"1\n{\"a\":\"\\n\"}\n"), "event: data\ndata:[1,{\"a\":\"\\n\"}]\n\n");
        assert_eq!(event("image/png", b"\n\r\xff"), "event: data\ndata:Cg3/\n\n");
    }
}
