//! Sockets that the server closes because their client does not do its part, or because it cannot do its own.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Options, Server, Socket, eventually, number, raw::Raw, run, soon};

/// All frames that come until the socket is closed, and its code.
async fn to_the_end(socket: &mut Socket) -> (Vec<Value>, u16) {
    let mut frames = Vec::new();
    loop {
        match soon(socket.stream.next()).await.expect("a close comes first").expect("a message") {
            Message::Text(text) => frames.push(serde_json::from_str(text.as_str()).expect("JSON")),
            Message::Close(frame) => return (frames, frame.expect("a code").code.into()),
            _ => {}
        }
    }
}

/// The seqs of these frames' events.
fn seqs(frames: &[Value]) -> Vec<u64> {
    let batches = frames.iter().filter_map(|frame| frame["events"]["batches"].as_array()).flatten();
    batches.flat_map(|batch| (number(batch, "seq")..).take(batch["events"].as_array().expect("events").len())).collect()
}

#[tokio::test]
async fn a_stuck_reader_is_closed_with_4008_and_loses_no_event() {
    const EVENTS: u64 = 400;
    let options = Options::memory().with_timeouts(|patience| {
        // For as long as the test may take to come to the end.
        patience.close = Duration::from_secs(120);
        patience.write = Duration::from_secs(120);
    });
    let options = options.with_limits(|limits| {
        limits.write = Duration::from_millis(200);
        limits.slowest_read = usize::MAX;
    });
    run(options, async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
        socket.until("caughtUp").await;
        // Live, and from now on it reads nothing: more comes than fits into the ring and into the buffers on the way.
        let batch = json!(vec![json!({ "type": "A", "pad": "x".repeat(64 * 1_024) }); 40]);
        for first in (1..=EVENTS).step_by(40) {
            dev.append("t", "r", first, batch.clone()).await.ok(200);
        }
        eventually("the server gives it up", async || (server.followers() == 0).then_some(())).await;
        let (frames, code) = to_the_end(&mut socket).await;
        let closing = &frames.last().expect("a last frame")["closing"];
        assert_eq!((code, &closing["code"], &closing["reason"]), (4008, &json!(4008), &json!("slow-consumer")));
        assert_eq!((&closing["reconnect"], &closing["retryAfterMs"]), (&json!(true), &json!(0)));
        // The reader was served from the store before it was closed.
        assert!(frames.iter().any(|frame| frame.get("fellBehind").is_some()));
        let seen = seqs(&frames);
        let last = *seen.last().expect("events");
        assert!(seen.iter().copied().eq(1..=last) && last < EVENTS, "{last}");
        let mut again = server.socket("dev").await;
        let epoch = dev.epoch("t").await;
        again.send(json!({ "subscribe": { "threadId": "t", "after": last, "epoch": epoch } })).await;
        let mut frames = Vec::new();
        while frames.last().is_none_or(|frame: &Value| frame.get("caughtUp").is_none()) {
            frames.push(again.any().await);
        }
        assert!(seqs(&frames).into_iter().eq(last + 1..=EVENTS));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_is_closed_with_4009() {
    let options = Options::memory().with_timeouts(|patience| patience.heartbeat = Duration::from_millis(100));
    let options = options.with_limits(|limits| limits.socket_idle = Duration::from_secs(2));
    run(options, async |server: &Server| {
        // A client library would answer: raw bytes.
        let begun = Instant::now();
        let mut raw = Raw::connect(server.addr).await;
        raw.write(
            "GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
        let heard = raw.rest().await;
        let close =
            [0x88, 2 + b"idle".len() as u8, (4009u16 >> 8) as u8, (4009u16 & 0xff) as u8, b'i', b'd', b'l', b'e'];
        let text = String::from_utf8_lossy(&heard);
        assert!(heard.windows(close.len()).any(|bytes| bytes == close), "{text}");
        assert!(text.contains("\"reconnect\":true"), "{text}");
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        // Who answers, and says nothing else, stays.
        let mut socket = server.socket("dev").await;
        for _ in 0..25 {
            socket.frame("heartbeat").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_store_that_cannot_be_read_closes_the_socket_with_4001() {
    run(Options::memory().with_glass(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        server.intercept().unreadable.store(true, SeqCst);
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
        let (frames, code) = to_the_end(&mut socket).await;
        let closing = &frames.last().expect("a last frame")["closing"];
        assert_eq!((code, &closing["reason"], &closing["reconnect"]), (4001, &json!("server-error"), &json!(true)));
        assert_eq!(closing["retryAfterMs"], 1_000);
        server.intercept().unreadable.store(false, SeqCst);
        let mut again = server.socket("dev").await;
        again.send(json!({ "subscribe": { "threadId": "t" } })).await;
        assert_eq!(seqs(&[again.until("hello").await.1, json!({ "events": again.frame("events").await })]), [1]);
    })
    .await;
}
