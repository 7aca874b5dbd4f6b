//! The frames of `/v1/socket`: JSON text with exactly one member that names the frame, and perhaps an `id`.
//!
//! The contract is `proto/threadline/v1/socket.proto`; numbers that proto3 JSON would write as strings are written as
//! numbers here and read in both forms.

use std::{
    fmt::{self, Write},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use threadline_core::{
    Batch, Epoch, IdText, RunId, ThreadId, UserId,
    json::{self, quoted},
    limits::MAX_JSON_DEPTH,
};
use threadline_engine::AppendReceipt;
use threadline_http::routes::{Access, ClientFrames};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::api::validating::Validate;

/// Frames that a client may send, each with the permission that it requires.
pub const CLIENT_FRAMES: ClientFrames = ClientFrames(&[
    ("subscribe", Access::READ),
    ("unsubscribe", Access::READ),
    ("subscribeFeed", Access::READ),
    ("unsubscribeFeed", Access::READ),
    ("append", Access::PRODUCE),
    ("heartbeat", Access::PRODUCE),
    ("stop", Access::CHAT),
    ("ping", Access::AnyOf(Access::SOCKET)),
]);

/// A frame of a client, and its `id`, which the answer repeats.
#[derive(Debug)]
pub struct ClientMessage<'a> {
    /// Repeated in the answer.
    pub id: Option<String>,
    pub frame: ClientFrame<'a>,
}

/// Request of a client: one per frame.
#[derive(Debug)]
pub enum ClientFrame<'a> {
    Subscribe(Subscribe),
    Unsubscribe(Thread),
    SubscribeFeed(SubscribeFeed),
    UnsubscribeFeed,
    /// Append events of a run.
    Append(Append<'a>),
    /// Renew a run's lease.
    Heartbeat(Run),
    /// Request that a run stops.
    Stop(Run),
    /// Request a pong frame.
    Ping,
}

impl ClientFrame<'_> {
    /// Name of the frame in [`CLIENT_FRAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Subscribe(_) => "subscribe",
            Self::Unsubscribe(_) => "unsubscribe",
            Self::SubscribeFeed(_) => "subscribeFeed",
            Self::UnsubscribeFeed => "unsubscribeFeed",
            Self::Append(_) => "append",
            Self::Heartbeat(_) => "heartbeat",
            Self::Stop(_) => "stop",
            Self::Ping => "ping",
        }
    }
}

/// A subscription to a thread.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    pub thread_id: ThreadId,
    /// Events with a greater seq are delivered; above 0 only with `epoch`.
    #[serde(default, deserialize_with = "optional_number")]
    pub after: Option<u64>,
    /// The epoch of `after`.
    pub epoch: Option<String>,
    /// `nextCursor` of a page or frame, instead of `after` and `epoch`.
    pub cursor: Option<String>,
    /// Only this run, to its end.
    pub run_id: Option<RunId>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Thread {
    pub thread_id: ThreadId,
}

/// A subscription to the feed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscribeFeed {
    /// Changes after this position are delivered; above 0 only with `epoch`.
    #[serde(default, deserialize_with = "optional_number")]
    pub after: Option<u64>,
    /// The epoch of `after`.
    pub epoch: Option<String>,
    /// `nextCursor` of a page or frame, instead of `after` and `epoch`.
    pub cursor: Option<String>,
    /// User of the feed, if the API key is used without a user.
    pub user_id: Option<UserId>,
}

/// Events of a run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Append<'a> {
    #[serde(borrow)]
    pub thread_id: IdText<'a>,
    #[serde(borrow)]
    pub run_id: IdText<'a>,
    /// producerSeq of the first event.
    #[serde(default, deserialize_with = "optional_number")]
    pub producer_seq: Option<u64>,
    /// Events as the client sent them.
    #[serde(borrow)]
    pub events: &'a RawValue,
    /// Validation that the events must pass.
    pub validate: Option<Validate>,
}

/// Run that a heartbeat or a stop names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    pub thread_id: ThreadId,
    pub run_id: RunId,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Incoming<'a> {
    id: Option<String>,
    subscribe: Option<Subscribe>,
    unsubscribe: Option<Thread>,
    subscribe_feed: Option<SubscribeFeed>,
    unsubscribe_feed: Option<Nothing>,
    #[serde(borrow)]
    append: Option<Append<'a>>,
    heartbeat: Option<Run>,
    stop: Option<Run>,
    ping: Option<Nothing>,
}

/// Reason why a text is not a frame.
#[derive(Debug)]
pub enum FrameError {
    /// Not a JSON object: the client does not speak this protocol.
    NotJson,
    /// JSON, but not a known frame; the `id`, if present, and the reason.
    Invalid(Option<String>, String),
}

/// Parses a frame, which must have exactly one of the members in [`CLIENT_FRAMES`].
pub fn parse(text: &str) -> Result<ClientMessage<'_>, FrameError> {
    // Serde would also accept an array, with its items as the members in order.
    if !text.trim_start().starts_with('{') {
        return Err(FrameError::NotJson);
    }
    let incoming: Incoming<'_> = match serde_json::from_str(text) {
        Ok(incoming) => incoming,
        Err(error) => {
            let is_object = json::depth(text.as_bytes(), MAX_JSON_DEPTH) <= MAX_JSON_DEPTH
                && serde_json::from_str::<&RawValue>(text).is_ok();
            let id = is_object.then(|| json::string_member(text, "id")).flatten();
            let reason = error.to_string();
            return Err(if is_object { FrameError::Invalid(id, reason) } else { FrameError::NotJson });
        }
    };
    let Incoming { id, subscribe, unsubscribe, subscribe_feed, unsubscribe_feed, append, heartbeat, stop, ping } =
        incoming;
    let mut frames = [
        subscribe.map(ClientFrame::Subscribe),
        unsubscribe.map(ClientFrame::Unsubscribe),
        subscribe_feed.map(ClientFrame::SubscribeFeed),
        unsubscribe_feed.map(|_| ClientFrame::UnsubscribeFeed),
        append.map(ClientFrame::Append),
        heartbeat.map(ClientFrame::Heartbeat),
        stop.map(ClientFrame::Stop),
        ping.map(|_| ClientFrame::Ping),
    ]
    .into_iter()
    .flatten();
    match (frames.next(), frames.next()) {
        (Some(frame), None) => Ok(ClientMessage { id, frame }),
        _ => {
            Err(FrameError::Invalid(id, format!("a frame must have exactly one of the members {}", names().join(", "))))
        }
    }
}

/// A number, perhaps written as a string.
struct Number(u64);

struct NumberVisitor;

impl de::Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a non-negative integer")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        text.parse().map(Number).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Number>::deserialize(deserializer)?.map(|number| number.0))
}

/// A server frame: `{"id":…,"<name>":body}`.
pub fn frame(id: Option<&str>, name: &str, body: &impl Serialize) -> String {
    let body = serde_json::to_string(body).unwrap_or_else(|_| "{}".to_owned());
    match id {
        Some(id) => format!("{{\"id\":{},\"{name}\":{body}}}", quoted(id)),
        None => format!("{{\"{name}\":{body}}}"),
    }
}

/// Start of the answers to a run's appends, after the id.
pub fn appended_start(thread: &ThreadId, run: &RunId) -> String {
    let (thread, run) = (quoted(thread.as_str()), quoted(run.as_str()));
    format!("\"appended\":{{\"threadId\":{thread},\"runId\":{run},\"firstSeq\":")
}

/// Answer to an append: a receipt as [`ReceiptView`](threadline_http::view::ReceiptView) shows it, after the text of
/// [`appended_start`]. Every append has an answer, so it is written by hand.
pub fn appended(id: Option<&str>, start: &str, receipt: &AppendReceipt) -> String {
    let mut out = String::with_capacity(start.len() + 224);
    let AppendReceipt { epoch, first_seq, last_seq, producer_seq, stop_requested, lease_until } = receipt;
    out.push('{');
    // Writing to a `String` cannot fail.
    if let Some(id) = id {
        let _ = write!(out, "\"id\":{},", quoted(id));
    }
    out.push_str(start);
    push_number(&mut out, *first_seq);
    out.push_str(",\"lastSeq\":");
    push_number(&mut out, *last_seq);
    out.push_str(",\"producerSeq\":");
    push_number(&mut out, *producer_seq);
    let _ = write!(out, ",\"epoch\":\"{epoch}\"");
    out.push_str(if *stop_requested { ",\"stopRequested\":true" } else { ",\"stopRequested\":false" });
    out.push_str(",\"leaseUntil\":");
    let _ = match lease_until {
        Some(until) => write!(out, "\"{until}\"}}}}"),
        None => write!(out, "null}}}}"),
    };
    out
}

/// Writes a decimal number without the cost of `std::fmt`.
fn push_number(out: &mut String, mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Common parts of the frames of one subscription.
#[derive(Debug)]
pub struct FrameTag {
    pub thread: ThreadId,
    /// Incarnation of the thread's log.
    pub epoch: Epoch,
    start: String,
}

impl FrameTag {
    pub fn new(thread: ThreadId, epoch: Epoch) -> Self {
        let start =
            format!("{{\"events\":{{\"threadId\":{},\"epoch\":\"{epoch}\",\"batches\":[", quoted(thread.as_str()));
        Self { thread, epoch, start }
    }

    /// Frame of one batch: encoded once, and the same for every subscriber.
    pub fn shared(&self, batch: &Batch) -> Utf8Bytes {
        utf8(batch.encoded(|batch| self.events(std::iter::once(batch), batch.body.len())))
    }

    /// One frame for several batches.
    pub fn merged(&self, batches: &[Arc<Batch>]) -> Utf8Bytes {
        let bytes = batches.iter().map(|batch| batch.body.len()).sum();
        utf8(self.events(batches.iter().map(Arc::as_ref), bytes))
    }

    fn events<'a>(&self, batches: impl Iterator<Item = &'a Batch>, bytes: usize) -> Bytes {
        let mut out = BytesMut::with_capacity(self.start.len() + bytes + bytes / 8 + 256);
        out.extend_from_slice(self.start.as_bytes());
        let mut same_run: Option<(&RunId, String)> = None;
        for (index, batch) in batches.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let run = match same_run.take() {
                Some(same) if *same.0 == batch.run => same,
                _ => (&batch.run, quoted(batch.run.as_str())),
            };
            let run = &same_run.insert(run).1;
            // Writing to a buffer cannot fail.
            let _ = write!(
                out,
                "{comma}{{\"seq\":{},\"runId\":{run},\"at\":\"{}\",\"events\":[",
                batch.first_seq, batch.at
            );
            let start = out.len();
            out.extend_from_slice(&batch.body);
            // Newlines occur only between events.
            for at in memchr::memchr_iter(b'\n', &batch.body) {
                out[start + at] = b',';
            }
            out.extend_from_slice(b"]}");
        }
        out.extend_from_slice(b"]}}");
        out.freeze()
    }
}

fn names() -> Vec<&'static str> {
    CLIENT_FRAMES.0.iter().map(|(name, _)| *name).collect()
}

fn utf8(bytes: Bytes) -> Utf8Bytes {
    // Events were validated as UTF-8 on arrival; this conversion only checks them again.
    Utf8Bytes::try_from(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_frame_is_understood() {
        for (name, _) in CLIENT_FRAMES.0 {
            let body = match *name {
                "subscribe" | "unsubscribe" => r#"{"threadId":"t"}"#,
                "append" => r#"{"threadId":"t","runId":"r","producerSeq":"7","events":[{"type":"A"}]}"#,
                "heartbeat" | "stop" => r#"{"threadId":"t","runId":"r"}"#,
                _ => "{}",
            };
            let text = format!(r#"{{"id":"1","{name}":{body}}}"#);
            let parsed = parse(&text).unwrap_or_else(|_| panic!("{name}"));
            assert_eq!((parsed.id.as_deref(), parsed.frame.name()), (Some("1"), *name));
        }
    }

    #[test]
    fn a_receipt_is_written_as_everywhere_else() {
        use threadline_core::Timestamp;
        use threadline_http::view::ReceiptView;
        let (thread, run) = (ThreadId::new("t\"1").expect("id"), RunId::new("r").expect("id"));
        for lease_until in [None, Some(Timestamp(1_795_255_875_120))] {
            let epoch = Epoch::generate();
            let receipt = AppendReceipt {
                epoch,
                first_seq: 0,
                last_seq: u64::MAX,
                producer_seq: 1_090,
                stop_requested: true,
                lease_until,
            };
            let start = appended_start(&thread, &run);
            let text = appended(Some("7\n"), &start, &receipt);
            let mut expected = serde_json::to_value(ReceiptView::new(&receipt)).expect("serializes");
            expected["threadId"] = "t\"1".into();
            expected["runId"] = "r".into();
            let expected = serde_json::json!({ "id": "7\n", "appended": expected });
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), expected);
            assert!(appended(None, &start, &receipt).starts_with("{\"appended\":{"));
        }
    }

    #[test]
    fn a_text_that_is_no_frame_is_refused() {
        for text in ["", "nonsense", "[]", "7", "{\"ping\":{}", "{\"a\":\u{7}}"] {
            assert!(matches!(parse(text), Err(FrameError::NotJson)), "{text}");
        }
        for text in [
            "{}",
            r#"{"id":"x"}"#,
            r#"{"id":"x","ping":{},"stop":{"threadId":"t","runId":"r"}}"#,
            r#"{"id":"x","subscribe":{"threadId":""}}"#,
            r#"{"id":"x","subscribe":{"threadId":"t","after":-1}}"#,
            r#"{"id":"x","dance":{}}"#,
        ] {
            assert!(matches!(parse(text), Err(FrameError::Invalid(..))), "{text}");
        }
        assert!(matches!(parse(r#"{"id":"x","dance":{}}"#), Err(FrameError::Invalid(Some(id), _)) if id == "x"));
    }
}
