//! The queue of a thread: requests and answers of the client, and what the commands print.

use std::{
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use clap::Parser;
use serde_json::{Value, json};
use threadline::cli::{Cli, CliError, Command, QueueArgs, RunArgs, ThreadsArgs, queue, run, threads};
use threadline_client::{Busy, ClientError, EditTurn, Hold, PlacedTurn, RunAnswer, RunOrTurn, StartRun, TurnPlace};

use super::{rest::answering, support::*};

fn command(line: &str) -> Command {
    let words = line.split(' ').map(|word| word.trim_matches('"'));
    Cli::try_parse_from(["threadline"].into_iter().chain(words)).expect("a command line").command
}

fn queue_args(line: &str) -> QueueArgs {
    let Command::Queue(args) = command(line) else { panic!("not queue") };
    args
}

fn run_args(line: &str) -> RunArgs {
    let Command::Run(args) = command(line) else { panic!("not run") };
    args
}

fn threads_args(line: &str) -> ThreadsArgs {
    let Command::Threads(args) = command(line) else { panic!("not threads") };
    args
}

fn turn(run: &str, content: &Value) -> Value {
    json!({"runId": run, "agentId": "demo", "askedBy": "user:ann", "at": "2026-11-21T10:11:15.123Z",
           "messages": [{"id": "m", "role": "user", "content": content}]})
}

fn queue_json(held: Value) -> Value {
    json!({"threadId": "t", "epoch": "e", "version": 7, "held": held,
           "items": [turn("r2", &json!("And in\nFrench?")), turn("r3", &json!([{"type": "text", "text": "And in German?"}]))]})
}

fn placed(run: &str, place: usize) -> PlacedTurn {
    PlacedTurn { run_id: run.into(), place, version: 4 }
}

fn ask() -> StartRun {
    let input = json!({"messages": []});
    StartRun { run_id: Some("r2".into()), agent_id: Some("a".into()), input: Some(input), ..StartRun::default() }
}

#[tokio::test]
async fn a_begun_run_is_told_from_a_queued_turn() {
    let waits = json!({"queued": {"runId": "r2", "place": 1, "version": 4}});
    let (server, mut sent) = answering(202, waits).await;
    let client = server.client();
    for (busy, body) in [
        (Some(Busy::Enqueue), r#"{"runId":"r2","agentId":"a","input":{"messages":[]},"busy":"enqueue"}"#),
        (Some(Busy::Interrupt), r#"{"runId":"r2","agentId":"a","input":{"messages":[]},"busy":"interrupt"}"#),
        (None, r#"{"runId":"r2","agentId":"a","input":{"messages":[]}}"#),
    ] {
        let start = StartRun { epoch: Some("e".into()), ..ask() };
        let answer = client.start_or_queue("t", &start, busy).await.expect("an answer");
        assert_eq!(answer, RunAnswer::Queued(placed("r2", 1)));
        let (line, _, sent) = sent.recv().await.expect("a request");
        assert_eq!((line.as_str(), sent.as_str()), ("POST /v1/threads/t/runs?epoch=e", body));
    }
    // A start at once says so, whatever the agent prefers, and does not take a queued turn for a run.
    let error = client.start_run("t", &ask()).await.expect_err("no run");
    assert!(matches!(&error, ClientError::Queued(turn) if turn.place == 1) && error.is_retryable(), "{error}");
    assert!(sent.recv().await.expect("a request").2.ends_with(r#""busy":"reject"}"#));
    client.start_run("t", &StartRun::default()).await.expect_err("no run");
    assert_eq!(sent.recv().await.expect("a request").2, "{}", "a producer's run has no choice");

    let started = json!({"run": run_json("running", 0, false), "epoch": "e", "cursor": 5});
    let (server, _sent) = answering(201, started).await;
    let answer = server.client().start_or_queue("t", &ask(), Some(Busy::Enqueue)).await.expect("an answer");
    assert!(matches!(answer, RunAnswer::Started(started) if started.cursor == 5));
}

#[tokio::test]
async fn a_run_is_read_though_it_has_not_begun() {
    let waits = json!({"runId": "r2", "agentId": "a", "status": "queued", "askedBy": null, "place": 3, "version": 4, "driven": true});
    let (server, _sent) = answering(200, waits).await;
    let client = server.client();
    assert_eq!(client.run_or_turn("t", "r2").await.expect("a turn"), RunOrTurn::Queued(placed("r2", 3)));
    let error = client.run_record("t", "r2").await.expect_err("no run");
    assert!(matches!(&error, ClientError::Queued(turn) if turn.place == 3), "{error}");
    let (server, _sent) = answering(200, run_json("running", 2, false)).await;
    let found = server.client().run_or_turn("t", "r").await.expect("a run");
    assert!(matches!(found, RunOrTurn::Run(run) if run.producer_seq == 2));
}

#[tokio::test]
async fn a_queue_is_read_and_changed() {
    let (server, mut sent) = answering(200, queue_json(json!("stop"))).await;
    let client = server.client();
    let queue = client.queue("t/1").await.expect("a queue");
    assert_eq!((queue.version, queue.held, queue.items.len()), (7, Some(Hold::Stop), 2));
    assert_eq!(queue.items[0].messages[0]["content"], "And in\nFrench?");
    let input = json!({"messages": []});
    let edit = EditTurn { input: Some(input), version: Some(7), ..EditTurn::default() };
    client.edit_turn("t", "r2", &edit, Some("e")).await.expect("a queue");
    for place in [TurnPlace::Before("r2".into()), TurnPlace::Last] {
        let edit = EditTurn { place: Some(place), ..EditTurn::default() };
        client.edit_turn("t", "r3", &edit, None).await.expect("a queue");
    }
    client.hold_queue("t", None).await.expect("a queue");
    client.release_queue("t", Some("e")).await.expect("a queue");
    client.start_turn("t", "r3", None).await.expect("a queue");
    let mut next = async || {
        let (line, _, body) = sent.recv().await.expect("a request");
        format!("{line} {body}")
    };
    assert_eq!(next().await, "GET /v1/threads/t%2F1/queue ");
    assert_eq!(next().await, r#"PATCH /v1/threads/t/queue/r2?epoch=e {"input":{"messages":[]},"version":7}"#);
    assert_eq!(next().await, r#"PATCH /v1/threads/t/queue/r3 {"before":"r2"}"#);
    assert_eq!(next().await, r#"PATCH /v1/threads/t/queue/r3 {"before":null}"#);
    assert_eq!(next().await, "POST /v1/threads/t/queue/hold ");
    assert_eq!(next().await, "POST /v1/threads/t/queue/release?epoch=e ");
    assert_eq!(next().await, "POST /v1/threads/t/queue/r3/start ");

    let (server, mut sent) = answering(204, Value::Null).await;
    server.client().remove_turn("t", "r2", None).await.expect("removed");
    assert_eq!(sent.recv().await.expect("a request").0, "DELETE /v1/threads/t/queue/r2");

    let mut begun = problem("turn-begun", 409, false);
    begun["run"] = run_json("running", 2, false);
    let (server, _sent) = answering(409, begun).await;
    let error = server.client().remove_turn("t", "r", None).await.expect_err("refused");
    assert_eq!(error.problem("turn-begun").expect("that problem").run_id(), Some("r"));
}

#[tokio::test]
async fn queues_are_printed_and_changed_by_commands() {
    let (server, mut sent) = answering(200, queue_json(Value::Null)).await;
    let client = server.client();
    let mut printed = async |line: &str| {
        let mut out = Vec::new();
        queue::carry_out(&client, &queue_args(line), &mut out).await.expect("carried out");
        (sent.recv().await.expect("a request"), String::from_utf8(out).expect("text"))
    };
    let expected = "\
r2  demo  user:ann  2026-11-21 10:11:15  And in\\nFrench?
r3  demo  user:ann  2026-11-21 10:11:15  And in German?
";
    let ((line, ..), out) = printed("queue t").await;
    assert_eq!((line.as_str(), out.as_str()), ("GET /v1/threads/t/queue", expected));
    let (_, out) = printed("queue t --json").await;
    assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON"), queue_json(Value::Null));
    assert_eq!(printed("queue -- hold").await.0.0, "GET /v1/threads/hold/queue");
    for (line, request, body) in [
        (
            "queue edit t r2 \"Hi\" --if-version 7",
            "PATCH /v1/threads/t/queue/r2",
            r#"{"input":{"messages":[{"role":"user","content":"Hi"}]},"version":7}"#,
        ),
        ("queue move t r3 --before r2", "PATCH /v1/threads/t/queue/r3", r#"{"before":"r2"}"#),
        ("queue move t r3 --last", "PATCH /v1/threads/t/queue/r3", r#"{"before":null}"#),
        ("queue hold t", "POST /v1/threads/t/queue/hold", ""),
        ("queue release t", "POST /v1/threads/t/queue/release", ""),
        ("queue start t r3", "POST /v1/threads/t/queue/r3/start", ""),
    ] {
        let ((sent, _, text), out) = printed(line).await;
        assert_eq!((sent.as_str(), text.as_str(), out.as_str()), (request, body, expected), "{line}");
    }
    let (_, out) = printed("queue release t --json").await;
    assert_eq!(serde_json::from_str::<Value>(&out).expect("JSON")["version"], 7);
    let remove = async || StatusCode::NO_CONTENT;
    let list = async || Json(queue_json(json!("hand")));
    let router = Router::new()
        .route("/v1/threads/t/queue", get(list))
        .route("/v1/threads/t/queue/r1", axum::routing::delete(remove));
    let server = Server::start(router).await;
    let mut out = Vec::new();
    queue::carry_out(&server.client(), &queue_args("queue remove t r1"), &mut out).await.expect("removed");
    assert_eq!(String::from_utf8(out).expect("text"), expected);
}

#[test]
fn a_command_line_that_says_too_little_or_too_much_is_refused() {
    for line in [
        "queue",
        "queue move t r3",
        "queue move t r3 --last --before r2",
        "queue edit t r3",
        "queue remove t",
        "queue hold",
        "queue t hold",
        "queue edit t r3 m --if-version old",
        "run t m --busy later",
    ] {
        let error = Cli::try_parse_from(["threadline"].into_iter().chain(line.split(' '))).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[tokio::test]
async fn threads_show_what_waits_in_them() {
    let list = async || {
        let mut threads = ["moves", "stopped", "empty"].map(thread_json);
        threads[0]["queued"] = json!(2);
        threads[1]["queued"] = json!(3);
        threads[1]["held"] = json!("stop");
        threads[1]["archived"] = json!(true);
        threads[2]["queued"] = json!(0);
        threads[2]["held"] = json!("hand");
        Json(json!({"threads": threads, "nextCursor": null, "feedCursor": 0, "feedEpoch": "e"}))
    };
    let server = Server::start(Router::new().route("/v1/threads", get(list))).await;
    let mut out = Vec::new();
    threads::list(&server.client(), &threads_args("threads"), &mut out).await.expect("listed");
    let expected = "\
THREAD   NAME             AGENT  EVENTS  RUN               LAST USED (UTC)
moves    Name of moves    -           7  2 queued          2026-11-21 10:11:15
stopped  Name of stopped  -           7  3 held, archived  2026-11-21 10:11:15
empty    Name of empty    -           7  held              2026-11-21 10:11:15
";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
    let mut out = Vec::new();
    threads::list(&server.client(), &threads_args("threads --json"), &mut out).await.expect("listed");
    let out = String::from_utf8(out).expect("text");
    let first: Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["queued"], &first["held"]), (&json!(2), &Value::Null));
}

/// A server in whose thread a message waits. Reads of its run are answered one after the other, the last answer again.
async fn waiting(answers: Vec<(u16, Value)>) -> Server {
    let thread = async || Json(thread_json("t"));
    let start = async || {
        let queued = json!({"queued": {"runId": "-", "place": 2, "version": 4}});
        (StatusCode::ACCEPTED, Json(queued)).into_response()
    };
    let reads = Arc::new(AtomicUsize::new(0));
    let read = async move || -> Response {
        let at = reads.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let (status, answer) = &answers[at];
        (StatusCode::from_u16(*status).expect("a status"), Json(answer)).into_response()
    };
    let routes = Router::new()
        .route("/v1/threads/t", get(thread))
        .route("/v1/threads/t/runs", post(start))
        .route("/v1/threads/t/runs/{run}", get(read));
    let script = |_: usize, first: &Value| {
        let subscribe = &first["subscribe"];
        if let Some(run) = subscribe["runId"].as_str() {
            let mut own = hello(7);
            own["hello"]["runId"] = json!(run);
            return vec![Act::Send(own), Act::Send(events(8, 9)), Act::Send(ended("run-ended"))];
        }
        assert_eq!((&subscribe["after"], &subscribe["epoch"]), (&json!(7), &json!("e")));
        let told = |version: u64| json!({"queue": {"threadId": "t", "epoch": "e", "version": version, "queued": 1, "held": null}});
        vec![Act::Send(hello(7)), Act::Send(caught_up(7)), Act::Send(told(5)), Act::Send(told(6))]
    };
    Server::start(routes.merge(socket_route(script).0)).await
}

fn turn_of(place: u64) -> (u16, Value) {
    (
        200,
        json!({"runId": "-", "agentId": "demo", "status": "queued", "askedBy": null, "place": place, "version": 5, "driven": true}),
    )
}

#[tokio::test]
async fn a_message_waits_for_its_turn_and_is_then_answered() {
    // A read without an answer is repeated, so that no news is missed.
    let again = (503, problem("store-unavailable", 503, true));
    let server = waiting(vec![turn_of(2), again, turn_of(1), (200, run_json("running", 0, false))]).await;
    let mut out = Vec::new();
    let args = run_args("run t Hello --busy enqueue");
    run::say(&server.client(), &args, &mut out, pending()).await.expect("answered");
    assert_eq!(String::from_utf8(out).expect("text"), "word 8word 9");
}

#[tokio::test]
async fn a_message_that_leaves_the_queue_is_an_error_and_an_interruption_leaves_it_there() {
    let server = waiting(vec![turn_of(2), (404, problem("run-not-found", 404, false))]).await;
    let args = run_args("run t Hello --busy interrupt");
    let gone = run::say(&server.client(), &args, &mut Vec::new(), pending()).await;
    assert!(matches!(&gone, Err(CliError::TurnGone(_))), "{gone:?}");
    let server = waiting(vec![turn_of(2)]).await;
    run::say(&server.client(), &args, &mut Vec::new(), ready(())).await.expect("interrupted");
}
