//! Agents that are faster than the disk, and a store that is temporarily unreachable.

use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{agent, ask, ended, events_of, finished, said, types_of};
use crate::harness::{eventually, everywhere, intercept::Failing, number, soon};

/// How many events a torrent has, and the bytes of each; together far more than all buffers on the way.
const EVENTS: usize = 4_000;
const PADDING: usize = 5_000;

fn event(number: usize) -> String {
    format!("{{\"type\":\"CUSTOM\",\"name\":\"n{number}\",\"value\":\"{}\"}}", "x".repeat(PADDING))
}

/// An answer that ends with its connection, as one piece.
fn torrent() -> Vec<u8> {
    let mut all = String::from("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    (0..EVENTS).for_each(|number| all += &format!("data: {}\n\n", event(number)));
    all += &format!("data: {}\n\n", finished("r"));
    all.into_bytes()
}

everywhere! {
    async fn an_agent_that_is_faster_than_the_disk_waits(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut socket = agent.call().await.into_socket();
        server.intercept().append_gate.hold();
        let all = torrent();
        // As far as it goes while nothing is stored: sockets and one buffer hold it up.
        let mut sent = 0;
        while let Ok(written) = timeout(Duration::from_millis(300), socket.write(&all[sent..])).await {
            sent += written.expect("the agent is read");
            assert!(sent < all.len(), "nothing holds the agent up");
        }
        assert_eq!(server.intercept().appends.load(SeqCst), 1, "one append at a time");
        server.intercept().append_gate.open();
        soon(socket.write_all(&all[sent..])).await.expect("the agent is read");
        let run = ended(&dev, "r").await;
        assert_eq!((&run["status"], number(&run, "producerSeq")), (&json!("finished"), EVENTS as u64 + 2));
        let log = dev.get_as("/v1/threads/t/events", "application/x-ndjson").await;
        assert_eq!(log.text().lines().count(), EVENTS + 2);
        for (at, line) in log.text().lines().enumerate().skip(1).take(EVENTS) {
            assert!(line.starts_with(&format!("{{\"seq\":{},", at + 1)), "{}", &line[..100]);
            assert!(line.contains(&event(at - 1)), "{}", &line[..100]);
        }
        let appends = server.intercept().appends.load(SeqCst);
        assert!(appends < EVENTS, "batched by the pace of the disk, not one by one: {appends}");
        let _ = socket.read(&mut [0]).await;
    }
}

#[tokio::test]
async fn a_hundred_thousand_events_are_all_there_in_order() {
    const MANY: usize = 100_000;
    let server = crate::harness::Server::start(crate::harness::Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
    let mut call = agent.call().await;
    call.begin().await;
    for part in 0..100 {
        let numbers = part * MANY / 100..(part + 1) * MANY / 100;
        let events = numbers.map(|number| format!("data: {{\"type\":\"N\",\"n\":{number}}}\n\n"));
        call.send(&events.collect::<String>()).await;
    }
    call.say(&[finished("r")]).await;
    call.hung_up().await;
    assert_eq!(number(&ended(&dev, "r").await, "producerSeq"), MANY as u64 + 2);
    let page = dev.get(&format!("/v1/threads/t/events?after=99990&epoch={}", dev.epoch("t").await)).await.ok(200);
    let page = page["events"].as_array().expect("events");
    assert_eq!((page.len(), &page[0]["event"]["n"], &page[10]["event"]["n"]), (12, &json!(99_989), &json!(99_999)));
    server.stop().await;
}

everywhere! {
    async fn a_temporary_outage_of_the_store_loses_and_doubles_no_event(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        let intercept = server.intercept();
        // The first append is in, but the answer is lost; the second time it is not even tried.
        intercept.fail(&[Failing::After, Failing::Before]);
        call.say(&said("a", "one")).await;
        eventually("the store is away", async || (intercept.failures() < 2).then_some(())).await;
        // Events that come meanwhile wait.
        call.say(&said("b", "two")).await;
        eventually("the store is back", async || (intercept.failures() == 0).then_some(())).await;
        eventually("all is stored", async || (types_of(&dev, "r").await.len() == 7).then_some(())).await;
        // At the end as well.
        intercept.fail(&[Failing::Before]);
        call.finish(&[finished("r")]).await;
        let run = ended(&dev, "r").await;
        assert_eq!((&run["status"], number(&run, "producerSeq")), (&json!("finished"), 8));
        assert_eq!(events_of(&dev, "r").await[1..], [said("a", "one"), said("b", "two"), vec![finished("r")]].concat());
    }
}

everywhere! {
    async fn the_end_of_a_run_waits_for_the_store_as_well(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        call.say(&said("a", "one")[..1]).await;
        eventually("it is stored", async || (types_of(&dev, "r").await.len() == 2).then_some(())).await;
        server.intercept().fail(&[Failing::Before, Failing::After]);
        let begun = Instant::now();
        drop(call);
        let run = ended(&dev, "r").await;
        assert_eq!((&run["errorCode"], server.intercept().failures()), (&json!("agent-broken"), 0));
        assert!(begun.elapsed() < Duration::from_secs(15), "not by its lease: {:?}", begun.elapsed());
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]);
    }
}

everywhere! {
    async fn a_stop_is_heard_while_the_disk_stands_still(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        server.intercept().append_gate.hold();
        call.say(&said("a", "one")).await;
        server.intercept().append_gate.reached().await;
        dev.stop("t", "r").await;
        call.hung_up().await;
        // An append on its way to the disk may come after the end; then it is not stored.
        ended(&dev, "r").await;
        server.intercept().append_gate.open();
        dev.put("/v1/threads/t/runs/w", json!([{ "type": "A" }])).await.ok(201);
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "RUN_FINISHED"]);
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200)["status"], "stopped");
    }
}

everywhere! {
    async fn a_run_whose_events_cannot_be_stored_is_abandoned(
        server: |options| options.with_glass().with_timeouts(|patience| patience.agents = Duration::from_millis(100))
    ) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        // Two tries, half a second apart; then the end, which is taken.
        server.intercept().fail(&[Failing::Before, Failing::Before]);
        call.say(&said("a", "one")).await;
        let run = ended(&dev, "r").await;
        assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("store-unavailable")));
        call.hung_up().await;
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "RUN_ERROR"]);
    }
}
