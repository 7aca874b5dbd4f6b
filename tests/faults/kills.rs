//! `kill -9` under load, at moments chosen by chance and at chosen system calls.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use sqlx::{ConnectOptions, query_scalar, sqlite::SqliteConnectOptions};
use tokio::time::{sleep, timeout};

use crate::{
    load::{Load, Size},
    rng::{self, Rng},
    server::{Server, command, needs},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// At any moment.
    Any,
    /// At any moment, and away for longer than the leases.
    Away,
    /// Soon after the start, ready or not.
    Start,
    /// Soon after the end of a run that is sealed then.
    Seal,
    /// While a thread is being deleted.
    Delete,
    /// Entering a write to a file.
    Write,
    /// Entering a sync.
    Sync,
    /// A chosen system call was not reached in time: at any moment, while traced.
    Late,
}

const KINDS: [Kind; 7] = [Kind::Any, Kind::Away, Kind::Start, Kind::Seal, Kind::Delete, Kind::Write, Kind::Sync];
const KILLS: usize = 49;
const ACKED: u64 = 100_000;
/// Everything together.
const LIMIT: Duration = Duration::from_secs(145);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_to_kill_9() {
    let _turn = crate::turn().await;
    needs("strace", "strace");
    let began = Instant::now();
    let mut rng = Rng::new(rng::seed(), 0);
    let data = tempfile::tempdir().expect("a directory");
    let load = Load::begin(Size { lanes: 16, contended: 4, churned: 4, pause: 120 }, rng.draw());
    let mut kills = BTreeMap::<Kind, usize>::new();
    let mut first_acks = Vec::new();
    for number in 0..KILLS {
        let kind = kill(KINDS[number % KINDS.len()], data.path(), &load, &mut rng, &mut first_acks).await;
        *kills.entry(kind).or_default() += 1;
    }
    let mut server = Server::on(data.path());
    load.base.send_replace(Some(server.url.clone()));
    let tally = load.tally.clone();
    while tally.acked.load(Ordering::Relaxed) < ACKED {
        assert!(began.elapsed() < LIMIT, "only {:?} events in {:?}", tally.acked, began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    let killing = began.elapsed();
    let found = load.end().await;
    server.signal(Signal::SIGTERM);
    let status = server.wait(Duration::from_secs(15)).expect("a clean end");
    assert!(status.success(), "{status}");
    let (segments, rows) = inside(data.path()).await;
    println!("inside: {segments} segments and {rows} rows not sealed yet");
    assert!(segments > 0, "nothing was sealed, so no kill met the sealing");
    first_acks.sort_unstable();
    println!("kills: {KILLS} {kills:?} in {killing:.1?}, {:.1?} with the check", began.elapsed());
    println!(
        "acked: {} events; {} requests sent again; {} threads deleted, {} of them checked and made again",
        tally.acked.load(Ordering::Relaxed),
        tally.retried.load(Ordering::Relaxed),
        tally.deletes.load(Ordering::Relaxed),
        tally.recreated.load(Ordering::Relaxed)
    );
    println!("found: {found}");
    println!(
        "restart to first ack: p50 {:?}, max {:?} ({} restarts)",
        first_acks[first_acks.len() / 2],
        first_acks[first_acks.len() - 1],
        first_acks.len()
    );
    assert_eq!(kills.values().sum::<usize>(), KILLS);
    let traced = kills.get(&Kind::Write).unwrap_or(&0) + kills.get(&Kind::Sync).unwrap_or(&0);
    assert!(traced >= 6, "only {traced} kills at a chosen system call");
    assert!(tally.deletes.load(Ordering::Relaxed) >= 5, "hardly a thread was deleted");
}

/// Looks into the file: it is sound, and holds this many segments and rows.
async fn inside(data: &Path) -> (i64, i64) {
    let file = SqliteConnectOptions::new().filename(data.join("threadline.db"));
    let mut connection = file.connect().await.expect("the database opens");
    let sound: String = query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.expect("checked");
    assert_eq!(sound, "ok");
    let segments = query_scalar("SELECT count(*) FROM log WHERE fence IS NULL");
    let segments = segments.fetch_one(&mut connection).await.expect("counted");
    let rows = query_scalar("SELECT count(*) FROM log WHERE fence IS NOT NULL");
    (segments, rows.fetch_one(&mut connection).await.expect("counted"))
}

/// Starts a server, lets the load at it, and kills it.
async fn kill(kind: Kind, data: &Path, load: &Load, rng: &mut Rng, first_acks: &mut Vec<Duration>) -> Kind {
    let inject;
    let under: &[&str] = match kind {
        Kind::Write | Kind::Sync => {
            let calls = if kind == Kind::Write { "pwrite64" } else { "fsync,fdatasync" };
            let when = rng.spread(if kind == Kind::Write { 11 } else { 8 });
            // Without --seccomp-bpf: there a signal that is injected gets lost.
            inject = format!("inject={calls}:signal=KILL:when={when}");
            &["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,fsync,fdatasync", "-e", &inject]
        }
        _ => &[],
    };
    load.tally.take_first_ack();
    let mut server = Server::spawn(command(data, under));
    if kind == Kind::Start {
        sleep(Duration::from_millis(rng.between(0, 150))).await;
        // It may be ready by now, or not.
        server.kill();
        return kind;
    }
    let ready = tokio::task::block_in_place(|| server.ready());
    assert!(ready || !under.is_empty(), "the server did not start again:\n{}", server.said());
    let mut died = !ready;
    if ready {
        load.base.send_replace(Some(server.url.clone()));
        died = at(kind, &mut server, load, rng).await;
    }
    load.api.assert_sound();
    // The acknowledgement of the first append must not be counted for the next server.
    server.kill();
    load.base.send_replace(None);
    if let Some(first) = load.tally.take_first_ack() {
        first_acks.push(first.saturating_duration_since(server.spawned));
    }
    match kind {
        Kind::Away => {
            sleep(Duration::from_millis(1_300)).await;
            kind
        }
        Kind::Write | Kind::Sync if !died => Kind::Late,
        kind => kind,
    }
}

/// Waits for the moment to kill. True if the server has died by itself, as it should.
async fn at(kind: Kind, server: &mut Server, load: &Load, rng: &mut Rng) -> bool {
    let patience = Duration::from_secs(3);
    match kind {
        Kind::Any | Kind::Away | Kind::Start | Kind::Late => {
            sleep(Duration::from_millis(rng.between(100, 2_500))).await
        }
        Kind::Seal | Kind::Delete => {
            sleep(Duration::from_millis(rng.between(50, 1_500))).await;
            let moment = if kind == Kind::Seal { &load.tally.sealing } else { &load.tally.deleting };
            // It will come; if it does not, any moment is as good.
            let _ = timeout(patience, moment.notified()).await;
            // A node looks for work to seal once a second.
            let soon = if kind == Kind::Seal { 1_050_000 } else { 25_000 };
            sleep(Duration::from_micros(rng.between(0, soon))).await;
        }
        Kind::Write | Kind::Sync => {
            let deadline = Instant::now() + patience;
            while Instant::now() < deadline {
                if server.wait(Duration::ZERO).is_some() {
                    return true;
                }
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
    false
}
