//! Server-sent events, read as the standard has it.

use bytes::BytesMut;
use futures_util::{StreamExt, stream::BoxStream};
use reqwest::RequestBuilder;

use super::{http::open, soon};

/// One event, or a comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
    pub retry: Option<String>,
    pub comment: Option<String>,
}

impl Event {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A stream of them.
pub struct Events {
    body: BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: BytesMut,
}

impl Events {
    pub async fn open(request: RequestBuilder) -> Self {
        let response = open(request.header("accept", "text/event-stream")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.bytes_stream().boxed(), buffer: BytesMut::new() }
    }

    /// The next event or comment; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        soon(async {
            loop {
                if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                    let block = self.buffer.split_to(end + 2);
                    return Some(parse(std::str::from_utf8(&block).expect("UTF-8")));
                }
                match self.body.next().await {
                    Some(chunk) => self.buffer.extend_from_slice(&chunk.expect("the body continues")),
                    None => {
                        assert!(self.buffer.is_empty(), "half an event");
                        return None;
                    }
                }
            }
        })
        .await
    }

    /// The next event with this name (`None`: a message), which must come next.
    pub async fn named(&mut self, name: &str) -> Event {
        let event = self.next().await.expect("an event");
        assert_eq!(event.event.as_deref(), Some(name), "{event:?}");
        event
    }

    pub async fn message(&mut self) -> Event {
        let event = self.next().await.expect("an event");
        assert!(event.event.is_none() && event.comment.is_none() && event.id.is_some(), "{event:?}");
        event
    }
}

fn parse(block: &str) -> Event {
    let mut event = Event::default();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "" => event.comment = Some(value),
            "id" => event.id = Some(value),
            "event" => event.event = Some(value),
            "retry" => event.retry = Some(value),
            "data" if event.data.is_empty() => event.data = value,
            "data" => event.data = format!("{}\n{value}", event.data),
            _ => panic!("unknown field {field}"),
        }
    }
    event
}
