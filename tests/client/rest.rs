//! Requests as they leave, answers as they are read.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::Request,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Redirect, Response},
};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json, value::RawValue};
use threadline_client::{
    Client, ClientConfig, ClientError, CreateThread, EventBody, EventQuery, FeedEntry, FeedQuery, PatchThread,
    RunStatus, StreamRun, ThreadOrder, ThreadQuery, ThreadStatus,
};
use tokio::sync::mpsc;

use super::support::*;

/// A request: method and path with query, content type, body.
pub type Sent = (String, String, String);

/// Answers everything with `answer`, and tells what was asked.
pub async fn answering(status: u16, answer: Value) -> (Server, mpsc::UnboundedReceiver<Sent>) {
    let (sent, receiver) = mpsc::unbounded_channel();
    let answer = Arc::new(answer);
    let handle = async move |request: Request| -> Response {
        let line = format!("{} {}", request.method(), request.uri());
        let kind = request.headers().get(CONTENT_TYPE).map_or("", |kind| kind.to_str().expect("text")).to_owned();
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("a body");
        sent.send((line, kind, String::from_utf8(body.to_vec()).expect("text"))).ok();
        let status = StatusCode::from_u16(status).expect("a status");
        if status == StatusCode::NO_CONTENT { status.into_response() } else { (status, Json(&*answer)).into_response() }
    };
    (Server::start(Router::new().fallback(handle)).await, receiver)
}

#[tokio::test]
async fn threads() {
    let (server, mut sent) = answering(200, thread_json("t/1")).await;
    let client = server.client();
    assert_eq!(client.thread("t/1 ü").await.expect("a thread").tail, 7);
    assert_eq!(sent.recv().await.expect("a request").0, "GET /v1/threads/t%2F1%20%C3%BC");
    let create = CreateThread { thread_id: Some("t".into()), ..CreateThread::default() };
    client.create_thread(&create).await.expect("a thread");
    let (line, kind, body) = sent.recv().await.expect("a request");
    assert_eq!(
        (line.as_str(), kind.as_str(), body.as_str()),
        ("POST /v1/threads", "application/json", r#"{"threadId":"t"}"#)
    );
    let patch = PatchThread { name: Some(None), archived: Some(true), ..PatchThread::default() };
    client.patch_thread("t", &patch, None).await.expect("a thread");
    assert_eq!(sent.recv().await.expect("a request").2, r#"{"name":null,"archived":true}"#);
    assert_eq!(client.mark_read("t/1", 5, Some("e1")).await.expect("a thread").thread_id, "t/1");
    let (line, _, body) = sent.recv().await.expect("a request");
    assert_eq!((line.as_str(), body.as_str()), ("PUT /v1/threads/t%2F1/read?epoch=e1", r#"{"seq":5}"#));

    let (server, mut sent) = answering(200, json!({ "runs": [], "nextCursor": "c1.n" })).await;
    let page = server.client().list_runs("t", Some(5), Some("c1.b")).await.expect("a page");
    assert_eq!(page.next_cursor.as_deref(), Some("c1.n"));
    assert_eq!(sent.recv().await.expect("a request").0, "GET /v1/threads/t/runs?limit=5&cursor=c1.b");

    let (server, mut sent) = answering(204, Value::Null).await;
    server.client().delete_thread("t", None).await.expect("deleted");
    assert_eq!(sent.recv().await.expect("a request").0, "DELETE /v1/threads/t");
    // Another thread has the id: the one that is meant is deleted.
    let (server, mut sent) = answering(410, problem("log-replaced", 410, false)).await;
    server.client().delete_thread("t", Some("e1")).await.expect("deleted");
    assert_eq!(sent.recv().await.expect("a request").0, "DELETE /v1/threads/t?epoch=e1");

    let page = json!({"threads": [thread_json("t")], "nextCursor": "c2", "feedCursor": 9, "feedEpoch": "e"});
    let (server, mut sent) = answering(200, page).await;
    let query = ThreadQuery {
        include_archived: true,
        agent_id: Some("a&b".into()),
        status: Some(ThreadStatus::Failed),
        order: ThreadOrder::Created,
        limit: Some(2),
        cursor: Some("c1".into()),
        search: Some("Café".into()),
        user_id: None,
    };
    let page = server.client().list_threads(&query).await.expect("a page");
    assert_eq!((page.next_cursor.as_deref(), page.feed_cursor, &*page.feed_epoch), (Some("c2"), 9, "e"));
    let line = "GET /v1/threads?order=created&includeArchived=true&agentId=a%26b&status=failed&search=Caf%C3%A9&limit=2&cursor=c1";
    assert_eq!(sent.recv().await.expect("a request").0, line);
}

#[tokio::test]
async fn events_and_the_feed() {
    let envelope = r#"{"seq":3,"runId":"r","at":"-","event":{"type":"A", "n":1.0}}"#;
    let page =
        format!(r#"{{"threadId":"t","epoch":"e","tail":3,"events":[{envelope}],"nextCursor":"c1.n","hasMore":false}}"#);
    let router = Router::new().fallback(async move |_: Request| ([(CONTENT_TYPE, "application/json")], page));
    let server = Server::start(router).await;
    let query = EventQuery { after: Some(2), wait: Some(std::time::Duration::from_secs(1)), ..EventQuery::default() };
    let page = server.client().events("t", &query).await.expect("a page");
    assert_eq!(page.events[0].event.get(), r#"{"type":"A", "n":1.0}"#);
    assert_eq!(page.next_cursor, "c1.n");

    let entries = json!([{"cursor": 7, "type": "upsert", "threadId": "t", "thread": thread_json("t")},
                         {"cursor": 8, "type": "delete", "threadId": "u"}]);
    let (server, mut sent) =
        answering(200, json!({"epoch": "f", "entries": entries, "cursor": 8, "nextCursor": "c1.f", "hasMore": false}))
            .await;
    let page = server
        .client()
        .feed(&FeedQuery { epoch: Some("f".into()), after: 6, ..FeedQuery::default() })
        .await
        .expect("a page");
    assert!(matches!(&page.entries[0], FeedEntry::Upsert { cursor: 7, thread, .. } if thread.thread_id == "t"));
    assert!(matches!(&page.entries[1], FeedEntry::Delete { cursor: 8, thread_id } if thread_id == "u"));
    assert_eq!(sent.recv().await.expect("a request").0, "GET /v1/feed?after=6&epoch=f");
    let next = FeedQuery { cursor: Some(page.next_cursor), ..FeedQuery::default() };
    server.client().feed(&next).await.expect("a page");
    assert_eq!(sent.recv().await.expect("a request").0, "GET /v1/feed?cursor=c1.f");
}

#[tokio::test]
async fn runs() {
    let (server, mut sent) = answering(200, run_json("running", 2, false)).await;
    let client = server.client();
    assert_eq!(client.run_record("t", "r").await.expect("a run").status, RunStatus::Running);
    client.heartbeat("t", "r", Some(std::time::Duration::from_secs(30))).await.expect("a run");
    client.fail("t", "r", Some("code"), None).await.expect("a run");
    client.stop("t", "r").await.expect("a run");
    let mut next = async || {
        let (line, _, body) = sent.recv().await.expect("a request");
        format!("{line} {body}")
    };
    assert_eq!(next().await, "GET /v1/threads/t/runs/r ");
    assert_eq!(next().await, r#"POST /v1/threads/t/runs/r/heartbeat {"leaseSeconds":30}"#);
    assert_eq!(next().await, r#"POST /v1/threads/t/runs/r/fail {"code":"code"}"#);
    assert_eq!(next().await, "POST /v1/threads/t/runs/r/stop {}");

    let started = json!({"run": run_json("finished", 1, false), "epoch": "e", "cursor": 0});
    let (server, mut sent) = answering(201, started).await;
    let raw: Box<RawValue> = serde_json::from_str(r#"{"type":"A", "n":1.0}"#).expect("JSON");
    let body = EventBody::from_raw([&*raw]);
    server.client().append_complete_run("t", "r", Some("a"), body).await.expect("stored");
    let (line, kind, body) = sent.recv().await.expect("a request");
    assert_eq!(line, "PUT /v1/threads/t/runs/r?agentId=a");
    assert_eq!((kind.as_str(), body.as_str()), ("application/x-ndjson", "{\"type\":\"A\", \"n\":1.0}\n"));
}

#[tokio::test]
async fn a_streamed_run_is_one_request_and_may_be_answered_early() {
    let handle = async |request: Request| {
        // One line is enough for this server: it answers while the body is still open, as on a stop.
        let mut body = request.into_body().into_data_stream();
        let first = body.next().await.expect("a chunk").expect("bytes");
        assert_eq!(first, "{\"type\":\"A\"}\n");
        Json(json!({"run": run_json("stopped", 1, true), "epoch": "e", "cursor": 4}))
    };
    let server = Server::start(Router::new().fallback(handle)).await;
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{\"type\":\"A\"}\n"))]);
    let open_ended = first.chain(stream::pending());
    let options = StreamRun { run_id: Some("r".into()), ..StreamRun::default() };
    let started = server.client().stream_run("t", &options, open_ended).await.expect("an answer");
    assert_eq!((started.run.status, started.cursor), (RunStatus::Stopped, 4));
}

#[tokio::test]
async fn refusals_and_foreign_answers() {
    let mut facts = problem("run-active", 409, true);
    facts["run"] = run_json("running", 2, false);
    let (server, _sent) = answering(409, facts).await;
    let error = server.client().thread("t").await.expect_err("refused");
    let active = error.problem("run-active").expect("that problem");
    assert_eq!(active.facts["run"]["runId"], "r");

    let (server, _sent) = answering(200, json!({"hello": "world"})).await;
    let error = server.client().thread("t").await.expect_err("no thread");
    assert!(matches!(error, ClientError::Protocol(_)), "{error:?}");

    let moved = async |_: Request| Redirect::permanent("https://elsewhere.example/");
    let server = Server::start(Router::new().fallback(moved)).await;
    let error = server.client().thread("t").await.expect_err("moved");
    assert!(matches!(&error, ClientError::Config(text) if text.contains("https://elsewhere.example/")), "{error:?}");

    let client = Client::new(ClientConfig::new(closed_url().await)).expect("a client");
    let error = client.thread("t").await.expect_err("no server");
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
}
