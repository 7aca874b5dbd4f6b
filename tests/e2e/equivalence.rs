//! Every form of reading gives the same events, byte for byte, however often the reader comes again.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use threadline_core::ThreadKey;
use threadline_store::Packing;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Client, Server, Socket, everywhere, soon, sse::Events};

/// seq and the envelope as it stands on the wire.
type Log = Vec<(u64, String)>;

/// Payloads that a parser would change.
const ODD: &[&str] = &[
    r#"{"type":"NUMBERS","a":1.0,"b":1e400,"c":-0,"d":123456789012345678901234567890,"e":1E5}"#,
    r#"{"type":"TWICE","a":1,"a":2,"type":"TWICE"}"#,
    r#"{"type":"ESCAPES","a":"\u0000\u001f\/\ud83d\ude00","b":"\ud800","c":"\udc00\ud800"}"#,
    "{\"type\":\"UNICODE\",\"a\":\"é🦀\u{2028}\u{2029}\u{feff}\u{7f}\"}",
    r#"{ "type" : "SPACED" , "a" : [ 1 , 2 ,  { } ] }"#,
    r#"{"type":"LF","a":"data: x\nid: 7\n\nevent: y"}"#,
];

/// Appends runs of mixed batches: what was sent, as it must come back.
async fn write(dev: &Client, runs: &[&str], deltas: usize) -> Vec<String> {
    let mut sent: Vec<String> = Vec::new();
    for run in runs {
        let id: String = url(run);
        dev.post("/v1/threads/t/runs", json!({ "runId": run, "leaseSeconds": 600 })).await.ok(201);
        let mut seq = 1;
        let mut append = async |events: Vec<String>| {
            let path = format!("/v1/threads/t/runs/{id}/events?producerSeq={seq}");
            dev.ndjson(Method::POST, &path, events.join("\n")).await.ok(200);
            seq += events.len() as u64;
            sent.extend(events);
        };
        append(vec![r#"{"type":"SINGLE"}"#.to_owned()]).await;
        append(ODD.iter().map(ToString::to_string).collect()).await;
        append((0..deltas).map(|n| format!(r#"{{"type":"DELTA","n":{n}}}"#)).collect()).await;
        append(vec![format!(r#"{{"type":"LARGE","a":"{}"}}"#, "x".repeat(300_000))]).await;
        for n in 0..20 {
            append(vec![format!(r#"{{"type":"TOKEN","n":{n}}}"#)]).await;
        }
        // Written over several lines, as a person would: only its line breaks become spaces.
        let path = format!("/v1/threads/t/runs/{id}/events?producerSeq={seq}");
        let pretty = "[\r\n  {\r\n    \"type\": \"PRETTY\",\n    \"a\": \"b\"\n  }\n]";
        let request = dev.request(Method::POST, &path).header("content-type", "application/json").body(pretty);
        crate::harness::http::send(request).await.ok(200);
        sent.push("{      \"type\": \"PRETTY\",     \"a\": \"b\"   }".to_owned());
        seq += 1;
        let path = format!("/v1/threads/t/runs/{id}/events?producerSeq={seq}");
        dev.ndjson(Method::POST, &path, r#"{"type":"RUN_FINISHED"}"#).await.ok(200);
        sent.push(r#"{"type":"RUN_FINISHED"}"#.to_owned());
    }
    sent
}

fn url(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
    #[serde(rename = "nextCursor")]
    next: String,
    #[serde(rename = "hasMore")]
    has_more: bool,
}

#[derive(Deserialize)]
struct Envelope {
    seq: u64,
}

fn entry(envelope: &str) -> (u64, String) {
    let parsed: Envelope = serde_json::from_str(envelope).expect("an envelope");
    (parsed.seq, envelope.to_owned())
}

async fn pages(dev: &Client, limit: usize) -> Log {
    let (mut log, mut start) = (Log::new(), "after=0".to_owned());
    loop {
        let answer = dev.get(&format!("/v1/threads/t/events?{start}&limit={limit}")).await;
        let page: Page<'_> = serde_json::from_slice(&answer.body).expect("a page");
        log.extend(page.events.iter().map(|event| entry(event.get())));
        start = format!("cursor={}", page.next);
        if !page.has_more {
            return log;
        }
    }
}

async fn pages_back(dev: &Client, limit: usize) -> Log {
    let epoch = dev.epoch("t").await;
    let (mut log, mut start) = (Log::new(), format!("before={}&epoch={epoch}", u64::MAX));
    loop {
        let answer = dev.get(&format!("/v1/threads/t/events?{start}&limit={limit}")).await;
        let page: Page<'_> = serde_json::from_slice(&answer.body).expect("a page");
        log.splice(0..0, page.events.iter().map(|event| entry(event.get())));
        start = format!("cursor={}", page.next);
        if !page.has_more {
            return log;
        }
    }
}

async fn ndjson(dev: &Client, after: u64) -> Log {
    let epoch = dev.epoch("t").await;
    let answer = dev.get_as(&format!("/v1/threads/t/events?after={after}&epoch={epoch}"), "application/x-ndjson").await;
    assert_eq!(answer.status, 200);
    answer.text().split_terminator('\n').map(entry).collect()
}

/// SSE after a cursor, at most so many events; to the tail if there are no more.
async fn sse(dev: &Client, after: u64, most: usize) -> Log {
    let path = format!("/v1/threads/t/events?after={after}&epoch={}&until=tail", dev.epoch("t").await);
    let mut events = Events::open(dev.request(Method::GET, &path)).await;
    let (mut log, mut epoch) = (Log::new(), String::new());
    while log.len() < most
        && let Some(event) = events.next().await
    {
        if event.event.as_deref() == Some("hello") {
            epoch = event.json()["epoch"].as_str().expect("an epoch").to_owned();
        }
        if event.event.is_none() {
            let entry = entry(&event.data);
            assert_eq!(event.id, Some(format!("{epoch}:{}", entry.0)));
            log.push(entry);
        }
    }
    log
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    events: Option<Batches<'a>>,
    #[serde(rename = "caughtUp", borrow)]
    caught_up: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Batches<'a> {
    #[serde(borrow)]
    batches: Vec<Batch<'a>>,
}

#[derive(Deserialize)]
struct Batch<'a> {
    seq: u64,
    #[serde(rename = "runId", borrow)]
    run_id: &'a RawValue,
    #[serde(borrow)]
    at: &'a RawValue,
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

/// The socket after a cursor; at least so many events, or to the tail.
async fn socket(dev: &Client, socket: &mut Socket, after: u64, most: usize) -> Log {
    let epoch = dev.epoch("t").await;
    socket.send(json!({ "subscribe": { "threadId": "t", "after": after, "epoch": epoch } })).await;
    let mut log = Log::new();
    let mut begun = false;
    while log.len() < most {
        let message = soon(socket.stream.next()).await.expect("open").expect("a message");
        let Message::Text(text) = message else { continue };
        // What was on its way for the subscription before this one ends with the hello.
        if text.starts_with("{\"hello\"") {
            begun = true;
        }
        if !begun {
            continue;
        }
        let frame: Frame<'_> = serde_json::from_str(text.as_str()).expect("a frame");
        for batch in frame.events.iter().flat_map(|events| &events.batches) {
            for (seq, event) in (batch.seq..).zip(&batch.events) {
                let (run, at) = (batch.run_id.get(), batch.at.get());
                let envelope = format!("{{\"seq\":{seq},\"runId\":{run},\"at\":{at},\"event\":{}}}", event.get());
                log.push((seq, envelope));
            }
        }
        if frame.caught_up.is_some() {
            break;
        }
    }
    log
}

fn assert_same(got: &Log, want: &Log, what: &str) {
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got, want, "{what}");
    }
    assert_eq!(got.len(), want.len(), "{what}");
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

async fn compare(server: &Server, want: &Log) {
    let dev = server.client();
    for limit in [61, 10_000] {
        assert_same(&pages(&dev, limit).await, want, "pages");
        assert_same(&pages_back(&dev, limit).await, want, "pages backwards");
    }
    assert_same(&ndjson(&dev, 0).await, want, "NDJSON");
    assert_same(&sse(&dev, 0, usize::MAX).await, want, "SSE");
    let mut open = server.socket("dev").await;
    assert_same(&socket(&dev, &mut open, 0, usize::MAX).await, want, "socket");
    // One long subscription is any number of short ones.
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..2 {
        let (mut by_sse, mut by_socket, mut by_lines) = (Log::new(), Log::new(), Log::new());
        let cursor = |log: &Log| log.last().map_or(0, |(seq, _)| *seq);
        while by_sse.len() < want.len() {
            let most = 1 + random(&mut seed) as usize % (want.len() / 3);
            by_sse.extend(sse(&dev, cursor(&by_sse), most).await);
        }
        while by_socket.len() < want.len() {
            let most = 1 + random(&mut seed) as usize % (want.len() / 3);
            if random(&mut seed).is_multiple_of(2) {
                open = server.socket("dev").await;
            }
            let mut part = socket(&dev, &mut open, cursor(&by_socket), most).await;
            // A reader that loses some of what it was sent comes again from what it kept.
            part.truncate(most);
            by_socket.extend(part);
        }
        while by_lines.len() < want.len() {
            let mut part = ndjson(&dev, cursor(&by_lines)).await;
            part.truncate(1 + random(&mut seed) as usize % want.len());
            by_lines.extend(part);
        }
        for (log, what) in [(by_sse, "SSE in parts"), (by_socket, "socket in parts"), (by_lines, "NDJSON in parts")] {
            assert_same(&log, want, what);
        }
    }
}

everywhere! {
    async fn every_form_gives_the_same_bytes(server) {
        let dev = server.client();
        dev.thread("t").await;
        // A live follower from before the first event, whose stream is the measure of all others.
        let live = follow(&dev, 4).await;
        let mut sent = write(&dev, &["a", "b\u{e9}"], 5).await;
        let small = ndjson(&dev, 0).await;
        assert!(small.len() < 256, "too few for a segment");
        compare(server, &small).await;
        sent.extend(write(&dev, &["c \"quoted\\", "d"], 300).await);
        // The server seals and packs in the background; this makes sure of it. A new store numbers its threads from 1.
        for key in (1..=10).map(ThreadKey) {
            while server.store.seal(key).await.expect("sealed") {}
            while server.store.pack(key, Duration::ZERO).await.expect("packed") == Packing::More {}
        }
        let log = live.await.expect("followed to the end");
        assert_eq!(log.len(), sent.len());
        for (index, ((seq, envelope), payload)) in log.iter().zip(&sent).enumerate() {
            assert_eq!(*seq, index as u64 + 1);
            assert!(envelope.ends_with(&format!(",\"event\":{payload}}}")), "{envelope} is not {payload}");
        }
        compare(server, &log).await;
    }
}

/// Follows live until so many runs have ended.
async fn follow(dev: &Client, runs: usize) -> tokio::task::JoinHandle<Log> {
    let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events")).await;
    events.named("hello").await;
    events.named("caught_up").await;
    tokio::spawn(async move {
        let (mut log, mut ended) = (Log::new(), 0);
        while ended < runs {
            let event = events.next().await.expect("an event");
            if event.event.is_none() {
                ended += usize::from(event.data.contains("RUN_FINISHED"));
                log.push(entry(&event.data));
            }
        }
        log
    })
}
