//! Both ways are broken off by SIGKILL, again and again, and given again until they come to their end.
//! `THREADLINE_SEED` repeats the moments.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use threadline::{
    progress::Progress,
    transfer::{self, ExportedSecrets, Refusal, Selection},
};
use threadline_core::{Clock, ReadFrom, Timestamp};
use threadline_store::{
    ExportStore, JobKind, JobStore, Purging, ThreadStore, TransferStore, memory::MemoryStore, sqlite::SqliteStore,
};

use crate::{
    command::{assert_same_files, command, export, whole_export},
    harness::{Backend, Options, Server},
};

const THREADS: usize = 90;

/// Many small threads and a long one, of several users.
async fn filled(data: &Path) {
    let server = Server::in_directory(data, Options::new(Backend::Sqlite)).await;
    for number in 0..THREADS {
        let user = server.user(["alice", "bob", "carol"][number % 3]);
        let thread = format!("t{number}");
        user.thread(&thread).await;
        let events: Vec<_> = (0..number % 7).map(|n| json!({ "type": "X", "n": n })).collect();
        let events = Value::from([events, vec![json!({ "type": "RUN_FINISHED" })]].concat());
        user.put(&format!("/v1/threads/{thread}/runs/r"), events).await.ok(201);
    }
    let user = server.user("alice");
    user.thread("long").await;
    for run in 0..4 {
        let line =
            |n: usize| format!("{{\"type\":\"X\",\"n\":{n},\"text\":\"{}\"}}\n", "some words ".repeat(1 + n % 50));
        let lines: String = (0..1_500).map(line).chain(["{\"type\":\"RUN_FINISHED\"}".to_owned()]).collect();
        user.ndjson(Method::PUT, &format!("/v1/threads/long/runs/r{run}"), lines).await.ok(201);
    }
    server.stop().await;
}

struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("THREADLINE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
        println!("THREADLINE_SEED={seed}");
        Self(seed)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A process that does not outlive its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Gives a command again and again, and kills it each time a bit later, until it ends by itself. How often it was killed.
fn until_done(new: impl Fn() -> Command, dice: &mut Dice, mut between: impl FnMut()) -> usize {
    let mut kills = 0;
    loop {
        let mut process = Running(new().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts"));
        thread::sleep(Duration::from_millis(20 + 30 * kills as u64 + dice.roll(80)));
        if let Some(status) = process.0.try_wait().expect("a child") {
            assert!(status.success(), "{status}");
            return kills;
        }
        drop(process);
        kills += 1;
        between();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_and_an_import_continue_where_they_were() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    filled(&at("data")).await;
    assert!(export(&at("data"), &at("whole")).done().starts_with(&format!("exported {} threads", THREADS + 1)));
    let mut dice = Dice::new();
    let out = until_done(|| whole_export(&at("data"), &at("moved")), &mut dice, || {});
    assert_same_files(&at("whole"), &at("moved"));
    let wanted: Arc<dyn TransferStore> =
        Arc::new(SqliteStore::open(&at("data"), Clock::system()).await.expect("opens"));
    let back = until_done(
        || command("import", &at("other"), &at("moved")),
        &mut dice,
        || {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(only_whole_threads(&at("other"), &wanted))
            });
        },
    );
    println!("killed {out} times on the way out, {back} times on the way back");
    assert!(out > 0 && back > 0, "nothing was broken off");
    export(&at("other"), &at("again")).done();
    assert_same_files(&at("whole"), &at("again"));
    // What was broken off is swept away, and nothing else is.
    let later = Clock::manual(Timestamp(Clock::system().now().0 + 86_400_000));
    let store = SqliteStore::open(&at("other"), later).await.expect("opens");
    for job in store.take_jobs(JobKind::Purge, 10_000).await.expect("takes") {
        while store.purge(job.subject.thread().expect("a thread"), 1_000).await.expect("purges") == Purging::More {}
    }
    store.close().await;
    export(&at("other"), &at("swept")).done();
    assert_same_files(&at("whole"), &at("swept"));
}

/// Whatever is there is there whole.
async fn only_whole_threads(data: &Path, wanted: &Arc<dyn TransferStore>) {
    let store = SqliteStore::open(data, Clock::system()).await.expect("opens");
    for there in store.all_threads(None, 1_000).await.expect("lists") {
        let thread = there.thread;
        let original =
            wanted.thread_named(&thread.project, &thread.id).await.expect("looks").thread().expect("is there");
        assert_eq!((thread.epoch, thread.tail, thread.version), (original.epoch, original.tail, original.version));
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_beside_writers_has_the_beginning_of_each_log() {
    let home = tempfile::tempdir().expect("a directory");
    let sqlite = SqliteStore::open(&home.path().join("data"), Clock::system()).await.expect("opens");
    let store: Arc<dyn TransferStore> = Arc::new(sqlite.clone());
    let server = Server::over(Arc::new(sqlite.clone()), Options::new(Backend::Sqlite)).await;
    let writers = ["a", "b", "c"].map(|thread| {
        let dev = server.client();
        tokio::spawn(async move {
            dev.thread(thread).await;
            for run in 0..25 {
                let name = format!("r{run}");
                dev.run(thread, &name).await;
                for seq in 0..6 {
                    dev.append(thread, &name, 1 + seq, json!([{ "type": "X", "n": seq }])).await.ok(200);
                }
                dev.append(thread, &name, 7, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
            }
        })
    });
    let mut exports = Vec::new();
    while !writers.iter().all(|writer| writer.is_finished()) {
        let files = home.path().join(exports.len().to_string());
        let now = Clock::system().now();
        transfer::export(
            store.clone(),
            &files,
            &Selection::default(),
            ExportedSecrets::Written,
            now,
            &Progress::silent(),
        )
        .await
        .expect("exports");
        exports.push(files);
    }
    for writer in writers {
        writer.await.expect("written");
    }
    let mut under_way = 0;
    for files in exports {
        let copy: Arc<dyn TransferStore> = Arc::new(MemoryStore::new(Clock::system()));
        let refused = |refusal: &Refusal| panic!("{refusal}");
        let all = Selection::default();
        transfer::import(copy.clone(), &files, &all, &Progress::silent(), refused).await.expect("imports");
        for there in copy.all_threads(None, 10).await.expect("lists") {
            let thread = there.thread;
            let original = server
                .store
                .thread_named(&thread.project, &thread.id)
                .await
                .expect("looks")
                .thread()
                .expect("is there");
            let log = async |store: &dyn TransferStore, key| {
                let (mut events, mut after) = (Vec::new(), 0);
                loop {
                    let page = store.read(key, ReadFrom::After(after), 1_000).await.expect("reads").expect("is there");
                    let Some(last) = page.slice.last_seq() else { return events };
                    after = last;
                    let event = |(seq, event, batch): (u64, &[u8], &threadline_core::Batch)| {
                        (seq, event.to_vec(), batch.run.clone(), batch.at)
                    };
                    events.extend(page.slice.events().map(event));
                }
            };
            let (part, whole) = (log(copy.as_ref(), thread.key).await, log(store.as_ref(), original.key).await);
            assert_eq!(part.len() as u64, thread.tail);
            assert!(whole.starts_with(&part), "{} is no beginning", thread.id);
            // A run that was under way then is under way there.
            under_way += usize::from(thread.active_run.is_some());
            let last = copy.runs(thread.key, None, 1).await.expect("runs").pop();
            assert_eq!(last.is_some_and(|run| run.status.is_active()), thread.active_run.is_some());
        }
    }
    assert!(under_way > 0, "no export met a run");
    server.stop().await;
    sqlite.close().await;
}
