//! Commands as a user has them: `threadline run` against a server with its demo agent, `threadline bench`.

use std::{
    future::{pending, ready},
    process,
};

use clap::Parser;
use serde_json::json;
use threadline::cli::{Cli, CliError, Command, HealthArgs, RunArgs, health, identity, nodes, run::say, trash};
use threadline_client::{Client, ClientConfig, ClientError, ThreadQuery};

use crate::harness::{Options, Server, eventually, run};

fn args(thread: &str, message: &str) -> RunArgs {
    let cli = Cli::try_parse_from(["threadline", "run", thread, message]).expect("a command line");
    let Command::Run(args) = cli.command else { panic!("not run") };
    args
}

#[tokio::test]
async fn a_message_is_answered_on_stdout() {
    run(Options::memory(), async |server: &Server| {
        let client = Client::new(ClientConfig::new(format!("http://{}", server.addr))).expect("a client");
        let mut out = Vec::new();
        say(&client, &args("t", "Hello there"), &mut out, pending()).await.expect("answered");
        let out = String::from_utf8(out).expect("text");
        assert!(out.contains("You said:") && out.contains("Hello there"), "{out}");
        // What was printed is what the thread holds, and the first message is in it.
        let messages = client.messages("t", None).await.expect("messages");
        assert_eq!(messages.messages[0]["content"], "Hello there");
        let answer = messages.messages.last().expect("an answer")["content"].as_str().expect("text").to_owned();
        assert!(out.contains(&answer), "{out}");
        assert_eq!(client.state("t", None).await.expect("state").seq, messages.seq);
        // A failed run is a failed command; an interrupted command is no failed run.
        let failed = say(&client, &args("t", "error"), &mut Vec::new(), pending()).await;
        assert!(matches!(&failed, Err(CliError::Run(_))), "{failed:?}");
        say(&client, &args("t", "Hello again"), &mut Vec::new(), ready(())).await.expect("interrupted");
        let thread = client.thread("t").await.expect("a thread");
        let active = thread.active_run.expect("it continues");
        client.stop("t", &active.run_id).await.expect("stopped");
    })
    .await;
}

#[tokio::test]
async fn health_is_good_while_the_server_takes_requests() {
    let server = Server::start(Options::memory().with_key("k")).await;
    let url = format!("http://{}", server.addr);
    let client = Client::new(ClientConfig::new(&url)).expect("a client");
    let asked = async |live: bool| {
        let mut out = Vec::new();
        health::ask(&client, &HealthArgs { live, wait: 0 }, &mut out)
            .await
            .map(|()| String::from_utf8(out).expect("text"))
    };
    assert_eq!(asked(false).await.expect("well, and no key is needed to ask"), "ready\n  store   ok\n");
    assert_eq!(asked(true).await.expect("alive"), "alive\n");
    Client::new(ClientConfig::new(format!("{url}/elsewhere")))
        .expect("a client")
        .health()
        .await
        .expect_err("not there");
    server.stop().await;
    asked(false).await.expect_err("stopped");
    asked(true).await.expect_err("stopped");
}

async fn output(server: &Server, line: &str) -> String {
    let url = format!("http://{}", server.addr);
    let words = ["threadline", "--url", &url].into_iter().chain(line.split_ascii_whitespace());
    let cli = Cli::try_parse_from(words).expect("a command line");
    let mut out = Vec::new();
    match &cli.command {
        Command::Keys(args) => identity::keys(&cli.connect, args, &mut out).await,
        Command::Token(args) => identity::token(&cli.connect, args, &mut out).await,
        Command::Projects(args) => identity::projects(&cli.connect, args, &mut out).await,
        Command::Users(args) => identity::users(&cli.connect, args, &mut out).await,
        Command::Audit(args) => identity::audit(&cli.connect, args, &mut out).await,
        Command::Trash(args) => trash::run(&cli.connect, args, &mut out).await,
        Command::Nodes => nodes::run(&cli.connect, &mut out).await,
        other => panic!("{other:?} is not tried here"),
    }
    .unwrap_or_else(|error| panic!("{line}: {error}"));
    String::from_utf8(out).expect("text").trim_end().to_owned()
}

#[tokio::test]
async fn a_projects_own_affairs_are_seen_to_on_the_command_line() {
    run(Options::memory(), async |server: &Server| {
        let key = output(server, "keys create backend --scopes read,tokens --days 3").await;
        assert!(key.starts_with("tl_") && !key.contains(char::is_whitespace), "{key}");
        let listed = output(server, "keys list").await;
        assert!(listed.starts_with("backend  read,tokens  ") && listed.contains("  until "), "{listed}");
        assert!(listed.ends_with("  development mode"), "{listed}");
        assert!(!listed.contains(&key));
        // What it prints is let in: here by the key and the token that were just made.
        let token = output(server, "token ann --minutes 5 --scopes read").await;
        for (secret, user) in [(&key, Some("ann")), (&token, None)] {
            let mut config = ClientConfig::new(format!("http://{}", server.addr));
            config.api_key = Some(secret.clone());
            config.user = user.map(str::to_owned);
            let client = Client::new(config).expect("a client");
            assert!(client.list_threads(&ThreadQuery::default()).await.expect("accepted").threads.is_empty());
            let refused = client.delete_thread("t", None).await;
            assert!(matches!(&refused, Err(ClientError::Problem(problem)) if problem.status == 403), "{refused:?}");
        }
        assert!(output(server, "keys revoke backend").await.starts_with("backend revoked "));
        assert!(output(server, "keys list").await.contains("  revoked "));
        let settings = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(settings.path(), r#"{"retention":{"deleteAfterDays":90}}"#).expect("written");
        let set = output(server, &format!("projects set acme {}", settings.path().display())).await;
        assert!(set.contains("\"deleteAfterDays\": 90"), "{set}");
        assert_eq!(output(server, "projects show acme").await, set);
        assert!(output(server, "projects list").await.contains(r#"acme  {"retention":{"deleteAfterDays":90}"#));
        assert!(output(server, "projects renew-secret acme").await.len() > 40);
        assert!(output(server, "--project acme keys create").await.starts_with("tl_"));
        assert!(output(server, "users erase ann --yes").await.contains("\"userDigest\""));
        let audit = output(server, "audit").await;
        for action in ["key.created", "key.revoked", "user.erased"] {
            assert!(audit.contains(action), "{audit}");
        }
        let acme = output(server, "--project acme audit --limit 1").await;
        assert!(acme.contains("key.created") && acme.lines().count() == 1, "{acme}");
        assert!(Cli::try_parse_from(["threadline", "users", "erase", "ann"]).is_err(), "--yes is needed");
    })
    .await;
}

#[tokio::test]
async fn the_trash_is_listed_and_restored_on_the_command_line() {
    run(Options::memory().with_manual_clock(), async |server: &Server| {
        let settings = json!({ "retention": { "deleteAfterDays": 1 } });
        server.client().put("/v1/projects/default", settings).await.ok(201);
        server.client().thread("old").await;
        server.pass(2 * 24 * 3_600);
        server.retain().await;
        let listed = output(server, "trash list").await;
        assert!(listed.starts_with("old  dev  trashed ") && listed.contains("  removed "), "{listed}");
        assert_eq!(output(server, "trash restore old").await, "old");
        assert_eq!(output(server, "trash list").await, "");
        server.client().get("/v1/threads/old").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn nodes_are_listed_on_the_command_line() {
    run(Options::memory(), async |server: &Server| {
        let live = async || {
            let listed = output(server, "nodes").await;
            (listed.contains("  live     ") && listed.contains("  skew ")).then_some(listed)
        };
        let listed = eventually("two beats", live).await;
        assert_eq!(listed.lines().count(), 1, "{listed}");
        assert!(listed.contains(env!("CARGO_PKG_VERSION")) && listed.contains("  started 20"), "{listed}");
    })
    .await;
}

/// The program that holds data starts the one that measures, and has nothing of it.
#[test]
fn bench_starts_the_program_next_to_it_or_says_where_to_get_it() {
    let home = tempfile::tempdir().expect("a directory");
    let program = home.path().join("threadline");
    // By another process: a file that this one has open for writing is inherited by a program that another test starts at
    // that moment, and is "busy" until it runs.
    let shell = |script: &str| {
        let done = process::Command::new("sh").args(["-ec", script]).current_dir(home.path()).status();
        assert!(done.expect("a shell").success());
    };
    shell(&format!("cp '{}' threadline", env!("CARGO_BIN_EXE_threadline")));
    let bench = || {
        let arguments = ["bench", "all", "--quick", "--help"];
        process::Command::new(&program).args(arguments).env("PATH", "/nowhere").output().expect("the program runs")
    };
    let alone = bench();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(1), "{said}");
    assert!(said.contains("threadline-bench is neither next to threadline nor in PATH"), "{said}");

    shell(
        r#"printf '#!/bin/sh\necho "$THREADLINE_BENCH_FOR: $*"\nexit 3\n' > threadline-bench; chmod 755 threadline-bench"#,
    );
    let started = bench();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(String::from_utf8_lossy(&started.stdout), format!("{version}: all --quick --help\n"));
    assert_eq!(started.status.code(), Some(3), "its exit code is handed on");
}
