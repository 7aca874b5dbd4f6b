//! A thousand readers that never read, while runs append.

use std::{
    fs,
    net::TcpStream,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use threadline_core::limits::WRITE_TIMEOUT;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

use crate::{
    api::{Api, JSON, Reply},
    raw,
    server::Server,
};

const STUCK: usize = 1_000;
const OPENERS: usize = 16;
/// What a stuck reader may cost: a page on its way, as the transport writes it, and the connection.
const KIB_EACH: u64 = 1_024;
/// WAL_LIMIT_BYTES, and what is written until that is noticed.
const WAL: u64 = 96 * 1_024 * 1_024;
/// WRITE_TIMEOUT and 5 s for SSE, from when the last of them is stuck: a busy machine takes its time until then.
const DROPPED: Duration = Duration::from_secs(120);

/// Lease of the runs. No append takes as long, or its run would be over.
const LEASE: Duration = Duration::from_secs(60);
/// Until every run has appended: far more than that needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How much is done, how often and how long.
struct Measured {
    /// Runs that append.
    runs: usize,
    /// Of a quiet time and a time with readers, one after the other.
    pairs: usize,
    /// The least that either of them lasts.
    window: Duration,
    /// Time for the buffers between the server and the readers to fill. Until then they are served, as any reader is.
    filling: Duration,
    /// No append takes as long as this.
    longest: Duration,
    /// What is asked of the ratio: p99 of the appends beside stuck readers to p99 without any, the medians of the pairs.
    budget: Option<Budget>,
}

struct Budget {
    /// The most that the ratio may be …
    ratio: f64,
    /// … and beyond that this much, which a scheduler alone may take.
    slack: Duration,
}

/// A debug build, perhaps on a busy machine: the time of an append means little there, and the ratio is only printed. But
/// the readers stay until every run has appended beside them, or for WRITE_TIMEOUT: if appends waited for them, the slowest
/// append of every run would take about as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_stuck_readers_cost_little_and_delay_no_other() {
    let (window, filling) = (Duration::from_millis(1_500), Duration::from_secs(8));
    measure(Measured { runs: 20, pairs: 1, window, filling, longest: LEASE, budget: None }).await;
}

/// The budget.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a release build on a quiet machine: make test-full"]
async fn a_thousand_stuck_readers_keep_the_budget() {
    let seconds = Duration::from_secs;
    let budget = Some(Budget { ratio: 1.5, slack: Duration::from_millis(2) });
    let (window, filling) = (seconds(6), seconds(8));
    measure(Measured { runs: 100, pairs: 5, window, filling, longest: seconds(5), budget }).await;
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
    let acknowledged: Acknowledged = (0..wanted.runs).map(|_| AtomicUsize::new(0)).collect();
    let mut producers = JoinSet::new();
    for n in 0..wanted.runs {
        producers.spawn(produce(api.clone(), n, acknowledged.clone(), going.clone()));
    }
    sleep(Duration::from_secs(3)).await;
    let mut watch = Watch::new(&server, data.path(), acknowledged);
    let mut windows = Vec::new();
    for pair in 1..=wanted.pairs {
        // The cleanup of the previous readers is no quiet time.
        watch.span(wanted.filling / 2).await;
        let before = server.cpu();
        let quiet = watch.window(wanted.window).await;
        let idle = server.cpu() - before;
        let began = Instant::now();
        let stuck = watch.open().await;
        let opened = began.elapsed();
        watch.span(wanted.filling).await;
        let coming = began..Instant::now();
        let before = server.cpu();
        windows.push((quiet, coming, watch.window(wanted.window).await));
        // What others do to this machine does not show here.
        println!("CPU of the server: {idle:.1?} in the quiet time, {:.1?} beside stuck readers", server.cpu() - before);
        // On a slow machine the first ones are dropped before the last ones are there.
        let (fds, base) = (watch.peak_fds, watch.base_fds);
        assert!(fds >= base + STUCK * 3 / 4, "only {fds} fds at once, {base} before");
        println!("{STUCK} stuck readers: open after {opened:.1?}");
        let open = Instant::now();
        if pair < wanted.pairs || wanted.budget.is_none() {
            // The readers disconnect. Their release by the server takes longer, and is the subject of other tests.
            drop(stuck);
            watch.until_gone(open).await;
        } else {
            watch.until_gone(open).await;
            println!("dropped {:.1?} later", open.elapsed());
            drop(stuck);
        }
    }
    going.store(false, Ordering::Relaxed);
    let runs: Vec<_> = producers.join_all().await;
    let mut slowest: Vec<_> = runs.iter().filter_map(|appends| appends.iter().map(|(_, took)| *took).max()).collect();
    slowest.sort_unstable();
    let usual = slowest[slowest.len() / 2];
    let appends = runs.concat();
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
    let longest = at(&appends, all.clone(), 100);
    println!(
        "{} appends of {} runs: p50 {:.1?}, max {longest:.1?}, of most runs {usual:.1?}; medians of p99 {quiet:.1?} and {stuck:.1?}: {:.2} x",
        appends.len(),
        wanted.runs,
        at(&appends, all, 50),
        stuck.as_secs_f64() / quiet.as_secs_f64(),
    );
    assert!(longest < wanted.longest, "an append took {longest:?}");
    assert!(usual < WRITE_TIMEOUT / 2, "every other run had an append that took {usual:?} or more");
    if let Some(Budget { ratio, slack }) = wanted.budget {
        let most = quiet.mul_f64(ratio) + slack;
        assert!(stuck <= most, "{stuck:?} beside stuck readers, {quiet:?} without: at most {ratio} x");
    }
}

/// How many appends of each run were acknowledged.
type Acknowledged = Arc<[AtomicUsize]>;

/// When an append was sent, and how long it took.
type Append = (Instant, Duration);

fn began_to_end(appends: &[Append]) -> Range<Instant> {
    let sent = appends.iter().map(|(sent, _)| *sent);
    sent.clone().min().expect("appends")..sent.max().expect("appends") + Duration::from_nanos(1)
}

/// How long the appends took that were sent in this time: all but so many percent were faster. Zero if there are
/// none.
fn at(appends: &[Append], window: Range<Instant>, percent: usize) -> Duration {
    let mut times: Vec<_> = appends.iter().filter(|(sent, _)| window.contains(sent)).map(|(_, took)| *took).collect();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}

/// Looks at what the server uses.
struct Watch<'s> {
    server: &'s Server,
    wal: PathBuf,
    acknowledged: Acknowledged,
    base_rss: u64,
    base_fds: usize,
    peak_rss: u64,
    peak_fds: usize,
    peak_wal: u64,
}

impl<'s> Watch<'s> {
    fn new(server: &'s Server, data: &Path, acknowledged: Acknowledged) -> Self {
        let (base_rss, base_fds) = (server.rss_kib(), server.fds());
        let wal = data.join("threadline.db-wal");
        Self { server, wal, acknowledged, base_rss, base_fds, peak_rss: 0, peak_fds: 0, peak_wal: 0 }
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

    /// Lets some time pass, and as much more as it takes until every run has sent an append and seen it acknowledged.
    async fn window(&mut self, time: Duration) -> Range<Instant> {
        let counts =
            |watch: &Self| -> Vec<_> { watch.acknowledged.iter().map(|n| n.load(Ordering::Relaxed)).collect() };
        let begin = Instant::now();
        // One may have been under way.
        let wanted: Vec<_> = counts(self).into_iter().map(|count| count + 2).collect();
        self.span(time).await;
        while counts(self).iter().zip(&wanted).any(|(count, wanted)| count < wanted) {
            assert!(begin.elapsed() < PATIENCE, "{:?}, not {wanted:?} appends acknowledged", counts(self));
            self.span(Duration::from_millis(100)).await;
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

    /// Waits until the server has released the readers' connections.
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
async fn produce(api: Api, n: usize, acknowledged: Acknowledged, going: Arc<AtomicBool>) -> Vec<Append> {
    let thread = format!("t{n}");
    api.post("/v1/threads", json!({ "threadId": thread }).to_string()).await.done();
    let runs = format!("/v1/threads/{thread}/runs");
    api.post(&runs, json!({ "runId": "r", "leaseSeconds": LEASE.as_secs() }).to_string()).await.done();
    let mut times = Vec::new();
    let mut seq = 1;
    while going.load(Ordering::Relaxed) {
        let events: Vec<_> = (seq..seq + 5).map(|n| json!({ "type": "CUSTOM", "n": n })).collect();
        let body = serde_json::to_string(&events).expect("JSON");
        let sent = Instant::now();
        let receipt = loop {
            match api.post(&format!("{runs}/r/events?producerSeq={seq}"), body.clone()).await {
                // A connection that was idle may be closed while the request is being sent; the number makes it repeatable.
                Reply::Unknown(error) if error.starts_with("reqwest::Error") => {}
                reply => break reply.done(),
            }
        };
        times.push((sent, sent.elapsed()));
        acknowledged[n].fetch_add(1, Ordering::Relaxed);
        assert_eq!(receipt["lastSeq"], seq + 4, "{receipt}");
        seq += 5;
        sleep(Duration::from_millis(250)).await;
    }
    times
}
