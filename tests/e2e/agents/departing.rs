//! A node that is replaced: its clients move one after another, and its runs get time to end.

use std::time::{Duration, Instant};

use serde_json::json;
use threadline::config::DrainTimes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

use super::{agent, ask, ended, finished, said, user, whole};
use crate::harness::{Backend, Options, Server, eventually, soon};

const DELAY: Duration = Duration::from_secs(1);
const SPREAD: Duration = Duration::from_secs(3);

fn departing(times: DrainTimes) -> Options {
    Options { drain: times, ..Options::memory() }
}

/// Opens a new connection every 50 ms for one request, as a balancer does, until one is refused. Returns the number of
/// answers, and the time of the refusal.
async fn balance(addr: std::net::SocketAddr) -> (usize, Instant) {
    let (mut answers, mut tick) = (0, time::interval(Duration::from_millis(50)));
    loop {
        tick.tick().await;
        let Ok(mut stream) = TcpStream::connect(addr).await else { return (answers, Instant::now()) };
        // An error shows as an answer that is not there.
        let _ = stream.write_all(b"GET /v1/threads HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        // The listener has closed with this connection in its queue, or before its request was read.
        if answer.is_empty() {
            return (answers, Instant::now());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        answers += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_departing_node_accepts_connections_while_its_sockets_are_closed_one_after_another() {
    let server = Server::start(departing(DrainTimes { delay: DELAY, spread: SPREAD, runs: Duration::ZERO })).await;
    let mut sockets = Vec::new();
    for _ in 0..24 {
        sockets.push(server.socket("dev").await);
    }
    let balancer = tokio::spawn(balance(server.addr));
    let left = Instant::now();
    server.leave();
    let unready = async || (server.client().get("/readyz").await.status == 503).then_some(());
    eventually("unready", unready).await;
    let closed = sockets.into_iter().map(|mut socket| {
        tokio::spawn(async move {
            let (_, code) = socket.closed().await;
            assert_eq!(code, 4000);
            Instant::now()
        })
    });
    let mut times = Vec::new();
    for closed in closed.collect::<Vec<_>>() {
        times.push(closed.await.expect("closed") - left);
    }
    times.sort_unstable();
    let (first, last) = (times[0], times[times.len() - 1]);
    // The listener closes at the end of the last turns, and a busy machine reads their close frames after that.
    let most = times[times.len() * 3 / 4];
    let (answers, refused) = balancer.await.expect("no request failed");
    println!("{} sockets closed from {first:.1?} to {last:.1?}; {answers} answers", times.len());
    assert!(first >= DELAY && last - first >= SPREAD / 2, "{times:?}");
    assert!(refused - left >= most && answers > 10, "{answers} answers, then a refusal after {:.1?}", refused - left);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_departing_node_starts_no_agent_and_lets_active_runs_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let times = DrainTimes { runs: Duration::from_secs(60), ..DrainTimes::default() };
    let server = Server::in_directory(directory.path(), Options { backend: Backend::Sqlite, ..departing(times) }).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    let request = ask("r", json!([user("u0", "hi")]));
    dev.post("/v1/threads/t/runs", request.clone()).await.ok(201);
    let mut call = agent.call().await;
    server.leave();
    let mut threads = 0;
    let refused = async || {
        threads += 1;
        let thread = format!("u{threads}");
        dev.thread(&thread).await;
        let answer = dev.post(&format!("/v1/threads/{thread}/runs"), ask("s", json!([user("u1", "hi")]))).await;
        if answer.status == 503 {
            return Some(answer);
        }
        // Accepted before the node departs: a run that is driven to its end.
        answer.ok(201);
        agent.call().await.finish(&[finished("s")]).await;
        None
    };
    eventually("no run of an agent is started", refused).await.problem(503, "draining");
    // The retry of an accepted request gets its run, and producers of their own start as before.
    assert_eq!(dev.post("/v1/threads/t/runs", request).await.ok(200)["run"]["runId"], "r");
    dev.thread("v").await;
    dev.run("v", "own").await;
    call.say(&said("a0", "in time")).await;
    call.finish(&[finished("r")]).await;
    // No run is left that it would wait for.
    soon(server.draining()).await;
    server.stop().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let run = server.client().get("/v1/threads/t/runs/r").await.ok(200);
    assert_eq!(run["status"], "finished");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_do_not_end_in_time_are_handed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let times = DrainTimes { runs: Duration::from_millis(500), ..DrainTimes::default() };
    let options = Options { backend: Backend::Sqlite, ..departing(times) };
    let server = Server::in_directory(directory.path(), options).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u0", "hi")]))).await.ok(201);
    let mut call = agent.call().await;
    call.say(&said("a0", "half")[..2]).await;
    server.leave();
    soon(server.draining()).await;
    server.stop().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    agent.call().await.finish(&whole("r", "a0", "all of it")).await;
    let run = ended(&dev, "r").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("finished"), &json!(2)));
    server.stop().await;
}
