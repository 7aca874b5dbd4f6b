//! Frames of Phoenix channels, V2 JSON serializer: `[join_ref, ref, topic, event, payload]`.
//!
//! Payloads are passed through as text: this module neither parses nor serializes them.

use std::fmt::Write;

use serde_json::{Value, value::RawValue};
use threadline_core::{
    json::{self, quoted},
    limits::{MAX_CHANNEL_REF_BYTES, MAX_TOPIC_BYTES},
};

/// The only supported version, as the query parameter `vsn` of a handshake names it.
pub const VERSION: &str = "2.0.0";
/// Topic of the socket itself, for heartbeats.
pub const SOCKET_TOPIC: &str = "phoenix";
/// Event of a heartbeat, which shows that the other side is alive.
pub const HEARTBEAT: &str = "heartbeat";
/// Event with which a client joins a topic.
pub const JOIN: &str = "phx_join";
/// Event with which a client leaves a topic.
pub const LEAVE: &str = "phx_leave";

/// Frame from a client.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The `ref` of the join to which the frame belongs.
    pub join_ref: Option<String>,
    /// The `ref` of the frame, repeated in the reply.
    pub reference: Option<String>,
    pub topic: String,
    pub event: String,
    /// Payload: the text of a JSON object, not parsed further.
    pub payload: &'a RawValue,
}

impl<'a> Frame<'a> {
    /// Parses a frame. `None` if the text is no frame, or a ref, the topic or the event is too long.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (join_ref, reference, topic, event, payload): (Option<String>, Option<String>, String, String, &RawValue) =
            serde_json::from_str(text).ok()?;
        // Replies and pushes repeat the refs and the topic, so long ones would turn a small request into large output.
        let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= MAX_CHANNEL_REF_BYTES);
        let short = fits(&join_ref) && fits(&reference) && topic.len() <= MAX_TOPIC_BYTES;
        let whole = payload.get().starts_with('{') && short && event.len() <= MAX_CHANNEL_REF_BYTES;
        whole.then_some(Self { join_ref, reference, topic, event, payload })
    }

    /// True if the payload is nested deeper than `limit` levels.
    pub fn is_deeper_than(&self, limit: usize) -> bool {
        json::depth(self.payload.get().as_bytes(), limit) > limit
    }

    /// True if both frames belong to the same join of the same topic.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.topic, &self.join_ref) == (&other.topic, &other.join_ref)
    }

    /// Formats the reply to this frame.
    pub fn reply(&self, result: &Result<Value, Value>) -> String {
        let (status, response) = match result {
            Ok(response) => ("ok", response),
            Err(response) => ("error", response),
        };
        let mut out = start(self.join_ref.as_deref(), self.reference.as_deref(), &self.topic);
        // Writing to a `String` cannot fail.
        let _ = write!(out, "\"phx_reply\",{{\"status\":\"{status}\",\"response\":{response}}}]");
        out
    }
}

fn start(join_ref: Option<&str>, reference: Option<&str>, topic: &str) -> String {
    let token = |reference: Option<&str>| reference.map_or_else(|| "null".to_owned(), quoted);
    format!("[{},{},{},", token(join_ref), token(reference), quoted(topic))
}

/// Address of a channel's frames: one join of one topic.
#[derive(Debug)]
pub struct Address {
    join_ref: Option<String>,
    topic: String,
    start: String,
}

impl Address {
    /// Makes the address of the channel that the frame `join` joins.
    pub fn of(join: &Frame<'_>) -> Self {
        let start = start(join.join_ref.as_deref(), None, &join.topic);
        Self { join_ref: join.join_ref.clone(), topic: join.topic.clone(), start }
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// True if the frame belongs to this join; false if it belongs to an earlier one.
    pub fn is_of(&self, frame: &Frame<'_>) -> bool {
        self.join_ref == frame.join_ref
    }

    /// Formats a push to the channel's client.
    pub fn push(&self, event: &str, payload: &str) -> String {
        let mut out = String::with_capacity(self.start.len() + event.len() + payload.len() + 8);
        out.push_str(&self.start);
        out.push_str(&quoted(event));
        out.push(',');
        out.push_str(payload);
        out.push(']');
        out
    }

    /// Formats the confirmation that the client has left the channel.
    pub fn closed(&self) -> String {
        self.push("phx_close", "{}")
    }

    /// Formats the message that the channel has crashed; the client joins again.
    pub fn crashed(&self) -> String {
        let join_ref = self.join_ref.as_deref();
        format!("{}\"phx_error\",{{}}]", start(join_ref, join_ref, &self.topic))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn a_frame_and_what_is_answered() {
        let text = r#"["3","7","thread:a \"b\"\n","stop_run",{"run_id": "r"} ]"#;
        let frame = Frame::parse(text).expect("a frame");
        assert_eq!((frame.join_ref.as_deref(), frame.reference.as_deref()), (Some("3"), Some("7")));
        assert_eq!((frame.topic.as_str(), frame.event.as_str()), ("thread:a \"b\"\n", "stop_run"));
        assert_eq!(frame.payload.get(), r#"{"run_id": "r"}"#, "as it came");
        let topic = "thread:a \"b\"\n";
        let ok = json!(["3", "7", topic, "phx_reply", { "status": "ok", "response": {} }]);
        assert_eq!(value(&frame.reply(&Ok(json!({})))), ok);
        let error = json!(["3", "7", topic, "phx_reply", { "status": "error", "response": { "reason": "x" } }]);
        assert_eq!(value(&frame.reply(&Err(json!({ "reason": "x" })))), error);
        let address = Address::of(&frame);
        assert!(address.is_of(&frame));
        assert_eq!(value(&address.push("a\"", "{\"b\":1}")), json!(["3", null, topic, "a\"", { "b": 1 }]));
        assert_eq!(value(&address.closed()), json!(["3", null, topic, "phx_close", {}]));
        assert_eq!(value(&address.crashed()), json!(["3", "3", topic, "phx_error", {}]));
    }

    #[test]
    fn refs_may_be_missing() {
        let beat = Frame::parse(r#"[null,"12","phoenix","heartbeat",{}]"#).expect("a frame");
        let reply = json!([null, "12", "phoenix", "phx_reply", { "status": "ok", "response": {} }]);
        assert_eq!(value(&beat.reply(&Ok(json!({})))), reply);
        let address = Address::of(&beat);
        assert_eq!(value(&address.push("x", "{}")), json!([null, null, "phoenix", "x", {}]));
        let other = Frame::parse(r#"["1","12","phoenix","heartbeat",{}]"#).expect("a frame");
        assert!(!address.is_of(&other), "a frame without a ref is of a join without one only");
    }

    #[test]
    fn an_invalid_frame_is_none() {
        for text in [
            "",
            "{}",
            "[]",
            "nonsense",
            r#"["1","1","t","e"]"#,
            r#"["1","1","t","e",{},1]"#,
            r#"[1,"1","t","e",{}]"#,
            r#"["1","1",null,"e",{}]"#,
            r#"["1","1","t","e",[]]"#,
            r#"["1","1","t","e",null]"#,
            r#"["1","1","t","e",{}"#,
            r#"["1","1","t","e",{}] x"#,
            r#"["\ud800","1","t","e",{}]"#,
        ] {
            assert!(Frame::parse(text).is_none(), "{text}");
        }
        let deep = format!(r#"["1","1","t","e",{{"a":{}{}}}]"#, "[".repeat(10_000), "]".repeat(10_000));
        let deep = Frame::parse(&deep).expect("a frame");
        assert!(deep.is_deeper_than(200) && !deep.is_deeper_than(10_001));
    }
}
