//! Between SIGTERM and the drain: not ready any more, and still serving clients that do not know it yet.

use std::{
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use reqwest::{Client, Response};
use serde_json::Value;

use crate::server::{Server, command};

const PATIENCE: Duration = Duration::from_secs(60);

fn leaving_for(data: &std::path::Path, seconds: &str) -> Command {
    let mut command = command(data, &[]);
    command.args(["--drain-delay", seconds]);
    command
}

fn client() -> Client {
    Client::builder().no_proxy().tls_certs_only([]).build().expect("a client")
}

async fn get(client: &Client, server: &Server, path: &str) -> Response {
    client.get(format!("{}{path}", server.url)).send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"))
}

/// Requests `/readyz`, over new connections, until this node reports that it is leaving.
async fn unready(server: &Server) {
    let asked = async {
        loop {
            let ready = get(&client(), server, "/readyz").await;
            if ready.status() == 503 {
                assert_eq!(ready.headers()["connection"], "close");
                let problem: Value = ready.json().await.expect("JSON");
                assert_eq!((&problem["type"], &problem["why"]), (&"/problems/draining".into(), &"draining".into()));
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("it says so");
}

fn ended(mut server: Server) -> ExitStatus {
    let status = tokio::task::block_in_place(|| server.wait(PATIENCE));
    status.unwrap_or_else(|| panic!("not gone after {PATIENCE:?}\n{}", server.said()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_sigterm_requests_are_answered_until_the_delay_is_over_or_a_second_one_comes() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(leaving_for(data.path(), "600"));
    let kept = client();
    let before = get(&kept, &server, "/livez").await;
    assert!(!before.headers().contains_key("connection"));
    before.bytes().await.expect("read");
    server.signal(Signal::SIGTERM);
    unready(&server).await;
    // On the connection that was there, and on new ones; also what begins something.
    assert_eq!(get(&kept, &server, "/v1/threads").await.headers()["connection"], "close");
    let made = client().post(format!("{}/v1/threads", server.url)).json(&serde_json::json!({ "threadId": "t" }));
    let made = made.send().await.expect("answered");
    assert_eq!((made.status().as_u16(), &made.headers()["connection"]), (201, &"close".parse().expect("a value")));
    let run = client().post(format!("{}/v1/threads/t/runs", server.url)).json(&serde_json::json!({ "runId": "r" }));
    assert_eq!(run.send().await.expect("answered").status(), 201);
    let metrics = get(&client(), &server, "/metrics").await.text().await.expect("text");
    assert!(metrics.contains("threadline_draining 1\n"), "{metrics}");
    // A socket is opened as ever.
    let api = crate::api::Api::of(&server.url);
    let socket = crate::sockets::connect(&api);
    let socket = tokio::time::timeout(PATIENCE, socket).await.expect("a socket");
    let signalled = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(ended(server).code(), Some(0));
    assert!(signalled.elapsed() < PATIENCE);
    drop(socket);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_delay_ends_by_itself_and_ctrl_c_has_none() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(leaving_for(data.path(), "2"));
    let signalled = Instant::now();
    server.signal(Signal::SIGTERM);
    unready(&server).await;
    assert_eq!(ended(server).code(), Some(0));
    assert!((Duration::from_secs(2)..PATIENCE).contains(&signalled.elapsed()), "{:?}", signalled.elapsed());
    let server = Server::start(leaving_for(data.path(), "600"));
    server.signal(Signal::SIGINT);
    assert_eq!(ended(server).code(), Some(0));
    // A node that is alone with its directory has no other node to send its clients to.
    let mut alone = command(data.path(), &[]);
    alone.env_remove("THREADLINE_DRAIN_DELAY");
    let server = Server::start(alone);
    let signalled = Instant::now();
    server.signal(Signal::SIGTERM);
    assert_eq!(ended(server).code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(4), "{:?}", signalled.elapsed());
}
