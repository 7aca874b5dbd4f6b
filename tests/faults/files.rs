//! A node that may open few files: clients get what is left of them, and never the last ones.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;
use threadline_backing::ports::free_port;
use tokio::time;

use crate::{
    raw,
    server::{Server, command},
};

const PATIENCE: Duration = Duration::from_secs(20);

const FILES: usize = 400;
/// A quarter of them is kept back.
const SERVED: usize = 300;
const ASK: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The beginning of the answer, or nothing if the connection was closed without one.
fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 4_096];
    let read = stream.read(&mut bytes).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_files_for_clients_the_admin_listener_and_the_store_still_have_some() {
    let _turn = crate::turn().await;
    raw::many_files(2_000);
    let data = tempfile::tempdir().expect("a directory");
    let admin = format!("127.0.0.1:{}", free_port());
    let limited = format!("ulimit -n {FILES} && exec \"$0\" \"$@\"");
    let mut command = command(data.path(), &["sh", "-c", &limited]);
    command.args(["--admin-listen", &admin]);
    let server = Server::start(command);
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    let watch = async |path: &str| http.get(format!("http://{admin}{path}")).send().await.expect("an answer");
    // The node is ready from its first commit on.
    let ready = async {
        let mut tick = time::interval(Duration::from_millis(20));
        while watch("/readyz").await.status() != 200 {
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, ready).await.expect("a node that is ready");
    let (mut served, mut refused) = (Vec::new(), 0);
    for _ in 0..FILES {
        let mut stream = raw::connect(&server.url);
        stream.write_all(ASK.as_bytes()).expect("sent");
        let answer = answer(&mut stream);
        if answer.starts_with("HTTP/1.1 200") {
            served.push(stream);
        } else {
            assert!(answer.is_empty() || answer.contains("/problems/too-many-connections"), "{answer}");
            refused += 1;
        }
    }
    println!("{} served, {refused} refused of {FILES}", served.len());
    assert!((SERVED / 2..SERVED).contains(&served.len()), "{} served", served.len());
    assert_eq!(watch("/livez").await.status(), 200);
    // The store commits as before.
    let beats = async || {
        let nodes: Value = watch("/v1/nodes").await.json().await.expect("JSON");
        nodes["nodes"][0]["beats"].as_u64().expect("a number")
    };
    let (first, mut tick) = (beats().await, time::interval(Duration::from_millis(100)));
    let committed = async {
        while beats().await < first + 2 {
            tick.tick().await;
        }
    };
    time::timeout(PATIENCE, committed).await.expect("two beats");
    assert_eq!(watch("/readyz").await.status(), 200);
    let figures = watch("/metrics").await.text().await.expect("text");
    assert!(figures.contains(&format!("threadline_limited_total{{limit=\"connections\"}} {refused}\n")), "{figures}");
    assert!(!server.said().contains("cannot accept"), "{}", server.said());
    // A connection that is served notices nothing.
    let one = served.last_mut().expect("one");
    one.write_all(ASK.as_bytes()).expect("sent");
    assert!(answer(one).starts_with("HTTP/1.1 200"));
}
