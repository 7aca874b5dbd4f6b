//! The socket by itself: its headers, the texts of refusals, both halves.

use axum::{Json, Router, http::StatusCode, routing::get};
use serde_json::{json, value::RawValue};
use threadline_client::{Client, ClientConfig, ClientError, ClientFrame, ServerFrame, event_array};

use super::support::*;

fn ping() -> ClientFrame {
    ClientFrame::Ping {}
}

#[tokio::test]
async fn key_and_user_travel_with_the_upgrade() {
    let (server, mut seen) = socket_server(|_, _| vec![Act::Send(json!({"pong": {}}))]).await;
    let mut config = server.config();
    (config.api_key, config.user) = (Some("tl_key".into()), Some("alice".into()));
    let mut socket = Client::new(config).expect("a client").socket().await.expect("a socket");
    socket.send(None, &ping()).await.expect("sent");
    assert!(matches!(socket.next().await.expect("a frame").1, ServerFrame::Pong));
    let Some(Seen::Headers(headers)) = seen.recv().await else { panic!("no headers") };
    assert_eq!(headers["sec-websocket-protocol"], "threadline.v1, bearer.tl_key");
    assert_eq!(headers["threadline-user"], "alice");
    socket.close().await.expect("closed");

    let (server, mut seen) = socket_server(|_, _| Vec::new()).await;
    let mut config = server.config();
    config.api_key = Some("base64/key==".into());
    Client::new(config).expect("a client").socket().await.expect("a socket");
    let Some(Seen::Headers(headers)) = seen.recv().await else { panic!("no headers") };
    assert_eq!(headers["authorization"], "Bearer base64/key==");
    assert_eq!(headers["sec-websocket-protocol"], "threadline.v1");
}

#[tokio::test]
async fn the_two_halves_work_apart_and_events_can_be_borrowed() {
    let (server, mut seen) = socket_server(|_, first| {
        vec![
            Act::Send(
                json!({"id": first["id"], "appended": {"threadId": "t", "runId": "r", "firstSeq": 1, "lastSeq": 2,
            "producerSeq": 2, "epoch": "e", "stopRequested": false}}),
            ),
            Act::Send(events(1, 2)),
            Act::Close(4008),
        ]
    })
    .await;
    let (mut writer, mut reader) = server.client().socket().await.expect("a socket").split();
    let append = ClientFrame::Append {
        thread_id: "t".into(),
        run_id: "r".into(),
        producer_seq: Some(1),
        events: event_array(b"{\"type\":\"A\"}\n{\"type\":\"B\"}").expect("events"),
    };
    writer.feed(Some("1"), &append).await.expect("fed");
    writer.flush().await.expect("flushed");
    assert_eq!(next_frame(&mut seen).await["append"]["events"], json!([{"type": "A"}, {"type": "B"}]));
    let (id, frame) = reader.next().await.expect("a frame");
    assert_eq!(id.as_deref(), Some("1"));
    assert!(matches!(frame, ServerFrame::Appended(appended) if appended.last_seq == 2));
    let text = reader.next_text().await.expect("a frame");
    let (_, frame) = ServerFrame::<&RawValue>::parse(&text).expect("readable");
    let ServerFrame::Events(events) = frame else { panic!("{frame:?}") };
    assert_eq!(events.batches[0].events[1].get(), event(2).to_string());
    let closed = reader.next().await.expect_err("closed");
    assert!(matches!(closed, ClientError::Closed { code: 4008, .. }) && closed.is_retryable());
}

#[tokio::test]
async fn a_refused_upgrade_reads_like_any_refusal() {
    let refuse = async || (StatusCode::UNAUTHORIZED, Json(problem("unauthorized", 401, false)));
    let server = Server::start(Router::new().route("/v1/socket", get(refuse))).await;
    let error = server.client().socket().await.expect_err("refused");
    assert!(error.problem("unauthorized").is_some() && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("THREADLINE_API_KEY"), "{error}");
}

#[tokio::test]
async fn a_server_other_than_threadline_is_recognized() {
    let server = Server::start(Router::new().route("/v1/socket", get(async || "a web page"))).await;
    let error = server.client().socket().await.expect_err("no socket");
    assert!(matches!(error, ClientError::Protocol(_)), "{error:?}");
    let elsewhere = Server::start(Router::new()).await;
    let error = elsewhere.client().socket().await.expect_err("no socket");
    assert!(!error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn https_is_spoken_and_a_server_without_it_is_an_error() {
    let url = closed_url().await.replace("http:", "https:");
    let client = Client::new(ClientConfig::new(url)).expect("a client");
    assert!(matches!(client.socket().await, Err(ClientError::Unreachable { .. })));
    let (server, _seen) = socket_server(|_, _| Vec::new()).await;
    let client = Client::new(ClientConfig::new(server.url.replace("http:", "https:"))).expect("a client");
    assert!(matches!(client.socket().await, Err(ClientError::Unreachable { .. })));
    assert!(matches!(client.thread("t").await, Err(ClientError::Unreachable { .. })));
}
