//! Agents that push their runs themselves: a kill of the server costs them a moment and not one event.

use std::process::Command;

use serde_json::json;
use threadline_client::{CreateThread, RunOptions, RunStatus, StartRun};
use tokio::task::spawn_blocking;

use crate::{
    follow::{Reader, Seen, client, log},
    process::{Process, path, port, python, threadline},
};

/// Pushes a run and kills the server in the middle of it, while one reader is disconnected. Returns the log, and the
/// program's output.
async fn killed_while(name: &'static str, mut program: Command) -> (Vec<Seen>, String) {
    let data = tempfile::tempdir().expect("a directory");
    let port = port();
    let (mut server, url) = threadline(data.path(), port, None);
    let api = client(&url);
    // As the program does, so that there is something to follow.
    let thread = CreateThread { thread_id: Some("pushed".into()), ..CreateThread::default() };
    api.create_thread(&thread).await.expect("a thread");
    let (stays, mut leaves) = (Reader::start(&url, "pushed"), Reader::start(&url, "pushed"));
    program.args(["--thread", "pushed", "--url", &url]);
    let mut program = Process::start(name, program);
    leaves.counts(30).await;
    leaves.leave().await;
    stays.counts(60).await;
    assert!(api.thread("pushed").await.expect("the thread").active_run.is_some(), "the run was to be under way");
    server.kill();
    let before = stays.events();
    let (_server, _) = threadline(data.path(), port, None);
    stays.counts(before.len() + 20).await;
    leaves.come_back();

    let (program, status) = spawn_blocking(move || {
        let status = program.wait();
        (program, status)
    })
    .await
    .expect("a thread");
    assert!(status.success(), "{status}");
    let run = stays.events()[0].run.clone();
    assert_eq!(api.run_record("pushed", &run).await.expect("the run").status, RunStatus::Finished);
    stays.sees_end_of(&run).await;
    leaves.sees_end_of(&run).await;
    let (_, events) = log(&url, "pushed").await;
    assert_eq!(stays.events(), events, "the reader that stayed");
    assert_eq!(leaves.events(), events, "the reader that was away");
    assert_eq!(events[..before.len()], before[..], "what was delivered before the kill is still there");
    assert!(events.iter().all(|event| event.run == run), "it is one run");
    let ends: Vec<_> = events.iter().filter(|event| event.kind().starts_with("RUN_")).map(Seen::kind).collect();
    assert_eq!(ends, ["RUN_STARTED", "RUN_FINISHED"]);
    (events, program.said())
}

fn text(events: &[Seen], kind: &str) -> String {
    let pieces = events.iter().filter(|event| event.kind() == kind);
    pieces.map(|event| event.event()["delta"].as_str().expect("a delta").to_owned()).collect()
}

/// The example that needs nothing but Python: `-I -S` leaves it no other package.
fn push_a_run(pace: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-I", "-S", "-u"]).arg(path("examples/push_a_run.py")).args(["--pace", pace]);
    command.env_remove("THREADLINE_API_KEY").env_remove("THREADLINE_USER");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_pushed_with_the_standard_library_survives_the_server() {
    let (events, said) = killed_while("push_a_run.py", push_a_run("40")).await;
    assert!(said.contains("continuing after them"), "{said}");
    let sentences: String = (1..=20).map(|n| format!("This is sentence {n} of 20. ")).collect();
    assert_eq!(text(&events, "TEXT_MESSAGE_CONTENT"), format!("You said: Hello there\n\n{}", sentences.trim_end()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_pushed_by_a_real_agent_survives_the_server() {
    let mut program = python("examples/pydantic-ai/stream_live.py");
    program.args(["--delay", "0.01"]);
    let (events, said) = killed_while("stream_live.py", program).await;
    assert!(said.contains("Continuing with event"), "{said}");
    let answer = text(&events, "TEXT_MESSAGE_CONTENT");
    assert!(answer.contains("Shall I look up the tram home as well?"), "{answer}");
    let recorded = std::fs::read_to_string(path("examples/pydantic-ai/recorded-run.ndjson")).expect("the recording");
    let kinds = recorded.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let kinds: Vec<_> = kinds.map(|event| event["type"].as_str().expect("a type").to_owned()).collect();
    assert_eq!(events.iter().map(Seen::kind).collect::<Vec<_>>(), kinds, "not one event is missing or twice");
}

/// A program of `examples/rust`, as old as the server. Built with the features of the whole workspace, as the tests are: with
/// the root package's own, cargo would compile their dependencies a second time, in the middle of the tests.
fn example(name: &str) -> Command {
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_threadline")).parent().expect("a directory");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--workspace", "--example", name]).current_dir(path("."));
    if directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo").success(), "the example {name} is to be built");
    Command::new(directory.join("examples").join(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_in_rust_survive_the_server() {
    let sentence = (1..=200).map(|n| format!("word {n}")).collect::<Vec<_>>().join(" ");
    let mut produce = spawn_blocking(|| example("produce")).await.expect("a thread");
    produce.args([&sentence, "--pace", "20"]);
    let (events, said) = killed_while("produce", produce).await;
    assert_eq!((text(&events, "TEXT_MESSAGE_CONTENT"), said.trim()), (sentence, "Finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_in_rust_continues_after_a_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let port = port();
    let (mut server, url) = threadline(data.path(), port, None);
    let api = client(&url);
    let thread = CreateThread { thread_id: Some("notes".into()), ..CreateThread::default() };
    api.create_thread(&thread).await.expect("a thread");
    let mut run = api.run("notes", RunOptions::default()).await.expect("a run");
    let say =
        |delta: &str| [json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": delta })];
    run.append_values(&say("before\n")).await.expect("appended");
    let mut follow = spawn_blocking(|| example("follow")).await.expect("a thread");
    follow.args(["--thread", "notes", "--once", "--url", &url]);
    let mut follow = Process::start("follow", follow);
    follow = spawn_blocking(move || {
        follow.printed("before");
        follow
    })
    .await
    .expect("a thread");
    server.kill();
    follow = spawn_blocking(move || {
        follow.printed("again after ");
        follow
    })
    .await
    .expect("a thread");
    let (_server, _) = threadline(data.path(), port, None);
    run.append_values(&say("after\n")).await.expect("appended");
    run.finish().await.expect("finished");
    let (said, status) = spawn_blocking(move || {
        let status = follow.wait();
        (follow.said(), status)
    })
    .await
    .expect("a thread");
    assert!(status.success(), "{status}");
    let lines: Vec<_> = said.lines().filter(|line| !line.starts_with('[')).collect();
    assert_eq!(lines, ["before", "after"], "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_into_a_busy_thread_gets_an_error_and_waits() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let api = client(&url);
    let thread = CreateThread { thread_id: Some("busy".into()), ..CreateThread::default() };
    api.create_thread(&thread).await.expect("a thread");
    let held = StartRun { run_id: Some("held".into()), ..StartRun::default() };
    api.start_run("busy", &held).await.expect("a run");
    let mut program = push_a_run("0");
    program.args(["--thread", "busy", "--url", &url]);
    let mut program = Process::start("push_a_run.py", program);
    let (mut program, holder) = spawn_blocking(move || {
        let holder = program.printed("Run ");
        (program, holder)
    })
    .await
    .expect("a thread");
    assert_eq!(json!(holder), "held");
    api.finish("busy", "held").await.expect("finished");
    let status = spawn_blocking(move || program.wait()).await.expect("a thread");
    assert!(status.success(), "{status}");
    let runs = api.list_runs("busy", None, None).await.expect("runs").runs;
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::Finished, RunStatus::Finished]);
}
