//! Shutting down: every client is notified, and no event is lost.

use bytes::Bytes;
use reqwest::Method;
use serde_json::json;
use tokio::{net::TcpStream, sync::mpsc};

use crate::harness::{Backend, Options, Server, eventually, number, raw::Raw, sse::Events};

#[tokio::test]
async fn all_clients_are_closed_with_a_reason_and_a_streamed_run_continues_after_the_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let mut socket = server.socket("dev").await;
    socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
    socket.frame("hello").await;
    socket.frame("caughtUp").await;
    let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events")).await;
    events.named("hello").await;
    events.named("caught_up").await;
    let mut feed = Events::open(dev.request(Method::GET, "/v1/feed")).await;
    feed.named("hello").await;
    let poll = tokio::spawn({
        let dev = dev.clone();
        let path = format!("/v1/threads/t/events?after=2&epoch={}&wait=60", dev.epoch("t").await);
        async move { dev.get(&path).await }
    });
    let (chunks, body) = mpsc::unbounded_channel::<Bytes>();
    let body = futures_util::stream::unfold(body, async |mut body| {
        let chunk = body.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), body))
    });
    let producer = tokio::spawn({
        let dev = dev.clone();
        let body = reqwest::Body::wrap_stream(body);
        async move { dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r&leaseSeconds=600", body).await }
    });
    chunks.send("{\"type\":\"A\"}\n{\"type\":\"B\"}\n".into()).expect("sent");
    assert_eq!(socket.frame("events").await["batches"][0]["seq"], 1);
    events.message().await;
    events.message().await;

    server.drain();
    let (closing, code) = socket.closed().await;
    let facts = (code, &closing["reason"], &closing["reconnect"], closing["retryAfterMs"].is_u64());
    assert_eq!(facts, (4000, &json!("draining"), &json!(true), true));
    let goodbye = events.named("closing").await;
    assert!(goodbye.retry.is_some());
    assert_eq!((goodbye.json()["code"].as_u64(), events.next().await), (Some(4000), None));
    while feed.next().await.is_some_and(|event| event.event.as_deref() != Some("closing")) {}
    assert_eq!(feed.next().await, None);
    let refused = producer.await.expect("answered");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.problem(503, "draining")["retryable"], true);
    let polled = poll.await.expect("answered");
    assert!(matches!(polled.status, 200 | 416), "{}", polled.text());
    drop(chunks);
    server.stop().await;

    // The same directory, another server: no event is lost, and the run continues from the beginning of its body.
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    let run = dev.get("/v1/threads/t/runs/r").await.ok(200);
    assert_eq!((&run["status"], number(&run, "producerSeq")), (&json!("running"), 2));
    let whole = "{\"type\":\"A\"}\n{\"type\":\"B\"}\n{\"type\":\"C\"}\n{\"type\":\"RUN_FINISHED\"}\n";
    let answer = dev.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", whole).await.ok(200);
    assert_eq!(answer["run"]["status"], "finished");
    assert_eq!(dev.types("t").await, ["A", "B", "C", "RUN_FINISHED"]);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_server_stops_at_once_with_clients_connected() {
    let mut server = Server::start(Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let silent = crate::harness::raw::Raw::connect(server.addr).await;
    let mut half = crate::harness::raw::Raw::connect(server.addr).await;
    half.write("GET /heal").await;
    let mut idle = crate::harness::raw::Raw::connect(server.addr).await;
    idle.write("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    idle.answer().await.ok(200);
    let begun = std::time::Instant::now();
    server.drain();
    assert!(idle.rest().await.is_empty());
    server.stop().await;
    // Half a request is waited for, but not for ever.
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
    drop((silent, half));
}

#[tokio::test]
async fn acknowledged_events_are_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.post("/v1/threads", json!({ "threadId": "t", "name": "N", "metadata": { "k": "v" } })).await.ok(201);
    dev.put("/v1/threads/t/runs/w", json!([{ "type": "A" }])).await.ok(201);
    dev.run("t", "r").await;
    let before = dev.append("t", "r", 1, json!([{ "type": "B" }])).await.ok(200);
    let thread = dev.get("/v1/threads/t").await.ok(200);
    let list = eventually("the feed is written", async || {
        let list = dev.get("/v1/threads").await.ok(200);
        (number(&list, "feedCursor") >= 1).then_some(list)
    })
    .await;
    let log = dev.get("/v1/threads/t/events").await;
    server.stop().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    assert_eq!(dev.get("/v1/threads/t").await.ok(200), thread);
    assert_eq!(dev.get("/v1/threads").await.ok(200)["threads"], list["threads"]);
    assert_eq!(dev.get("/v1/threads/t/events").await.body, log.body);
    // The same request, sent again to another process.
    let again = dev.append("t", "r", 1, json!([{ "type": "B" }])).await.ok(200);
    assert_eq!((&again["firstSeq"], &again["epoch"]), (&before["firstSeq"], &before["epoch"]));
    dev.post("/v1/threads/t/runs", json!({ "runId": "s" })).await.problem(409, "run-active");
    dev.append("t", "r", 2, json!([{ "type": "C" }])).await.ok(200);
    server.stop().await;
}

#[tokio::test]
async fn a_partial_request_gets_an_error() {
    const HOST: &str = "Host: localhost\r\n";
    const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
    for (line, more) in [
        ("GET /readyz", ""),
        ("GET /v1/socket", UPGRADE),
        ("GET /ai/demo", UPGRADE),
        ("GET /langgraph/threads/t/stream/events", UPGRADE),
    ] {
        let mut server = Server::start(Options::memory()).await;
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("{line} HTTP/1.1\r\n{HOST}{more}")).await;
        // This request comes later: its answer proves that the server has read the half of the other one.
        server.client().get("/livez").await.ok(200);
        server.drain();
        let closed = async || TcpStream::connect(server.addr).await.is_err().then_some(());
        eventually("new connections are refused", closed).await;
        raw.write("\r\n").await;
        assert_eq!(raw.answer().await.problem(503, "draining")["retryable"], true, "{line}");
        server.stop().await;
    }
}
