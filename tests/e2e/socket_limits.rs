//! The socket: how it begins, and what it does not put up with.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use threadline_core::limits::MAX_SUBSCRIPTIONS;
use tokio::{io::AsyncWriteExt, time};
use tokio_tungstenite::tungstenite::{self, Message, protocol::CloseFrame};

use crate::harness::{Options, Server, Socket, run, socket::handshake, soon, text};

async fn with(protocols: Option<&str>, server: &Server) -> Result<(Socket, Option<String>), tungstenite::Error> {
    let mut request = handshake(&server.client());
    let headers = request.headers_mut();
    headers.remove("sec-websocket-protocol");
    headers.remove("authorization");
    if let Some(protocols) = protocols {
        headers.insert("sec-websocket-protocol", protocols.parse().expect("a value"));
    }
    let (socket, response) = Socket::connect(request).await?;
    let protocol = response.headers().get("sec-websocket-protocol");
    Ok((socket, protocol.map(|value| value.to_str().expect("text").to_owned())))
}

#[tokio::test]
async fn subprotocols_are_negotiated_and_the_key_is_never_echoed() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        for list in ["threadline.v1, bearer.secret", "bearer.secret, threadline.v1", "x, threadline.v1 ,bearer.secret"]
        {
            let (mut socket, protocol) = with(Some(list), server).await.expect("a socket");
            assert_eq!(protocol.as_deref(), Some("threadline.v1"), "{list}");
            socket.frame("welcome").await;
        }
        for list in [Some("threadline.v1"), Some("threadline.v1, bearer.wrong"), None] {
            match with(list, server).await {
                Err(tungstenite::Error::Http(response)) => {
                    assert_eq!(response.status(), 401, "{list:?}");
                    assert_eq!(response.headers()["content-type"], "application/problem+json");
                }
                other => panic!("{list:?}: {:?}", other.map(|_| "a socket")),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_foreign_version_is_sent_away_with_4510() {
    run(Options::memory(), async |server: &Server| {
        // The client asks for protocols, so it would refuse an answer without one: raw bytes.
        let mut raw = crate::harness::raw::Raw::connect(server.addr).await;
        raw.write(
            "GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: threadline.v9\r\n\r\n",
        )
        .await;
        let answer = raw.rest().await;
        let head = String::from_utf8_lossy(&answer).to_lowercase();
        assert!(head.starts_with("http/1.1 101") && !head.contains("sec-websocket-protocol"), "{head}");
        let close = [0x88, 2 + b"unsupported-version".len() as u8, (4510u16 >> 8) as u8, (4510u16 & 0xff) as u8];
        assert!(answer.windows(4).any(|four| four == close), "{head}");
        // Without any wish it is the only one there is.
        let (mut socket, protocol) = with(None, server).await.expect("a socket");
        assert_eq!(protocol, None);
        socket.frame("welcome").await;
    })
    .await;
}

#[tokio::test]
async fn invalid_json_closes_the_socket_with_the_reason() {
    run(Options::memory(), async |server: &Server| {
        let deep = format!("{{\"ping\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let bad = [
            Message::binary(b"{\"ping\":{}}".to_vec()),
            Message::text("nonsense"),
            Message::text(""),
            Message::text("[]"),
            Message::text("{\"ping\":{}"),
            Message::text(deep),
        ];
        for message in bad {
            let mut socket = server.socket("dev").await;
            socket.stream.send(message.clone()).await.expect("sent");
            let (closing, code) = socket.closed().await;
            let facts = (code, &closing["code"], &closing["reason"], &closing["reconnect"]);
            assert_eq!(facts, (4500, &json!(4500), &json!("bad-frame"), &json!(false)), "{message:.40?}");
        }
    })
    .await;
}

/// Else browsers take every end that they asked for as a broken connection.
#[tokio::test]
async fn a_clients_close_is_answered() {
    run(Options::memory(), async |server: &Server| {
        for close in [None, Some(CloseFrame { code: 1000.into(), reason: "bye".into() })] {
            let mut socket = server.socket("dev").await;
            soon(socket.stream.send(Message::Close(close.clone()))).await.expect("sent");
            let answer = soon(socket.stream.next()).await.expect("an answer").expect("a message");
            let Message::Close(answer) = answer else { panic!("{answer:?}") };
            assert_eq!(answer.map(|frame| frame.code), close.map(|frame| frame.code));
            assert!(soon(socket.stream.next()).await.is_none(), "the end");
        }
    })
    .await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_closes_the_socket_and_says_so() {
    run(Options::memory(), async |server: &Server| {
        for size in [16 * 1024 * 1024 + 1, 40 * 1024 * 1024] {
            let mut socket = server.socket("dev").await;
            let text = format!("{{\"id\":\"{}\",\"ping\":{{}}}}", "x".repeat(size));
            // The frame is written to its end although it is refused: the client must still read the reason.
            soon(socket.stream.send(Message::text(text))).await.expect("sent");
            let (closing, code) = socket.closed().await;
            assert_eq!((code, &closing["reason"], &closing["reconnect"]), (4509, &json!("too-large"), &json!(false)));
        }
    })
    .await;
}

#[tokio::test]
async fn an_unknown_frame_gets_an_error_and_the_socket_stays_open() {
    run(Options::memory(), async |server: &Server| {
        server.client().thread("t").await;
        let mut socket = server.socket("dev").await;
        let bad: &[Value] = &[
            json!({ "id": "x" }),
            json!({ "id": "x", "dance": {} }),
            json!({ "id": "x", "ping": {}, "unsubscribeFeed": {} }),
            json!({ "id": "x", "ping": { "more": 1 } }),
            json!({ "id": "x", "ping": null }),
            json!({ "id": "x", "subscribe": {} }),
            json!({ "id": "x", "subscribe": { "threadId": "" } }),
            json!({ "id": "x", "subscribe": { "threadId": "a\u{7}" } }),
            json!({ "id": "x", "subscribe": { "threadId": "y".repeat(257) } }),
            json!({ "id": "x", "subscribe": { "threadId": "t", "after": -1 } }),
            json!({ "id": "x", "subscribe": { "threadId": "t", "after": "1.5" } }),
            json!({ "id": "x", "subscribe": { "threadId": "t", "afte": 1 } }),
            json!({ "id": "x", "append": { "threadId": "t", "runId": "r" } }),
            json!({ "id": "x", "stop": { "threadId": "t" } }),
        ];
        for frame in bad {
            socket.send(frame.clone()).await;
            let problem = socket.problem("x", 400, "invalid-request").await;
            assert!(problem["detail"].is_string(), "{frame}");
        }
        for frame in ["{}", "{\"id\":7,\"ping\":{}}", "{\"id\":\"\\ud800\",\"ping\":{}}"] {
            socket.send_text(frame).await;
            let (id, problem) = socket.answer("error").await;
            assert_eq!((id, &problem["status"]), (None, &json!(400)), "{frame}");
        }
        for events in [json!({}), json!([]), json!([7]), json!([{ "type": "" }]), json!("text"), Value::Null] {
            let append = json!({ "threadId": "t", "runId": "r", "events": events });
            socket.send(json!({ "id": "x", "append": append })).await;
            socket.problem("x", 422, "invalid-event").await;
        }
        socket.send_text("{\"id\":\"é \\\"🦀\",\"ping\":{}}").await;
        assert_eq!(socket.answer("pong").await.0.as_deref(), Some("é \"🦀"));
        assert_eq!(server.client().types("t").await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_socket_has_a_limited_number_of_subscriptions() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        let mut socket = server.socket("dev").await;
        for index in 0..=MAX_SUBSCRIPTIONS {
            let id = format!("t{index}");
            dev.thread(&id).await;
            socket.send(json!({ "id": id, "subscribe": { "threadId": id } })).await;
            if index < MAX_SUBSCRIPTIONS {
                assert_eq!(socket.until("hello").await.0, Some(id));
                socket.frame("caughtUp").await;
            } else {
                let problem = socket.problem(&id, 409, "too-many-subscriptions").await;
                assert_eq!((&problem["limit"], &problem["value"]), (&json!("subscriptionsPerSocket"), &json!(256)));
                assert_eq!((&problem["threadId"], &problem["retryable"]), (&json!(id), &json!(false)));
            }
        }
        // One that is there may still be replaced, and one that ended makes room.
        socket.send(json!({ "subscribe": { "threadId": "t0" } })).await;
        socket.frame("hello").await;
        socket.frame("caughtUp").await;
        socket.send(json!({ "unsubscribe": { "threadId": "t0" } })).await;
        socket.frame("ended").await;
        socket.send(json!({ "subscribe": { "threadId": format!("t{MAX_SUBSCRIPTIONS}") } })).await;
        socket.frame("hello").await;
    })
    .await;
}

#[tokio::test]
async fn a_producer_of_many_runs_receives_stop_requests() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let mut socket = server.socket("dev").await;
        let append = |run: &str, kind: &str| {
            json!({ "append": { "threadId": "t", "runId": run, "producerSeq": 1, "events": [{ "type": kind }] } })
        };
        for index in 0..MAX_SUBSCRIPTIONS + 5 {
            let run = format!("r{index}");
            dev.run("t", &run).await;
            socket.send(append(&run, "RUN_FINISHED")).await;
            socket.frame("appended").await;
        }
        dev.run("t", "last").await;
        socket.send(append("last", "A")).await;
        socket.frame("appended").await;
        dev.act("t", "last", "stop").await.ok(202);
        socket.send(json!({ "ping": {} })).await;
        let first = socket.any().await;
        let second = socket.any().await;
        assert!(first.get("stopRequested").or(second.get("stopRequested")).is_some(), "{first} {second}");
    })
    .await;
}

/// The first of two frames of a text, `{"ping":{}}`, and a ping; masked with zeros.
const HALF: &[u8] = b"\x01\x85\0\0\0\0{\"pin";
const REST: &[u8] = b"\x80\x86\0\0\0\0g\":{}}";
const PING: &[u8] = b"\x89\x80\0\0\0\0";

fn impatient(options: Options) -> Options {
    options.with_limits(|limits| limits.message = Duration::from_millis(300))
}

#[tokio::test]
async fn half_a_message_is_not_waited_for_whatever_is_sent_meanwhile() {
    run(impatient(Options::memory()), async |server: &Server| {
        for half in [HALF, &HALF[..8], &HALF[..1]] {
            let mut socket = server.socket("dev").await;
            for piece in [HALF, PING, REST] {
                soon(socket.stream.get_mut().write_all(piece)).await.expect("sent");
            }
            socket.frame("pong").await;
            soon(socket.stream.get_mut().write_all(half)).await.expect("sent");
            // Between the frames of a message pings may stand; inside of one they would be a part of it.
            let closed = if half == HALF { Some(pinging(&mut socket).await) } else { None };
            let (closing, code) = match closed {
                Some(closed) => closed,
                None => socket.closed().await,
            };
            assert_eq!((text(&closing, "reason"), code), ("message-timeout", 4014), "{closing}");
            assert_eq!((&closing["reconnect"], &closing["code"]), (&json!(true), &json!(4014)));
        }
    })
    .await;
}

/// Sends ping after ping until the server closes.
async fn pinging(socket: &mut Socket) -> (Value, u16) {
    let mut closing = Value::Null;
    soon(async {
        loop {
            let _ = socket.stream.get_mut().write_all(PING).await;
            match time::timeout(Duration::from_millis(20), socket.stream.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => {
                    closing = serde_json::from_str::<Value>(text.as_str()).expect("JSON")["closing"].take();
                }
                Ok(Some(Ok(Message::Close(Some(frame))))) => return (closing.take(), frame.code.into()),
                Ok(Some(Ok(_))) | Err(_) => {}
                Ok(other) => panic!("{other:?}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_page_of_copilotkit_completes_its_messages_as_well() {
    run(impatient(Options::memory().with_key(crate::copilotkit::KEY)), async |server: &Server| {
        crate::copilotkit::thread(server, "t").await;
        let token = crate::copilotkit::lock(server, "t", "r").await;
        let mut page = crate::copilotkit::Frames::page(server, &token).await.expect("joined");
        soon(page.stream.get_mut().write_all(HALF)).await.expect("sent");
        assert_eq!(page.next().await, Err(1001));
    })
    .await;
}
