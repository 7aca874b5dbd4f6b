//! Parts of a response of this API, for the socket.

use std::collections::VecDeque;

use axum::{
    body::{Body, BodyDataStream, to_bytes},
    http::StatusCode,
    response::Response,
};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use threadline_core::{json, limits::PAGE_BYTES};

/// Part of a response.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// Start of a stream of chunks.
    Begin,
    /// A chunk, as JSON.
    Chunk(String),
    /// The stream is complete.
    End,
    /// No run is active.
    NoneActive,
    /// The request is refused, for this reason.
    Refused(String),
    /// The stream has ended before it was complete.
    Cut,
}

/// Stream whose frames are read.
struct Frames {
    body: BodyDataStream,
    /// Start of a frame whose end has not arrived.
    rest: Vec<u8>,
    /// Parts that have arrived.
    ready: VecDeque<Part>,
    over: bool,
}

/// Parts of a response, in order.
pub fn parts(response: Response) -> BoxStream<'static, Part> {
    let (head, body) = response.into_parts();
    match head.status {
        StatusCode::OK => stream::unfold(Frames::of(body), |mut frames| async move {
            let part = frames.next().await?;
            Some((part, frames))
        })
        .boxed(),
        StatusCode::NO_CONTENT => stream::iter([Part::NoneActive]).boxed(),
        _ => stream::once(refusal(body)).boxed(),
    }
}

/// Reason why a request is refused: the detail of its problem, or else the title.
async fn refusal(body: Body) -> Part {
    let problem = to_bytes(body, PAGE_BYTES).await.unwrap_or_default();
    let problem = std::str::from_utf8(&problem).unwrap_or_default();
    let detail = ["detail", "title"].iter().find_map(|name| json::string_member(problem, name));
    Part::Refused(detail.unwrap_or_else(|| "The request was refused.".to_owned()))
}

impl Frames {
    fn of(body: Body) -> Self {
        let ready = VecDeque::from([Part::Begin]);
        Self { body: body.into_data_stream(), rest: Vec::new(), ready, over: false }
    }

    async fn next(&mut self) -> Option<Part> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                self.over |= part == Part::End;
                return Some(part);
            }
            if self.over {
                return None;
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.take(&bytes),
                Some(Err(_)) | None => {
                    self.over = true;
                    return Some(Part::Cut);
                }
            }
        }
    }

    /// Takes in bytes of the stream. A frame ends with an empty line, and is a comment or a line of data.
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(length) = self.rest[begin..].windows(2).position(|pair| pair == b"\n\n") {
            let frame = &self.rest[begin..begin + length];
            begin += length + 2;
            let Some(data) = frame.strip_prefix(b"data: ") else { continue };
            self.ready.push_back(match data {
                b"[DONE]" => Part::End,
                chunk => Part::Chunk(String::from_utf8_lossy(chunk).into_owned()),
            });
        }
        self.rest.drain(..begin);
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Bytes, http::Response as Answered};

    use super::*;

    async fn read(status: u16, pieces: &'static [&'static str], breaks: bool) -> Vec<Part> {
        let pieces = pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes())));
        let broken = breaks.then(|| Err(std::io::Error::other("broken")));
        let body = Body::from_stream(stream::iter(pieces.chain(broken).collect::<Vec<_>>()));
        parts(Answered::builder().status(status).body(body).expect("a response")).collect().await
    }

    #[tokio::test]
    async fn frames_may_come_in_any_pieces() {
        let chunk = |text: &str| Part::Chunk(text.to_owned());
        let whole =
            read(200, &["data: {\"a\":", "1}\n", "\n: tail 7\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n"], false).await;
        assert_eq!(whole, [Part::Begin, chunk("{\"a\":1}"), chunk("{\"b\":2}"), Part::End]);
        let cut = read(200, &["data: {\"a\":1}\n\ndata: {"], true).await;
        assert_eq!(cut, [Part::Begin, chunk("{\"a\":1}"), Part::Cut]);
        assert_eq!(read(200, &[], false).await, [Part::Begin, Part::Cut]);
        assert_eq!(read(204, &[], false).await, [Part::NoneActive]);
        assert_eq!(read(409, &["{\"title\":\"t\",\"detail\":\"d\"}"], false).await, [Part::Refused("d".to_owned())]);
        assert_eq!(read(500, &["?"], false).await, [Part::Refused("The request was refused.".to_owned())]);
    }
}
