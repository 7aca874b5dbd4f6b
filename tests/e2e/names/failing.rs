//! An endpoint may do what it likes: the thread keeps the name by its user's first words.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, net::TcpListener};

use super::*;
use crate::harness::soon;

/// Long enough for an answer on this machine, and short enough for a test.
const PATIENCE: Duration = Duration::from_secs(2);

async fn ask(client: &Client, thread: &str) {
    client.thread(thread).await;
    converse(client, thread, "r", "Plan a trip to Ghent".into()).await;
}

async fn kept(client: &Client, thread: &str) {
    let found = named(client, thread, "Plan a trip to Ghent", "auto").await;
    assert_eq!(found["activeRun"], Value::Null);
}

everywhere_with_model! {
    async fn rubbish_is_no_name(server, model) {
        let dev = server.client();
        let said = [
            "I'm sorry, but I can't help with that.", "Es tut mir leid, das kann ich nicht.", "", " \n ", "New Chat", "<b>Trip</b>",
            "{\"error\":\"x\"}", "Ghent \u{202e}pirt", "<think>hm", "Sure! I would be glad to help you with planning your trip to Ghent.",
            "Answer with the name alone",
        ];
        for (n, said) in said.iter().enumerate() {
            let thread = format!("t{n}");
            ask(&dev, &thread).await;
            answer(model.call().await, said).await;
            outcome(server, "rejected", n as f64 + 1.0).await;
            kept(&dev, &thread).await;
        }
        // A tool call in the place of a text.
        ask(&dev, "tool").await;
        let mut call = model.call().await;
        let delta = json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "f", "arguments": "{}" } }] });
        call.send(&format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }))).await;
        outcome(server, "rejected", said.len() as f64 + 1.0).await;
        kept(&dev, "tool").await;
        // What is more than enough for a name, and never ends.
        ask(&dev, "endless").await;
        let mut call = model.call().await;
        let piece = chunks(&"word ".repeat(20_000)).split("\n\n").next().expect("a chunk").to_owned() + "\n\n";
        call.begin().await;
        let mut socket = call.into_socket();
        let piece = format!("{:x}\r\n{piece}\r\n", piece.len());
        // Until the other side has had enough.
        soon(async { while socket.write_all(piece.as_bytes()).await.is_ok() {} }).await;
        outcome(server, "failed", 1.0).await;
        kept(&dev, "endless").await;
    }
}

#[tokio::test]
async fn failures_leave_the_first_name_and_a_later_run_asks_again() {
    let model = FakeAgent::start().await;
    let naming = endpoint(&model).with_timeout(PATIENCE);
    run(Options::memory().with_naming(naming), async |server: &Server| {
        let dev = server.client();
        let refusals = [
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno",
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: {\n\n",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"detail\":\"nope\"",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 26\r\n\r\ndata: {\"error\":{\"a\":\"b\"}}\n\n",
            "not even HTTP\r\n\r\n",
        ];
        for (n, refusal) in refusals.into_iter().enumerate() {
            let thread = format!("t{n}");
            ask(&dev, &thread).await;
            model.call().await.write(refusal).await;
            outcome(server, "failed", n as f64 + 1.0).await;
            kept(&dev, &thread).await;
            // The next run asks again, so the endpoint never fails three times in a row.
            converse(&dev, &thread, "again", "Once more".into()).await;
            answer(model.call().await, "Trip to Ghent").await;
            named(&dev, &thread, "Trip to Ghent", "title").await;
        }
    })
    .await;
}

#[tokio::test]
async fn silence_ends_with_the_patience() {
    let model = FakeAgent::start().await;
    let naming = endpoint(&model).with_timeout(Duration::from_secs(2));
    run(Options::memory().with_naming(naming), async |server: &Server| {
        let dev = server.client();
        // Before the answer, and in the middle of it.
        ask(&dev, "t").await;
        let mut silent = model.call().await;
        outcome(server, "failed", 1.0).await;
        silent.hung_up().await;
        ask(&dev, "u").await;
        let mut stuck = model.call().await;
        let _ = stuck.begin().await;
        outcome(server, "failed", 2.0).await;
        stuck.hung_up().await;
        kept(&dev, "t").await;
        kept(&dev, "u").await;
    })
    .await;
}

/// An unreachable endpoint is not called for a while; no request waits, and threads are named by first words.
#[tokio::test]
async fn an_endpoint_that_fails_repeatedly_is_not_called_for_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = format!("http://{}/v1", listener.local_addr().expect("an address"));
    drop(listener);
    let naming = TitleSettings::default().with_endpoint(endpoint_at(&closed));
    run(Options::memory().with_naming(naming), async |server: &Server| {
        let dev = server.client();
        for n in 1..=3 {
            ask(&dev, &format!("t{n}")).await;
            outcome(server, "failed", f64::from(n)).await;
        }
        for n in 1..=3 {
            ask(&dev, &format!("u{n}")).await;
            outcome(server, "dropped", f64::from(n)).await;
            kept(&dev, &format!("u{n}")).await;
        }
        outcome(server, "failed", 3.0).await;
        outcome(server, "auto", 6.0).await;
    })
    .await;
}

/// However slow the models are: first names, and runs, do not wait for them.
#[tokio::test]
async fn slow_models_delay_no_other_run() {
    with_model(Backend::Memory, async |server: &Server, model: &FakeAgent| {
        let dev = server.client();
        let mut calls = Vec::new();
        for n in 0..12 {
            ask(&dev, &format!("t{n}")).await;
        }
        for n in 0..12 {
            kept(&dev, &format!("t{n}")).await;
        }
        // A few are asked at once, the others wait for their turn.
        for _ in 0..threadline_core::limits::NAMERS {
            calls.push(model.call().await);
        }
        assert_eq!(model.requests(), threadline_core::limits::NAMERS);
        for call in calls {
            answer(call, "Trip to Ghent").await;
        }
        for _ in threadline_core::limits::NAMERS..12 {
            answer(model.call().await, "Trip to Ghent").await;
        }
        outcome(server, "title", 12.0).await;
    })
    .await;
}
