//! `threadline run` against a server with its demo agent.

use std::future::{pending, ready};

use clap::Parser;
use threadline::{
    cli::{Cli, CliError, Command, HealthArgs, RunArgs, health, run::say},
    client::{Client, ClientConfig},
};

use crate::harness::{Options, Server, run};

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
        let active = thread.active_run.expect("it goes on");
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
        health::ask(&client, &HealthArgs { live }, &mut out).await.map(|()| String::from_utf8(out).expect("text"))
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
