//! A thousand readers that never read, while a hundred runs append.

use std::{
    fs,
    net::TcpStream,
    ops::Range,
    path::{Path, PathBuf},
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

/// How often, how long, and what is asked of the ratio: p99 of the appends beside stuck readers to p99 without any, the
/// medians of pairs of a quiet time and a time with readers, one after the other.
struct Measured {
    pairs: usize,
    window: Duration,
    /// Time for the buffers between the server and the readers to fill. Until then they are served, as any reader is.
    filling: Duration,
    /// The most that the ratio may be …
    ratio: f64,
    /// … and beyond that this much, which a scheduler alone may take.
    slack: Duration,
}

/// A debug build, perhaps on a machine with other things to do: a bound for what is plainly wrong. Readers that were waited
/// for would cost seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_stuck_readers_cost_little_and_delay_nobody() {
    let millis = Duration::from_millis;
    measure(Measured { pairs: 3, window: millis(2_500), filling: millis(3_000), ratio: 3.0, slack: millis(250) }).await;
}

/// The budget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a release build on a quiet machine: make test-full"]
async fn a_thousand_stuck_readers_keep_the_budget() {
    let seconds = Duration::from_secs;
    let slack = Duration::from_millis(2);
    measure(Measured { pairs: 5, window: seconds(6), filling: seconds(8), ratio: 1.5, slack }).await;
}

async fn measure(wanted: Measured) {
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
    let mut watch = Watch::new(&server, data.path());
    let mut windows = Vec::new();
    for pair in 1..=wanted.pairs {
        // What the readers before have left behind is no quiet time.
        watch.span(wanted.filling / 2).await;
        let before = server.cpu();
        let quiet = watch.span(wanted.window).await;
        let idle = server.cpu() - before;
        let began = Instant::now();
        let stuck = watch.open().await;
        let opened = began.elapsed();
        watch.span(wanted.filling).await;
        let coming = began..Instant::now();
        let before = server.cpu();
        windows.push((quiet, coming, watch.span(wanted.window).await));
        // What others do to this machine does not show here.
        println!("CPU of the server: {idle:.1?} in the quiet time, {:.1?} beside stuck readers", server.cpu() - before);
        // On a slow machine the first ones are dropped before the last ones are there.
        let (fds, base) = (watch.peak_fds, watch.base_fds);
        assert!(fds >= base + STUCK * 3 / 4, "only {fds} fds at once, {base} before");
        println!("{STUCK} stuck readers: open after {opened:.1?}");
        let open = Instant::now();
        if pair < wanted.pairs {
            // They go by themselves.
            drop(stuck);
            watch.until_gone(open).await;
        } else {
            watch.until_gone(open).await;
            println!("dropped {:.1?} later", open.elapsed());
            drop(stuck);
        }
    }
    going.store(false, Ordering::Relaxed);
    let mut appends = Vec::new();
    while let Some(done) = producers.join_next().await {
        appends.extend(done.expect("every append is acknowledged"));
    }
    watch.report();
    let p99s: Vec<_> = windows
        .iter()
        .map(|(quiet, coming, stuck)| [quiet, coming, stuck].map(|window| at(&appends, window.clone(), 99)))
        .collect();
    for (pair, [quiet, coming, stuck]) in p99s.iter().enumerate() {
        let ratio = stuck.as_secs_f64() / quiet.as_secs_f64();
        println!(
            "pair {pair}: append p99 {quiet:.1?} quiet, {coming:.1?} while they come, {stuck:.1?} beside them: {ratio:.2} x"
        );
    }
    let median = |which: usize| {
        let mut p99s: Vec<_> = p99s.iter().map(|pair| pair[which]).collect();
        p99s.sort_unstable();
        p99s[p99s.len() / 2]
    };
    let (quiet, stuck) = (median(0), median(2));
    let all = began_to_end(&appends);
    println!(
        "{} appends of {RUNS} runs: p50 {:.1?}, max {:.1?}; medians of p99 {quiet:.1?} and {stuck:.1?}: {:.2} x (at most {} x)",
        appends.len(),
        at(&appends, all.clone(), 50),
        at(&appends, all.clone(), 100),
        stuck.as_secs_f64() / quiet.as_secs_f64(),
        wanted.ratio
    );
    assert!(stuck <= quiet.mul_f64(wanted.ratio) + wanted.slack, "{stuck:?} beside stuck readers, {quiet:?} without");
    assert!(at(&appends, all.clone(), 100) < Duration::from_secs(5), "an append took {:?}", at(&appends, all, 100));
}

/// When an append was sent, and how long it took.
type Append = (Instant, Duration);

fn began_to_end(appends: &[Append]) -> Range<Instant> {
    let sent = appends.iter().map(|(sent, _)| *sent);
    sent.clone().min().expect("appends")..sent.max().expect("appends") + Duration::from_nanos(1)
}

/// How long the appends took that were sent in this time: all but so many percent were faster.
fn at(appends: &[Append], window: Range<Instant>, percent: usize) -> Duration {
    let mut times: Vec<_> = appends.iter().filter(|(sent, _)| window.contains(sent)).map(|(_, took)| *took).collect();
    assert!(times.len() >= RUNS, "only {} appends in {:?}", times.len(), window.end - window.start);
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

/// Looks at what the server uses.
struct Watch<'s> {
    server: &'s Server,
    wal: PathBuf,
    base_rss: u64,
    base_fds: usize,
    peak_rss: u64,
    peak_fds: usize,
    peak_wal: u64,
}

impl<'s> Watch<'s> {
    fn new(server: &'s Server, data: &Path) -> Self {
        let (base_rss, base_fds) = (server.rss_kib(), server.fds());
        let wal = data.join("threadline.db-wal");
        Self { server, wal, base_rss, base_fds, peak_rss: 0, peak_fds: 0, peak_wal: 0 }
    }

    fn look(&mut self) {
        self.peak_rss = self.peak_rss.max(self.server.rss_kib());
        self.peak_fds = self.peak_fds.max(self.server.fds());
        self.peak_wal = self.peak_wal.max(fs::metadata(&self.wal).map_or(0, |wal| wal.len()));
    }

    /// Lets some time pass.
    async fn span(&mut self, time: Duration) -> Range<Instant> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.look();
            sleep(Duration::from_millis(100)).await;
        }
        begin..Instant::now()
    }

    /// Readers that read nothing, over both transports, half and half.
    async fn open(&mut self) -> Vec<TcpStream> {
        self.peak_fds = 0;
        let url = self.server.url.clone();
        let opening = spawn_blocking(move || {
            let some = |from: usize| {
                let url = url.clone();
                let open = move |n| if n % 2 == 0 { raw::sse(&url, "big") } else { raw::socket(&url, "big") };
                thread::spawn(move || (from..STUCK).step_by(OPENERS).map(open).collect::<Vec<TcpStream>>())
            };
            let some: Vec<_> = (0..OPENERS).map(some).collect();
            some.into_iter().flat_map(|some| some.join().expect("all connect")).collect()
        });
        while !opening.is_finished() {
            self.look();
            sleep(Duration::from_millis(100)).await;
        }
        opening.await.expect("all connect")
    }

    /// Waits until the server has let go of them.
    async fn until_gone(&mut self, open: Instant) {
        // The producers' connections come and go.
        while self.server.fds() > self.base_fds + 20 {
            self.look();
            let fds = self.server.fds();
            assert!(open.elapsed() < DROPPED, "{fds} fds, {} before: stuck readers are kept", self.base_fds);
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Says what was seen; it must be little.
    fn report(&self) {
        let Self { base_rss, base_fds, peak_rss, peak_fds, peak_wal, .. } = *self;
        println!(
            "RSS {} MiB before, {} at most, {} after = {} KiB each; fds {base_fds} before, {peak_fds} at most; write-ahead \
             log {} MiB at most",
            base_rss / 1_024,
            peak_rss / 1_024,
            self.server.rss_kib() / 1_024,
            peak_rss.saturating_sub(base_rss) / STUCK as u64,
            peak_wal / 1_024 / 1_024,
        );
        assert!(peak_rss < base_rss + STUCK as u64 * KIB_EACH, "{peak_rss} KiB, {base_rss} before");
        assert!(peak_wal < WAL, "a write-ahead log of {peak_wal} bytes");
    }
}

/// Appends to a thread of its own.
async fn produce(api: Api, thread: String, going: Arc<AtomicBool>) -> Vec<Append> {
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
        times.push((sent, sent.elapsed()));
        assert_eq!(receipt["lastSeq"], seq + 4, "{receipt}");
        seq += 5;
        sleep(Duration::from_millis(250)).await;
    }
    times
}
