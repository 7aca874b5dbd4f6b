//! What takes long or needs much: `make test-full`.

use std::{net::TcpStream, thread};

use serde_json::json;

use crate::{api::Api, raw, server::Server};

const IDLE: usize = 5_000;
/// The budget of a release build; a debug build only says what it needs.
const KIB_EACH: f64 = 24.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "opens 5,000 connections: make test-full"]
async fn five_thousand_idle_subscribers_are_cheap() {
    let _turn = crate::turn().await;
    raw::many_files(12_000);
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::on(data.path());
    let api = Api::of(&server.url);
    for n in 0..100 {
        api.post("/v1/threads", json!({ "threadId": format!("t{n}") }).to_string()).await.done();
        let run = format!("/v1/threads/t{n}/runs/r");
        let body = r#"[{"type":"CUSTOM"}]"#;
        api.send(reqwest::Method::PUT, &run, crate::api::JSON, body).await.done();
    }
    let before = server.rss_kib();
    let open = |part: usize| {
        let url = server.url.clone();
        thread::spawn(move || {
            let one = |n: usize| {
                let mut stream = raw::socket(&url, &format!("t{}", n % 100));
                raw::read_until(&mut stream, "caughtUp");
                stream
            };
            (0..IDLE / 4).map(|n| one(n * 4 + part)).collect::<Vec<TcpStream>>()
        })
    };
    let opening: Vec<_> = (0..4).map(open).collect();
    let open: Vec<_> = opening.into_iter().map(|part| part.join().expect("all subscribe")).collect();
    let after = server.rss_kib();
    let each = (after - before) as f64 / IDLE as f64;
    println!("{IDLE} idle subscribers: RSS {before} KiB before, {after} KiB after = {each:.1} KiB each");
    if cfg!(debug_assertions) {
        println!("(a debug build; the budget of {KIB_EACH} KiB is for a release build)");
    } else {
        assert!(each <= KIB_EACH, "{each:.1} KiB each");
    }
    drop(open);
}
