//! Reading of the server's frames.
//!
//! Written by hand, because serde would gather an enum next to another member as a tree first, and raw values (the
//! events' own bytes) cannot be taken out of a tree.

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::{
    ClientError, FeedEntry, Problem,
    frame::{ServerFrame, TailMark},
};

impl<'a, E: Deserialize<'a>> ServerFrame<E> {
    /// Reads a frame, and the id of the client's frame that it answers. Fails with [`ClientError::Protocol`] if the
    /// text is no frame; a frame of an unknown name is [`ServerFrame::Unknown`].
    pub fn parse(text: &'a str) -> Result<(Option<String>, Self), ClientError> {
        let Members { id, frame } = serde_json::from_str(text)
            .map_err(|error| ClientError::Protocol(format!("the server sent a frame that cannot be read: {error}")))?;
        Ok((id, frame.unwrap_or(Self::Unknown)))
    }
}

struct Members<E> {
    id: Option<String>,
    frame: Option<ServerFrame<E>>,
}

impl<'de, E: Deserialize<'de>> Deserialize<'de> for Members<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FrameVisitor(PhantomData))
    }
}

struct FrameVisitor<E>(PhantomData<E>);

impl<'de, E: Deserialize<'de>> Visitor<'de> for FrameVisitor<E> {
    type Value = Members<E>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a frame")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members { id: None, frame: None };
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let frame = match name.as_ref() {
                "id" => {
                    members.id = map.next_value()?;
                    continue;
                }
                "events" => ServerFrame::Events(map.next_value()?),
                "appended" => ServerFrame::Appended(map.next_value()?),
                "hello" => ServerFrame::Hello(map.next_value()?),
                "caughtUp" => ServerFrame::CaughtUp(map.next_value()?),
                "fellBehind" => ServerFrame::FellBehind(map.next_value()?),
                "rebased" => ServerFrame::Rebased(map.next_value()?),
                "queue" => ServerFrame::Queue(map.next_value()?),
                "ended" => ServerFrame::Ended(map.next_value()?),
                "stopRequested" => ServerFrame::StopRequested(map.next_value()?),
                "stopping" => ServerFrame::Stopping(map.next_value()?),
                "alive" => ServerFrame::Alive(map.next_value()?),
                "error" => ServerFrame::Error(Box::new(Problem::from_members(map.next_value()?, 0))),
                "welcome" => {
                    let Welcome { protocol, heartbeat_seconds } = map.next_value()?;
                    ServerFrame::Welcome { protocol, heartbeat: Duration::from_secs(heartbeat_seconds) }
                }
                "heartbeat" => {
                    let Heartbeat { tails, feed_cursor } = map.next_value()?;
                    ServerFrame::Heartbeat { tails, feed_cursor }
                }
                "closing" => {
                    let Closing { code, reason, retry_after_ms } = map.next_value()?;
                    ServerFrame::Closing { code, reason, retry_after: retry_after_ms.map(Duration::from_millis) }
                }
                "feed" => {
                    let Feed { entries, cursor } = map.next_value()?;
                    ServerFrame::Feed { entries, cursor }
                }
                "feedHello" => {
                    let FeedHello { epoch, cursor } = map.next_value()?;
                    ServerFrame::FeedHello { epoch, cursor }
                }
                "feedRebased" => {
                    let FeedHello { epoch, cursor } = map.next_value()?;
                    ServerFrame::FeedRebased { epoch, cursor }
                }
                "feedCaughtUp" => ServerFrame::FeedCaughtUp { cursor: map.next_value::<Cursor>()?.cursor },
                "feedEnded" => {
                    map.next_value::<IgnoredAny>()?;
                    ServerFrame::FeedEnded
                }
                "pong" => {
                    map.next_value::<IgnoredAny>()?;
                    ServerFrame::Pong
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            members.frame = Some(frame);
        }
        Ok(members)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Welcome {
    protocol: String,
    heartbeat_seconds: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Heartbeat {
    #[serde(default)]
    tails: Vec<TailMark>,
    feed_cursor: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Closing {
    code: u16,
    #[serde(default)]
    reason: String,
    retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Feed {
    entries: Vec<FeedEntry>,
    cursor: u64,
}

#[derive(Deserialize)]
struct FeedHello {
    epoch: String,
    cursor: u64,
}

#[derive(Deserialize)]
struct Cursor {
    cursor: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::Hold;
    use crate::frame::{ClientFrame, EndReason, event_array};

    fn parse(text: &str) -> ServerFrame {
        ServerFrame::parse(text).expect("a frame").1
    }

    #[test]
    fn events_keep_their_own_bytes() {
        let text = r#"{"events":{"threadId":"t","epoch":"e","batches":[
            {"seq":11,"runId":"r","at":"2026-11-21T10:11:15.123Z","events":[{"type":"A", "n":1.0,"n":2},{"type":"\u0041"}]}]}}"#;
        let (id, frame) = ServerFrame::<&RawValue>::parse(text).expect("a frame");
        assert_eq!(id, None);
        let ServerFrame::Events(events) = frame else { panic!("not events") };
        let batch = &events.batches[0];
        assert_eq!((batch.seq, &*batch.run_id, &*events.thread_id), (11, "r", "t"));
        let payloads: Vec<_> = batch.events.iter().map(|event| event.get()).collect();
        assert_eq!(payloads, [r#"{"type":"A", "n":1.0,"n":2}"#, r#"{"type":"\u0041"}"#]);
    }

    #[test]
    fn every_frame_of_the_contract_is_read() {
        let ServerFrame::Welcome { protocol, heartbeat } =
            parse(r#"{"welcome":{"protocol":"threadline.v1","heartbeatSeconds":15}}"#)
        else {
            panic!("not welcome")
        };
        assert_eq!((protocol.as_str(), heartbeat), ("threadline.v1", Duration::from_secs(15)));
        assert!(matches!(
            parse(r#"{"hello":{"threadId":"t","epoch":"e","tail":9,"after":3}}"#),
            ServerFrame::Hello(hello) if hello.after == 3 && hello.tail == 9 && hello.run_id.is_none()
        ));
        assert!(matches!(
            parse(r#"{"caughtUp":{"threadId":"t","epoch":"e","seq":9}}"#),
            ServerFrame::CaughtUp(position) if position.seq == 9
        ));
        let queue = |held: &str| {
            parse(&format!(r#"{{"queue":{{"threadId":"t","epoch":"e","version":7,"queued":2,"held":{held}}}}}"#))
        };
        for (held, read) in [
            ("null", None),
            (r#""stop""#, Some(Hold::Stop)),
            (r#""error""#, Some(Hold::Error)),
            (r#""hand""#, Some(Hold::Hand)),
            (r#""later""#, Some(Hold::Unknown)),
        ] {
            let ServerFrame::Queue(frame) = queue(held) else { panic!("not queue") };
            assert_eq!((frame.state.version, frame.state.queued, frame.state.held), (7, 2, read));
        }
        assert!(matches!(
            parse(r#"{"ended":{"threadId":"t","epoch":"e","seq":9,"reason":"run-ended"}}"#),
            ServerFrame::Ended(ended) if ended.reason == EndReason::RunEnded
        ));
        assert!(matches!(
            parse(r#"{"heartbeat":{"tails":[{"threadId":"t","epoch":"e","tail":4}]}}"#),
            ServerFrame::Heartbeat { tails, feed_cursor: None } if tails[0].tail == 4
        ));
        assert!(matches!(
            parse(r#"{"closing":{"code":4000,"reason":"draining","retryAfterMs":500}}"#),
            ServerFrame::Closing { code: 4000, retry_after: Some(wait), .. } if wait == Duration::from_millis(500)
        ));
        assert!(matches!(
            parse(r#"{"feed":{"entries":[{"cursor":8,"type":"delete","threadId":"t"}],"cursor":8}}"#),
            ServerFrame::Feed { entries, cursor: 8 } if matches!(&entries[0], FeedEntry::Delete { cursor: 8, .. })
        ));
        let appended =
            r#"{"threadId":"t","runId":"r","firstSeq":1,"lastSeq":2,"producerSeq":2,"epoch":"e","stopRequested":true}"#;
        assert!(matches!(
            parse(&format!(r#"{{"appended":{appended}}}"#)),
            ServerFrame::Appended(appended) if appended.last_seq == 2 && appended.stop_requested
        ));
        let run = r#"{"threadId":"t","runId":"r","agentId":null,"status":"running","errorCode":null,"errorMessage":null,
            "firstSeq":1,"lastSeq":0,"producerSeq":0,"startedAt":"-","endedAt":null,"leaseUntil":null,"stopRequested":true}"#;
        assert!(matches!(parse(&format!(r#"{{"stopping":{run}}}"#)), ServerFrame::Stopping(run) if run.run_id == "r"));
        assert!(matches!(parse(&format!(r#"{{"alive":{run}}}"#)), ServerFrame::Alive(run) if run.stop_requested));
        assert!(matches!(
            parse(r#"{"id":"3","ended":{"threadId":"t","reason":"unsubscribed"}}"#),
            ServerFrame::Ended(ended) if ended.reason == EndReason::Unsubscribed && ended.seq.is_none()
        ));
        assert!(matches!(parse(r#"{"feedEnded":{}}"#), ServerFrame::FeedEnded));
        assert!(matches!(parse(r#"{"pong":{}}"#), ServerFrame::Pong));
        assert!(matches!(parse(r#"{"something":{"new":[1]}}"#), ServerFrame::Unknown));
    }

    #[test]
    fn an_error_names_the_frame_that_caused_it() {
        let text = r#"{"error":{"slug":"thread-not-found","title":"No","status":404,"retryable":false},"id":"7"}"#;
        let (id, frame) = ServerFrame::<Box<RawValue>>::parse(text).expect("a frame");
        assert_eq!(id.as_deref(), Some("7"));
        assert!(matches!(frame, ServerFrame::Error(problem) if problem.slug == "thread-not-found"));
    }

    #[test]
    fn an_invalid_frame_is_an_error() {
        for text in ["", "[]", "{", r#"{"hello":{}}"#] {
            assert!(matches!(ServerFrame::<Box<RawValue>>::parse(text), Err(ClientError::Protocol(_))), "{text}");
        }
    }

    #[test]
    fn our_frames_have_one_member_beside_the_id() {
        let subscribe =
            ClientFrame::Subscribe { thread_id: "t".into(), after: 3, epoch: Some("e".into()), run_id: None };
        assert_eq!(
            subscribe.to_text(Some("1")).expect("text"),
            r#"{"id":"1","subscribe":{"threadId":"t","after":3,"epoch":"e"}}"#
        );
        assert_eq!(ClientFrame::Ping {}.to_text(None).expect("text"), r#"{"ping":{}}"#);
        let append = ClientFrame::Append {
            thread_id: "t".into(),
            run_id: "r".into(),
            producer_seq: Some(1),
            events: event_array(b"{\"type\":\"A\", \"n\":1.0}\n{\"type\":\"B\"}").expect("events"),
        };
        assert_eq!(
            append.to_text(None).expect("text"),
            r#"{"append":{"threadId":"t","runId":"r","producerSeq":1,"events":[{"type":"A", "n":1.0},{"type":"B"}]}}"#
        );
    }
}
