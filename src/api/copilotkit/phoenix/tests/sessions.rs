//! Tests of a client's session without a transport.

use threadline_core::{
    Limits,
    limits::{CHANNEL_PAYLOAD_DEPTH, MAX_BATCH_BYTES, MAX_CHANNELS, PAGE_BYTES},
};
use threadline_engine::limits::Quota;
use threadline_http::ws::{close::CloseCode, protocol::HandOver};

use super::{super::session::Session, *};

fn session() -> (Session<TestPlane>, Intercept) {
    let intercept = Intercept::default();
    (Session::new(Quota::new(Limits::default()), principal("ann"), intercept.plane()), intercept)
}

/// Processes frames, and returns the frames to be written.
async fn takes<const N: usize>(session: &mut Session<TestPlane>, frames: [&str; N]) -> Vec<Value> {
    for frame in frames {
        session.take(&[frame]).await.expect("a frame");
    }
    session.gather().expect("open");
    let out = session.take_out();
    session.written();
    values(out)
}

#[tokio::test]
async fn a_topic_is_joined_and_left() {
    let (mut session, intercept) = session();
    let out = takes(&mut session, [r#"["3","3","t:a","phx_join",{}]"#]).await;
    assert_eq!(out, [joined("3", "t:a")]);
    let out = takes(&mut session, [r#"["3","4","t:a","say",{"x": 1}]"#, r#"["3","5","t:a","dance",{}]"#]).await;
    let unknown = json!({ "status": "error", "response": { "reason": "unknown_event" } });
    assert_eq!(out, [ok("3", "4", "t:a"), json!(["3", "5", "t:a", "phx_reply", unknown])]);
    assert_eq!(intercept.taken(), [r#"{"x": 1}"#, "{}"]);
    intercept.push("t:a", 1);
    assert_eq!(takes(&mut session, []).await, [number("3", "t:a", 1)]);
    // Frames of joins that are not the current one are ignored.
    for stale in [r#"["2","6","t:a","say",{}]"#, r#"[null,"6","t:a","say",{}]"#, r#"["2","6","t:a","phx_leave",{}]"#] {
        assert_eq!(takes(&mut session, [stale]).await, [] as [Value; 0], "{stale}");
    }
    assert_eq!(intercept.taken(), [] as [String; 0]);
    let outgoing = intercept.outgoing("t:a");
    let out = takes(&mut session, [r#"["3","7","t:a","phx_leave",{}]"#]).await;
    assert_eq!(out, [ok("3", "7", "t:a"), json!(["3", null, "t:a", "phx_close", {}])]);
    assert!(outgoing.is_closed(), "the receiver is dropped");
    let out = takes(&mut session, [r#"["3","8","t:a","say",{}]"#, r#"["3","9","t:a","phx_leave",{}]"#]).await;
    let unmatched = json!({ "status": "error", "response": { "reason": "unmatched topic" } });
    assert_eq!(out, [json!(["3", "8", "t:a", "phx_reply", unmatched]), ok("3", "9", "t:a")]);
    let out =
        takes(&mut session, [r#"["4","10","u:a","phx_join",{}]"#, r#"[null,"11","phoenix","heartbeat",{}]"#]).await;
    let beat = json!([null, "11", "phoenix", "phx_reply", { "status": "ok", "response": {} }]);
    assert_eq!(out, [json!(["4", "10", "u:a", "phx_reply", unmatched]), beat]);
    session.end(HandOver::Complete).await;
    assert_eq!(intercept.closed(), Some(HandOver::Complete));
}

#[tokio::test]
async fn a_topic_joined_anew_begins_anew() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["3","3","t:a","phx_join",{}]"#]).await;
    intercept.push("t:a", 1);
    let before = intercept.outgoing("t:a");
    let out = takes(&mut session, [r#"["7","7","t:a","phx_join",{}]"#, r#"["3","8","t:a","say",{}]"#]).await;
    assert_eq!(out, [joined("7", "t:a")], "nothing more for the old join");
    assert!(before.is_closed());
    intercept.push("t:a", 2);
    assert_eq!(takes(&mut session, []).await, [number("7", "t:a", 2)]);
}

#[tokio::test]
async fn pushes_keep_their_order_and_take_turns() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#, r#"["2","2","t:b","phx_join",{}]"#]).await;
    for n in 0..4 {
        intercept.push("t:a", n);
    }
    intercept.push("t:b", 9);
    let out = takes(&mut session, []).await;
    assert_eq!(out.iter().position(|frame| *frame == number("2", "t:b", 9)), Some(1), "{out:?}");
    let of_a: Vec<_> = out.into_iter().filter(|frame| frame[2] == "t:a").collect();
    assert_eq!(of_a, [0, 1, 2, 3].map(|n| number("1", "t:a", n)));
    // A channel whose pushes have ended is still joined.
    intercept.look(|seen| seen.outgoing.remove("t:a"));
    intercept.push("t:b", 10);
    assert_eq!(
        takes(&mut session, [r#"["1","5","t:a","say",{}]"#]).await,
        [ok("1", "5", "t:a"), number("2", "t:b", 10)]
    );
}

#[tokio::test]
async fn no_more_is_gathered_than_there_is_room_for() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#]).await;
    for _ in 0..4 {
        let payload = format!("{{\"x\":\"{}\"}}", "x".repeat(PAGE_BYTES * 3 / 4));
        let push = Push { event: "number", payload };
        assert!(intercept.outgoing("t:a").send(Outgoing::Push(vec![push])).is_ok());
    }
    assert_eq!(takes(&mut session, []).await.len(), 2);
    session.gather().expect("open");
    let out = session.take_out();
    assert_eq!((out.len(), session.out_bytes()), (2, 0));
    session.put_back(out);
    assert!(session.out_bytes() > PAGE_BYTES && !session.has_room());
    assert_eq!(session.take_out().len(), 2);
}

#[tokio::test]
async fn a_channel_that_cannot_continue_is_joined_again_and_a_socket_that_cannot_is_closed() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#]).await;
    assert!(intercept.outgoing("t:a").send(Outgoing::Crashed).is_ok());
    assert_eq!(takes(&mut session, []).await, [json!(["1", "1", "t:a", "phx_error", {}])]);
    assert_eq!(takes(&mut session, [r#"["4","4","t:a","phx_join",{}]"#]).await, [joined("4", "t:a")]);
    for (hang_up, code) in [
        (super::super::channel::Disconnect::Draining, CloseCode::Draining),
        (super::super::channel::Disconnect::Failed, CloseCode::ServerError),
        (super::super::channel::Disconnect::CredentialOver, CloseCode::CredentialOver),
    ] {
        assert!(intercept.outgoing("t:a").send(Outgoing::Hangup(hang_up)).is_ok());
        assert_eq!(session.gather(), Err(code));
    }
}

#[tokio::test]
async fn invalid_frames_are_refused_with_a_reply() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#]).await;
    let deep = |levels: usize| format!(r#"["1","2","t:a","say",{{"a":{}{}}}]"#, "[".repeat(levels), "]".repeat(levels));
    let large = |bytes: usize| format!(r#"["1","2","t:a","say",{{"a":"{}"}}]"#, "x".repeat(bytes));
    assert_eq!(takes(&mut session, [&deep(CHANNEL_PAYLOAD_DEPTH - 1)]).await, [ok("1", "2", "t:a")]);
    assert_eq!(takes(&mut session, [&large(MAX_BATCH_BYTES - 8)]).await, [ok("1", "2", "t:a")]);
    assert_eq!(intercept.taken().len(), 2);
    for (frame, reason) in [(deep(CHANNEL_PAYLOAD_DEPTH), "too_deep"), (large(MAX_BATCH_BYTES), "too_large")] {
        let refused = json!({ "status": "error", "response": { "reason": reason, "retryable": false } });
        assert_eq!(takes(&mut session, [&frame]).await, [json!(["1", "2", "t:a", "phx_reply", refused])]);
    }
    for n in 1..MAX_CHANNELS {
        let frame = format!(r#"["{n}","{n}","t:{n}","phx_join",{{}}]"#);
        assert_eq!(takes(&mut session, [&frame]).await[0][4]["status"], "ok");
    }
    let refused = takes(&mut session, [r#"["99","99","t:more","phx_join",{}]"#]).await;
    assert_eq!(refused[0][4]["response"], json!({ "reason": "too_many_topics", "retryable": false }));
    // A second join of a topic does not increase the number of channels.
    assert_eq!(takes(&mut session, [r#"["100","100","t:a","phx_join",{}]"#]).await, [joined("100", "t:a")]);
    assert_eq!(intercept.taken(), [] as [String; 0]);
    assert_eq!(session.take(&["nonsense"]).await, Err(CloseCode::BadFrame));
}

#[tokio::test]
async fn values_behind_a_reply_are_held_until_it_is_written() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#]).await;
    session.take(&[r#"["1","2","t:a","held",{}]"#]).await.expect("a frame");
    intercept.push("t:a", 1);
    session.gather().expect("open");
    assert!(session.holds());
    assert_eq!(values(session.take_out()), [ok("1", "2", "t:a")], "first this");
    assert_eq!(intercept.look(|seen| seen.unwritten), 1);
    session.written();
    assert_eq!((intercept.look(|seen| seen.unwritten), session.holds()), (0, false));
    assert_eq!(takes(&mut session, []).await, [number("1", "t:a", 1)]);
}

#[tokio::test]
async fn of_a_client_that_is_gone_only_pushes_are_taken() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#, r#"["1","2","t:a","held",{}]"#]).await;
    session.take(&[r#"["1","3","t:a","held",{}]"#]).await.expect("a frame");
    session.be_over();
    assert_eq!((session.out_bytes(), intercept.look(|seen| seen.unwritten)), (0, 0));
    assert!(intercept.outgoing("t:a").is_closed());
    let late = [r#"["1","4","t:a","held",{"late":1}]"#, r#"["5","5","t:b","phx_join",{}]"#];
    assert_eq!(takes(&mut session, late).await, [] as [Value; 0]);
    assert_eq!(intercept.taken().last().map(String::as_str), Some(r#"{"late":1}"#));
    assert_eq!(intercept.look(|seen| (seen.unwritten, seen.outgoing.len())), (0, 1));
}

#[tokio::test]
async fn pushes_to_one_topic_that_come_together_are_taken_together() {
    let (mut session, intercept) = session();
    takes(&mut session, [r#"["1","1","t:a","phx_join",{}]"#, r#"["2","2","t:b","phx_join",{}]"#]).await;
    let frames = [
        r#"["1","3","t:a","say",{"n":3}]"#,
        r#"["1","4","t:a","say",{"n":4}]"#,
        r#"[null,"5","phoenix","heartbeat",{}]"#,
        r#"["1","6","t:a","say",{"n":6}]"#,
        r#"["2","7","t:b","say",{"n":7}]"#,
        r#"["1","8","t:b","say",{"n":8}]"#,
        r#"["2","9","t:b","dance",{"n":9}]"#,
        r#"["2","10","t:b","phx_leave",{}]"#,
        r#"["2","11","t:b","say",{"n":11}]"#,
    ];
    session.take(&frames).await.expect("frames");
    assert_eq!(intercept.look(|seen| std::mem::take(&mut seen.together)), [2, 1, 1, 1]);
    assert_eq!(intercept.taken(), [3, 4, 6, 7, 9].map(|n| format!("{{\"n\":{n}}}")));
    let out = values(session.take_out());
    let answered: Vec<_> = out.iter().filter_map(|frame| frame[1].as_str()).collect();
    assert_eq!(answered, ["3", "4", "5", "6", "7", "9", "10", "11"], "in their order; the stale one is ignored");
    // Frames before an invalid one are processed.
    let frames = [r#"["1","12","t:a","say",{"n":12}]"#, "nonsense", r#"["1","13","t:a","say",{"n":13}]"#];
    assert_eq!(session.take(&frames).await, Err(CloseCode::BadFrame));
    assert_eq!(intercept.taken(), ["{\"n\":12}"]);
}
