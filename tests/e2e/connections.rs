//! Connections that are silent, slow or half sent do not stay.

use std::time::{Duration, Instant};

use serde_json::json;
use threadline_core::limits::{REFUSAL_TIMEOUT, SPARE_CONNECTIONS};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{Options, Server, eventually, raw::Raw, run, soon};

fn hasty() -> Options {
    Options::memory().with_timeouts(|patience| {
        patience.header = Duration::from_millis(200);
        patience.body = Duration::from_millis(100);
    })
}

const HOST: &str = "Host: localhost\r\n";

#[tokio::test]
async fn a_client_that_sends_a_partial_head_is_closed() {
    run(hasty(), async |server: &Server| {
        for sent in ["", "GET /liv", "GET /livez HTTP/1.1\r\nHost: loc"] {
            let begun = Instant::now();
            let mut raw = Raw::connect(server.addr).await;
            raw.write(sent).await;
            let answer = raw.rest().await;
            assert!(!answer.starts_with(b"HTTP/1.1 200"), "{sent}");
            assert!(begun.elapsed() >= Duration::from_millis(150), "not before its time: {sent}");
        }
        // One that trickles gets no more time for it.
        let mut raw = Raw::connect(server.addr).await;
        let (mut reader, mut writer) = raw.0.split();
        let trickle = async {
            let mut step = tokio::time::interval(Duration::from_millis(20));
            loop {
                step.tick().await;
                // Writes after the end may fail.
                let _ = writer.write_all(b"G").await;
            }
        };
        let mut rest = Vec::new();
        let cut_off = async {
            tokio::select! {
                end = reader.read_to_end(&mut rest) => end,
                () = trickle => Ok(0),
            }
        };
        let _ = soon(cut_off).await;
        assert!(!rest.starts_with(b"HTTP/1.1 2"));
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_a_while() {
    run(hasty(), async |server: &Server| {
        let mut raw = Raw::connect(server.addr).await;
        for _ in 0..2 {
            raw.write(format!("GET /livez HTTP/1.1\r\n{HOST}\r\n")).await;
            raw.answer().await.ok(200);
        }
        assert_eq!(raw.rest().await, b"");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_stops_coming_ends_the_request() {
    run(hasty(), async |server: &Server| {
        server.client().thread("t").await;
        server.client().run("t", "r").await;
        let requests = [
            "POST /v1/threads HTTP/1.1",
            "PATCH /v1/threads/t HTTP/1.1",
            "POST /v1/threads/t/runs HTTP/1.1",
            "POST /v1/threads/t/runs/r/events HTTP/1.1",
            "PUT /v1/threads/t/runs/w HTTP/1.1",
        ];
        for line in requests {
            for begin in ["", "[", "{"] {
                let mut raw = Raw::connect(server.addr).await;
                raw.write(format!("{line}\r\n{HOST}Content-Length: 100\r\n\r\n{begin}")).await;
                let answer = raw.answer().await;
                assert_eq!(answer.problem(408, "body-timeout")["retryable"], true, "{line}");
            }
        }
        assert!(server.client().types("t").await.is_empty());
        server.client().get("/v1/threads/t/runs/w").await.problem(404, "run-not-found");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_trickles_ends_the_request() {
    // The limit between two pieces is far longer: a pause of the machine ends no request too early.
    let options = Options::memory().with_limits(|limits| limits.body = Duration::from_millis(400));
    run(options, async |server: &Server| {
        let begun = Instant::now();
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("POST /v1/threads HTTP/1.1\r\n{HOST}Content-Length: 1000\r\n\r\n")).await;
        let (mut reader, mut writer) = raw.0.split();
        let trickle = async {
            let mut step = tokio::time::interval(Duration::from_millis(20));
            loop {
                step.tick().await;
                // What is written after the end is of no interest.
                let _ = writer.write_all(b" ").await;
            }
        };
        let mut answer = [0; 12];
        let answered = async {
            tokio::select! {
                end = reader.read_exact(&mut answer) => end.map(drop),
                () = trickle => Ok(()),
            }
        };
        soon(answered).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 408");
        assert!(begun.elapsed() >= Duration::from_millis(400));
    })
    .await;
}

#[tokio::test]
async fn beyond_the_limit_of_connections_others_are_refused_at_once() {
    run(Options::memory().with_limits(|limits| limits.connections = 2), async |server: &Server| {
        let ask = format!("GET /livez HTTP/1.1\r\n{HOST}\r\n");
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut raw = Raw::connect(server.addr).await;
            raw.write(&ask).await;
            raw.answer().await.ok(200);
            open.push(raw);
        }
        // The body of a request is not waited for.
        for ask in [&ask, &format!("POST /v1/threads HTTP/1.1\r\n{HOST}Content-Length: 100000\r\n\r\n{{")] {
            let mut third = Raw::connect(server.addr).await;
            third.write(ask).await;
            let refused = third.answer().await;
            let problem = refused.problem(503, "too-many-connections");
            assert_eq!((&problem["retryable"], &problem["retryAfterMs"]), (&json!(true), &json!(1_000)));
            assert_eq!((refused.header("retry-after"), refused.header("connection")), ("1", "close"));
            assert_eq!(third.rest().await, b"");
        }
        drop(open.pop());
        let served = async || {
            let mut raw = Raw::connect(server.addr).await;
            raw.write(&ask).await;
            (raw.answer().await.status == 200).then_some(())
        };
        eventually("the place is free again", served).await;
    })
    .await;
}

#[tokio::test]
async fn beyond_the_spare_places_connections_are_closed() {
    run(Options::memory().with_limits(|limits| limits.connections = 1), async |server: &Server| {
        let mut first = Raw::connect(server.addr).await;
        first.write(format!("GET /livez HTTP/1.1\r\n{HOST}\r\n")).await;
        first.answer().await.ok(200);
        let mut spare = Vec::new();
        for _ in 0..SPARE_CONNECTIONS {
            spare.push(Raw::connect(server.addr).await);
        }
        let begun = Instant::now();
        let mut closed = Raw::connect(server.addr).await;
        assert_eq!(closed.rest().await, b"");
        assert!(begun.elapsed() < REFUSAL_TIMEOUT, "{:?}", begun.elapsed());
        // Silent connections lose their places as well.
        for mut silent in spare {
            assert_eq!(silent.rest().await, b"");
        }
        // The only one that is served does not notice any of it.
        first.write(format!("GET /livez HTTP/1.1\r\n{HOST}\r\n")).await;
        first.answer().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_disconnects_in_the_middle_leaves_no_partial_write() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let line = "POST /v1/threads/t/runs/r/events HTTP/1.1";
        let body = json!([{ "type": "A" }, { "type": "B" }]).to_string();
        for kept in [1, body.len() / 2, body.len() - 1] {
            let mut raw = Raw::connect(server.addr).await;
            let head = format!("{line}\r\n{HOST}Content-Length: {}\r\n\r\n", body.len());
            raw.write(format!("{head}{}", &body[..kept])).await;
            // It says that nothing more comes, and listens on.
            raw.0.shutdown().await.expect("half closed");
            let answer = raw.rest().await;
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
        }
        assert!(dev.types("t").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_goes_away_is_noticed() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let mut readers = Vec::new();
        for _ in 0..3 {
            let mut raw = Raw::connect(server.addr).await;
            raw.write(format!("GET /v1/threads/t/events HTTP/1.1\r\n{HOST}Accept: text/event-stream\r\n\r\n")).await;
            readers.push(raw);
        }
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
        socket.frame("hello").await;
        eventually("four of them follow", async || (server.followers() == 4).then_some(())).await;
        // One goes, one only stops writing.
        drop(readers.pop());
        readers[1].0.shutdown().await.expect("half closed");
        drop(socket);
        eventually("one of them follows", async || (server.followers() == 1).then_some(())).await;
    })
    .await;
}

#[tokio::test]
async fn requests_may_follow_one_another_without_waiting() {
    run(Options::memory(), async |server: &Server| {
        let mut raw = Raw::connect(server.addr).await;
        let one = format!("GET /livez HTTP/1.1\r\n{HOST}\r\n");
        raw.write(format!("{one}{one}GET /none HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n")).await;
        let all = raw.rest().await;
        let all = String::from_utf8_lossy(&all);
        assert_eq!((all.matches("HTTP/1.1 200").count(), all.matches("HTTP/1.1 404").count()), (2, 1), "{all}");
    })
    .await;
}
