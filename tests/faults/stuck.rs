//! A thousand readers that never read, while a hundred runs append.

use std::{
    fs,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

use crate::{
    api::{Api, JSON},
    raw,
    server::Server,
};

const STUCK: usize = 1_000;
const OPENERS: usize = 16;
const RUNS: usize = 100;
/// What a stuck reader may cost: a page on its way, as the transport writes it, and the connection.
const KIB_EACH: u64 = 1_024;
/// WAL_LIMIT_BYTES, and what is written until that is noticed.
const WAL: u64 = 96 * 1_024 * 1_024;
/// WRITE_TIMEOUT and 5 s for SSE, from when the last of them is stuck: a busy machine takes its time until then.
const DROPPED: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_stuck_readers_cost_little_and_delay_nobody() {
    let _turn = crate::turn().await;
    raw::many_files(4_096);
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::on(data.path());
    let api = Api::of(&server.url);
    // 16 MiB of small events, which grow most on the wire.
    api.post("/v1/threads", r#"{"threadId":"big"}"#).await.done();
    for run in 0..148 {
        let event = |n| format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{n:060}"}}"#);
        let body = format!("[{}]", (0..1_000).map(event).collect::<Vec<_>>().join(","));
        api.send(Method::PUT, &format!("/v1/threads/big/runs/r{run}"), JSON, body).await.done();
    }
    let going = Arc::new(AtomicBool::new(true));
    let mut producers = JoinSet::new();
    for n in 0..RUNS {
        producers.spawn(produce(api.clone(), format!("t{n}"), going.clone()));
    }
    sleep(Duration::from_secs(3)).await;
    let (base_rss, base_fds) = (server.rss_kib(), server.fds());
    let began = Instant::now();
    let url = server.url.clone();
    // Both transports, half and half.
    let opening = spawn_blocking(move || {
        let some = |from: usize| {
            let url = url.clone();
            let open = move |n| if n % 2 == 0 { raw::sse(&url, "big") } else { raw::socket(&url, "big") };
            thread::spawn(move || (from..STUCK).step_by(OPENERS).map(open).collect::<Vec<TcpStream>>())
        };
        let some: Vec<_> = (0..OPENERS).map(some).collect();
        some.into_iter().flat_map(|some| some.join().expect("all connect")).collect::<Vec<TcpStream>>()
    });
    let wal = data.path().join("threadline.db-wal");
    let (mut peak_rss, mut peak_fds, mut peak_wal) = (0, 0, 0);
    let mut stuck = None;
    let mut opening = Some(opening);
    let mut gone = None;
    while gone.is_none() {
        peak_rss = peak_rss.max(server.rss_kib());
        peak_fds = peak_fds.max(server.fds());
        peak_wal = peak_wal.max(fs::metadata(&wal).map_or(0, |wal| wal.len()));
        if let Some(done) = opening.take_if(|opening| opening.is_finished()) {
            stuck = Some((done.await.expect("all connect"), began.elapsed(), Instant::now()));
        }
        if let Some((_, _, open)) = &stuck {
            // The producers' connections come and go.
            if server.fds() <= base_fds + 20 {
                gone = Some(open.elapsed());
            }
            assert!(open.elapsed() < DROPPED, "{} fds, {base_fds} before: stuck readers are kept", server.fds());
        }
        sleep(Duration::from_millis(100)).await;
    }
    going.store(false, Ordering::Relaxed);
    let mut times = Vec::new();
    while let Some(done) = producers.join_next().await {
        times.extend(done.expect("every append is acknowledged"));
    }
    let after = server.rss_kib();
    let (stuck, opened, _) = stuck.expect("opened");
    drop(stuck);
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{STUCK} stuck readers: open after {opened:.1?}, dropped {:.1?} later; RSS {} MiB before, {} at most, {} after \
         = {} KiB each; fds {base_fds} before, {peak_fds} at most; write-ahead log {} MiB at most",
        gone.expect("gone"),
        base_rss / 1_024,
        peak_rss / 1_024,
        after / 1_024,
        peak_rss.saturating_sub(base_rss) / STUCK as u64,
        peak_wal / 1_024 / 1_024,
    );
    println!("{} appends of {RUNS} runs meanwhile: p50 {:?}, p99 {:?}, max {:?}", times.len(), at(50), at(99), at(100));
    // On a slow machine the first ones are dropped before the last ones are there.
    assert!(peak_fds >= base_fds + STUCK * 3 / 4, "only {peak_fds} fds at once, {base_fds} before");
    assert!(peak_rss < base_rss + STUCK as u64 * KIB_EACH, "{peak_rss} KiB, {base_rss} before");
    assert!(peak_wal < WAL, "a write-ahead log of {peak_wal} bytes");
    assert!(at(100) < Duration::from_secs(5), "an append took {:?}", at(100));
}

/// Appends to a thread of its own; how long each append took.
async fn produce(api: Api, thread: String, going: Arc<AtomicBool>) -> Vec<Duration> {
    api.post("/v1/threads", json!({ "threadId": thread }).to_string()).await.done();
    let runs = format!("/v1/threads/{thread}/runs");
    api.post(&runs, r#"{"runId":"r"}"#).await.done();
    let mut times = Vec::new();
    let mut seq = 1;
    while going.load(Ordering::Relaxed) {
        let events: Vec<_> = (seq..seq + 5).map(|n| json!({ "type": "CUSTOM", "n": n })).collect();
        let body = serde_json::to_string(&events).expect("JSON");
        let sent = Instant::now();
        let receipt = api.post(&format!("{runs}/r/events?producerSeq={seq}"), body).await.done();
        times.push(sent.elapsed());
        assert_eq!(receipt["lastSeq"], seq + 4, "{receipt}");
        seq += 5;
        sleep(Duration::from_millis(250)).await;
    }
    times
}
