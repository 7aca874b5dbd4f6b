//! What the commands print.

use std::future::{pending, ready};

use axum::{Json, Router, extract::Query, routing::get};
use clap::Parser;
use serde_json::{Value, json};
use threadline::cli::{Cli, CliError, Command, TailArgs, ThreadsArgs, tail, threads};
use threadline_client::{Client, ClientConfig, ClientError};

use super::support::*;

fn tail_args(line: &str) -> TailArgs {
    let cli = Cli::try_parse_from(format!("threadline tail {line}").split(' ')).expect("a command line");
    let Command::Tail(args) = cli.command else { panic!("not tail") };
    args
}

fn threads_args(line: &str) -> ThreadsArgs {
    let cli = Cli::try_parse_from(format!("threadline threads{line}").split(' ')).expect("a command line");
    let Command::Threads(args) = cli.command else { panic!("not threads") };
    args
}

async fn output(line: &str) -> String {
    let (server, _seen) = socket_server(|n, subscribe| {
        let after = subscribe["subscribe"]["after"].as_u64().expect("a cursor");
        let mut acts = vec![Act::Send(hello(after)), Act::Send(events(after + 1, after + 1))];
        // The first connection breaks, which the output must not show.
        acts.push(if n == 0 { Act::Cut } else { Act::Send(caught_up(after + 1)) });
        acts
    })
    .await;
    let mut out = Vec::new();
    tail::follow(&server.client(), &tail_args(line), &mut out, pending()).await.expect("followed");
    String::from_utf8(out).expect("text")
}

#[tokio::test]
async fn tail_prints_one_line_per_event_across_connections() {
    let lines = output("t --until-caught-up").await;
    let expected = [
        "      1  10:11:15.123  r             TEXT_MESSAGE_CONTENT     \"word 1\"\n",
        "      2  10:11:15.123  r             TEXT_MESSAGE_CONTENT     \"word 2\"\n",
    ];
    assert_eq!(lines, expected.concat());
    assert_eq!(output("t --until-caught-up --raw --after 4 --epoch e").await, format!("{}\n{}\n", event(5), event(6)));
    let json = output("t --until-caught-up --json").await;
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[1], json!({"seq": 2, "runId": "r", "at": "2026-11-21T10:11:15.123Z", "event": event(2)}));
}

#[tokio::test]
async fn tail_ends_well_with_its_run_and_when_interrupted() {
    let (server, _seen) =
        socket_server(|_, _| vec![Act::Send(hello(0)), Act::Send(events(1, 1)), Act::Send(ended("run-ended"))]).await;
    let mut out = Vec::new();
    tail::follow(&server.client(), &tail_args("t --run r --raw"), &mut out, pending()).await.expect("followed");
    assert_eq!(out, format!("{}\n", event(1)).into_bytes());
    tail::follow(&server.client(), &tail_args("t"), &mut Vec::new(), ready(())).await.expect("interrupted");
}

#[tokio::test]
async fn tail_reports_at_once_that_there_is_no_server() {
    let client = Client::new(ClientConfig::new(closed_url().await)).expect("a client");
    let result = tail::follow(&client, &tail_args("t"), &mut Vec::new(), pending()).await;
    assert!(matches!(&result, Err(CliError::Client(ClientError::Unreachable { .. }))), "{result:?}");
}

#[tokio::test]
async fn threads_go_through_pages_up_to_the_limit() {
    #[derive(serde::Deserialize)]
    struct Asked {
        limit: usize,
        cursor: Option<usize>,
    }
    // A server whose pages hold two threads at most, of five.
    let list = async |Query(asked): Query<Asked>| {
        let from = asked.cursor.unwrap_or(0);
        let until = (from + asked.limit.min(2)).min(5);
        let threads: Vec<_> = (from..until).map(|n| thread_json(&format!("thread-{n}"))).collect();
        Json(
            json!({"threads": threads, "nextCursor": (until < 5).then(|| until.to_string()), "feedCursor": 0, "feedEpoch": "e"}),
        )
    };
    let server = Server::start(Router::new().route("/v1/threads", get(list))).await;
    let mut out = Vec::new();
    threads::list(&server.client(), &threads_args(" --limit 3"), &mut out).await.expect("listed");
    let expected = "\
THREAD    NAME              AGENT  EVENTS  RUN  LAST USED (UTC)
thread-0  Name of thread-0  -           7  -    2026-11-21 10:11:15
thread-1  Name of thread-1  -           7  -    2026-11-21 10:11:15
thread-2  Name of thread-2  -           7  -    2026-11-21 10:11:15
";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
    let mut out = Vec::new();
    threads::list(&server.client(), &threads_args(" --json"), &mut out).await.expect("listed");
    let out = String::from_utf8(out).expect("text");
    let ids: Vec<Value> =
        out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["threadId"].clone()).collect();
    assert_eq!(ids, ["thread-0", "thread-1", "thread-2", "thread-3", "thread-4"]);
}

#[tokio::test]
async fn threads_are_listed_by_state_and_show_a_failure() {
    let list = async |request: axum::extract::Request| {
        let mut thread = thread_json("t");
        thread["lastRun"] =
            json!({"runId": "r", "status": "abandoned", "errorCode": null, "endedAt": "2026-11-21T10:11:15.123Z"});
        thread["name"] = json!(request.uri().query());
        Json(json!({"threads": [thread], "nextCursor": null, "feedCursor": 0, "feedEpoch": "e"}))
    };
    let server = Server::start(Router::new().route("/v1/threads", get(list))).await;
    let mut out = Vec::new();
    threads::list(&server.client(), &threads_args(" --status failed"), &mut out).await.expect("listed");
    let out = String::from_utf8(out).expect("text");
    assert!(out.contains("status=failed") && out.contains("  abandoned  "), "{out}");
    let refused = Cli::try_parse_from(["threadline", "threads", "--status", "broken"]).expect_err("no such state");
    assert!(refused.to_string().contains("running, waiting, failed, idle"), "{refused}");
}
