//! A producer whose server loses answers, drains, asks to stop, refuses.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{FutureExt, stream};
use serde_json::{Value, json};
use threadline_client::{Client, ClientError, Producer, RunOptions, RunStatus};
use threadline_core::NewEvents;
use tokio::sync::mpsc;

use super::support::*;

enum Answer {
    Json(u16, Value),
    /// The request has had its effect, but the answer never arrives.
    Lost,
}

struct Fake {
    server: Server,
    seen: mpsc::UnboundedReceiver<String>,
}

impl Fake {
    /// Answers starts with a running run, other requests from the list in order, and what comes after that with
    /// the run as it is.
    async fn start(answers: Vec<Answer>) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let handle = async move |request: Request| -> Response {
            let line = format!("{} {}", request.method(), request.uri());
            let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("a body");
            sender.send(format!("{line} {}", String::from_utf8_lossy(&body))).ok();
            let started = json!({"run": run_json("running", 0, false), "epoch": "e", "cursor": 0});
            let usual = if line.ends_with("/runs") { started } else { run_json("running", 0, false) };
            let answer = answers.lock().expect("lock").pop_front().unwrap_or(Answer::Json(200, usual));
            match answer {
                Answer::Json(status, body) => {
                    (StatusCode::from_u16(status).expect("a status"), Json(body)).into_response()
                }
                Answer::Lost => {
                    Body::from_stream(stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("cut"))])).into_response()
                }
            }
        };
        Self { server: Server::start(Router::new().fallback(handle)).await, seen }
    }

    async fn producer(&mut self, client: &Client, options: RunOptions) -> Producer {
        let options = RunOptions { run_id: Some("r".into()), ..options };
        let producer = client.run("t", options).await.expect("a run");
        assert_eq!(self.next().await, r#"POST /v1/threads/t/runs {"runId":"r","leaseSeconds":20}"#);
        producer
    }

    async fn next(&mut self) -> String {
        self.seen.recv().await.expect("a request")
    }
}

fn started() -> Answer {
    Answer::Json(201, json!({"run": run_json("running", 0, false), "epoch": "e", "cursor": 0}))
}

fn appended(last: u64, stop: bool) -> Answer {
    Answer::Json(
        200,
        json!({"firstSeq": 1, "lastSeq": last, "producerSeq": last, "epoch": "e", "stopRequested": stop,
               "leaseUntil": null}),
    )
}

fn refused(slug: &str, status: u16, retryable: bool) -> Answer {
    Answer::Json(status, problem(slug, status, retryable))
}

fn two() -> NewEvents {
    NewEvents::from_ndjson(b"{\"type\":\"A\", \"n\":1.0}\n{\"type\":\"B\"}").expect("events")
}

const FIRST_TWO: &str = "POST /v1/threads/t/runs/r/events?producerSeq=1 {\"type\":\"A\", \"n\":1.0}\n{\"type\":\"B\"}";

#[tokio::test]
async fn unacknowledged_appends_are_resent_with_the_same_number_and_bytes() {
    let answers = vec![
        started(),
        Answer::Lost,
        refused("draining", 503, true),
        Answer::Lost,
        appended(2, false),
        appended(3, false),
    ];
    let mut fake = Fake::start(answers).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    assert_eq!(producer.append(two()).await.expect("appended").last_seq, 2);
    for _ in 0..4 {
        assert_eq!(fake.next().await, FIRST_TWO);
    }
    assert_eq!(producer.next_producer_seq(), 3);
    producer.append_values(&[json!({"type": "C"})]).await.expect("appended");
    assert_eq!(fake.next().await, r#"POST /v1/threads/t/runs/r/events?producerSeq=3 {"type":"C"}"#);
}

#[tokio::test]
async fn a_start_without_an_answer_is_repeated_under_the_same_id() {
    let mut fake = Fake::start(vec![Answer::Lost, started()]).await;
    fake.server.client().run("t", RunOptions::default()).await.expect("a run");
    let first = fake.next().await;
    assert!(first.contains("\"runId\":"), "{first}");
    assert_eq!(fake.next().await, first);
}

#[tokio::test]
async fn a_batch_without_an_answer_is_kept_until_it_is_flushed() {
    let answers = vec![started(), Answer::Lost, appended(2, false)];
    let mut fake = Fake::start(answers).await;
    let mut config = fake.server.config();
    config.retry_for = Duration::ZERO;
    config.backoff.base = Duration::from_secs(9);
    config.backoff.max = Duration::from_secs(9);
    let client = Client::new(config).expect("a client");
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    let error = producer.append(two()).await.expect_err("no answer");
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(fake.next().await, FIRST_TWO);
    assert!(matches!(producer.append(two()).await, Err(ClientError::Unanswered)));
    assert_eq!(producer.flush().await.expect("appended").map(|appended| appended.last_seq), Some(2));
    assert_eq!(fake.next().await, FIRST_TWO);
    assert_eq!(producer.flush().await.expect("nothing to do"), None);
    assert_eq!(producer.next_producer_seq(), 3);
}

#[tokio::test]
async fn an_append_that_is_dropped_half_way_can_be_flushed() {
    let mut fake = Fake::start(vec![started(), appended(2, false)]).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    assert!(producer.append(two()).now_or_never().is_none());
    assert!(matches!(producer.append(two()).await, Err(ClientError::Unanswered)));
    assert!(producer.flush().await.expect("appended").is_some());
    assert_eq!(fake.next().await, FIRST_TWO);
}

#[tokio::test]
async fn a_refused_batch_takes_no_number() {
    let answers = vec![started(), refused("invalid-event", 422, false), appended(2, false)];
    let mut fake = Fake::start(answers).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    let error = producer.append(two()).await.expect_err("refused");
    assert!(error.problem("invalid-event").is_some(), "{error:?}");
    producer.append(two()).await.expect("appended");
    assert_eq!(fake.next().await, FIRST_TWO);
    assert_eq!(fake.next().await, FIRST_TWO);
    assert!(matches!(producer.append_values(&[json!({"no": "type"})]).await, Err(ClientError::Event(_))));
}

#[tokio::test]
async fn the_heart_beats_and_brings_the_stop() {
    let alive = |stop| Answer::Json(200, run_json("running", 0, stop));
    let answers = vec![started(), alive(false), Answer::Lost, alive(false), alive(true)];
    let mut fake = Fake::start(answers).await;
    let client = fake.server.client();
    let options = RunOptions { heartbeat: Some(Duration::from_millis(2)), ..RunOptions::default() };
    let producer = fake.producer(&client, options).await;
    let stop = producer.stop_token();
    for _ in 0..4 {
        assert_eq!(fake.next().await, r#"POST /v1/threads/t/runs/r/heartbeat {"leaseSeconds":20}"#);
    }
    stop.cancelled().await;
}

#[tokio::test]
async fn a_heartbeat_that_finds_the_run_ended_stops_the_producer() {
    for answer in [Answer::Json(200, run_json("error", 0, false)), refused("run-fenced", 409, false)] {
        let mut fake = Fake::start(vec![started(), answer]).await;
        let client = fake.server.client();
        let options = RunOptions { heartbeat: Some(Duration::from_millis(2)), ..RunOptions::default() };
        fake.producer(&client, options).await.stop_token().cancelled().await;
    }
}

#[tokio::test]
async fn an_append_brings_the_stop() {
    let mut fake = Fake::start(vec![started(), appended(2, true)]).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    assert!(!producer.stop_token().is_cancelled());
    assert!(producer.append(two()).await.expect("appended").stop_requested);
    assert!(producer.stop_token().is_cancelled());

    let mut fake = Fake::start(vec![started(), refused("run-fenced", 409, false)]).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    assert!(producer.append(two()).await.is_err_and(|error| error.problem("run-fenced").is_some()));
    assert!(producer.stop_token().is_cancelled());
}

#[tokio::test]
async fn an_active_run_is_delivered_at_once() {
    let mut fake = Fake::start(vec![refused("run-active", 409, true)]).await;
    let error = fake.server.client().run("t", RunOptions::default()).await.expect_err("refused");
    assert!(error.problem("run-active").is_some(), "{error:?}");
    fake.next().await;
    assert!(fake.seen.try_recv().is_err());
}

#[tokio::test]
async fn a_run_is_resumed_after_its_stored_events() {
    let known = Answer::Json(200, json!({"run": run_json("running", 5, true), "epoch": "e", "cursor": 0}));
    let mut fake = Fake::start(vec![known]).await;
    let client = fake.server.client();
    let producer = fake.producer(&client, RunOptions::default()).await;
    assert_eq!(producer.next_producer_seq(), 6);
    assert!(producer.stop_token().is_cancelled());
}

#[tokio::test]
async fn a_run_ends_once() {
    let finished = || Answer::Json(200, run_json("finished", 2, false));
    let mut fake = Fake::start(vec![started(), Answer::Lost, finished()]).await;
    let client = fake.server.client();
    let run = fake.producer(&client, RunOptions::default()).await.finish().await.expect("finished");
    assert_eq!(run.status, RunStatus::Finished);
    for _ in 0..2 {
        assert_eq!(fake.next().await, "POST /v1/threads/t/runs/r/finish?producerSeq=0 ");
    }

    // Its own terminal event ends it as well; then there is nothing to ask for.
    let mut fake = Fake::start(vec![started(), appended(1, false), finished()]).await;
    let client = fake.server.client();
    let mut producer = fake.producer(&client, RunOptions::default()).await;
    producer.append_values(&[json!({"type": "RUN_FINISHED"})]).await.expect("appended");
    producer.finish().await.expect("finished");
    fake.next().await;
    assert_eq!(fake.next().await, "GET /v1/threads/t/runs/r ");
}
