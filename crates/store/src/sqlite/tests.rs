//! Tests of this back-end alone: query plans, a full disk, the contents of the file.

use sqlx::{ConnectOptions, Connection, query};
use tempfile::TempDir;
use threadline_core::{CreatedThread, NewEvents, NewThread, ProjectId, ReadFrom, RunId, ThreadId, ThreadKey, UserId};

use super::*;
use crate::{
    Append, LogStore, Purging, RunStore, StartOutcome, StartRun, StoreError, ThreadStore,
    sql::{
        seal::Sealing,
        tables::{identity, jobs, snapshots},
    },
};

async fn open() -> (SqliteStore, TempDir) {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = SqliteStore::open(dir.path(), Clock::system()).await.expect("opens");
    (store, dir)
}

async fn started(store: &SqliteStore, id: &str) -> (ThreadKey, threadline_core::Fence) {
    let new = NewThread {
        project: ProjectId::new("p").expect("id"),
        id: ThreadId::new(id).expect("id"),
        user: UserId::new("u").expect("id"),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: String::new(),
        request: None,
        claimed: true,
    };
    let CreatedThread { thread, .. } = store.create_thread(new).await.expect("creates");
    let start = StartRun {
        key: thread.key,
        run: RunId::generate(),
        agent: None,
        turn: None,
        attempt_id: None,
        author: None,
        asked_by: None,
        lease: Duration::from_secs(60),
        closing: None,
        events: None,
        at: None,
        epoch: None,
        past_queue: false,
    };
    match store.start(start).await.expect("starts") {
        StartOutcome::Started(started) => (thread.key, started.run.fence),
        other => panic!("{other:?}"),
    }
}

fn append(key: ThreadKey, fence: threadline_core::Fence, text: &str) -> Append {
    let events = NewEvents::from_ndjson(text.as_bytes()).expect("events");
    Append { key, fence: fence.into(), epoch: None, producer_seq: None, events }
}

async fn pragma(store: &SqliteStore, text: String) {
    let work = store.write(|connection| {
        Box::pin(async move { fetch::rows(connection, query(AssertSqlSafe(text))).await.map(drop) })
    });
    work.await.expect("pragma");
}

#[tokio::test]
async fn hot_statements_never_scan() {
    let (store, _dir) = open().await;
    let statements = [
        append::ONE,
        append::GROUP,
        append::WRITE_AND_END,
        log::AFTER,
        log::BEFORE,
        log::HEADS,
        runs::HEARTBEAT,
        runs::ACTIVE,
        begin::START,
        threads::BY_ID,
        threads::NAMED,
        threads::TAKEN,
        threads::LISTS.recent,
        threads::LISTS.created,
        threads::LISTS.recent_failed,
        threads::LISTS.created_failed,
        threads::LISTS.recent_waiting,
        threads::LISTS.created_waiting,
        threads::LISTS.running,
        threads::OPEN_INTERRUPTS,
        append::ANSWERING,
        threads::MARK,
        feed::DIRTY,
        feed::PAGE,
        feed::DIRTY_FEEDS,
        feed::WAS_DELETED,
        runs::CLAIM_DUE,
        runs::WAITING,
        runs::ACTIVE_RUNS,
        turns::TAKE,
        attempts::TAKE_UP,
        crate::sql::attempts::TURN,
        crate::sql::turns::OF,
        tables::STATEMENTS.tombstones,
        tables::STATEMENTS.take_jobs,
        tables::STATEMENTS.end_job,
        tables::STATEMENTS.delay_job,
        tables::STATEMENTS.job_levels,
        jobs::WAITING,
        seal::IDLE_SINCE,
        append::WRITE_END_COMMIT,
        threads::DELETE,
        snapshots::NEWEST,
        tables::STATEMENTS.unprojected,
        tables::STATEMENTS.put_annotation,
        tables::STATEMENTS.annotations,
        tables::STATEMENTS.all_threads,
        tables::STATEMENTS.all_feeds,
        tables::STATEMENTS.feed_image,
        staging::FORGET,
        staging::TOUCH,
        staging::RUNS,
        staging::LOG,
        staging::WHOLE,
        staging::PUBLISH,
        identity::CHANGE_PROJECT,
        identity::KEY,
        identity::KEYS,
        identity::REVOKE,
        tables::STATEMENTS.put_ticket,
        tables::STATEMENTS.sweep_tickets,
        identity::TAKE_TICKET,
        identity::AUDIT,
        tables::STATEMENTS.idle,
        tables::STATEMENTS.footprint,
        tables::STATEMENTS.footprint_rest,
        tables::STATEMENTS.forget_some,
        tables::STATEMENTS.forget,
        tables::STATEMENTS.trash,
        tables::STATEMENTS.trash_page,
        tables::STATEMENTS.restore,
        tables::STATEMENTS.discard,
        tables::STATEMENTS.trash_of,
        tables::STATEMENTS.trashed_users,
    ];
    let mut steps = Vec::new();
    for statement in statements.iter().flat_map(|text| text.split(';')) {
        if matches!(statement.trim(), "BEGIN IMMEDIATE" | "COMMIT" | "") {
            continue;
        }
        let plan = query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")));
        for row in store.read_rows(plan).await.expect("explains") {
            steps.push((statement, rows::Columns::new(&row).skip(3).text().expect("text")));
        }
    }
    assert!(steps.len() > 40, "{}", steps.len());
    for (statement, step) in steps {
        // The list of arguments, the page under construction, a bounded subquery, a constant row and one snapshot are all that is
        // scanned; and only the contents of one page are sorted.
        let allowed = [
            "SCAN jsonb_each",
            "SCAN json_each",
            "SCAN v VIRTUAL",
            "SCAN i VIRTUAL",
            "SCAN q VIRTUAL",
            "SCAN run",
            "SCAN kept",
            "SCAN added",
            "SCAN page",
            "SCAN own",
            "SCAN one",
            "SCAN two",
            "SCAN w",
            "SCAN e",
            "SCAN CONSTANT ROW",
            "SCAN (subquery",
            "SCAN s LEFT-JOIN",
        ];
        // Sweeps walk over partial indexes that hold only the rows to be swept.
        let swept = ["threads_dirty", "threads_deleted"].iter().any(|index| step.contains(index));
        let scan = !swept && step.starts_with("SCAN") && !allowed.iter().any(|prefix| step.starts_with(prefix));
        let paged = statement.contains("feed_heads")
            || [tables::STATEMENTS.idle, threads::LISTS.running].contains(&statement)
            || statement.contains("deleted = 0, key");
        let sort = step.contains("TEMP B-TREE") && !paged;
        assert!(!scan && !sort && !step.contains("AUTOMATIC"), "{step}\n  in {statement}");
    }
}

#[tokio::test]
async fn an_abandoned_read_blocks_no_other() {
    let (store, _dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("appends");
    // Reads are begun and never polled again, as in a response whose client reads nothing.
    let mut begun: Vec<_> = (0..20).map(|_| store.read(key, ReadFrom::After(0), 10)).collect();
    for read in &mut begun {
        let _ = futures_util::poll!(read.as_mut());
    }
    for _ in 0..20 {
        tokio::time::timeout(std::time::Duration::from_secs(5), store.heads(&[key]))
            .await
            .expect("soon")
            .expect("heads");
    }
    for read in begun {
        assert!(read.await.expect("reads").is_some());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let (store, _dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    let line = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(20_000));
    pragma(&store, "PRAGMA max_page_count = 200".to_owned()).await;
    let mut acked = 0;
    let error = loop {
        match store.append(&[append(key, fence, &line)]).await {
            Ok(answers) => acked += answers.iter().flatten().count() as u64,
            Err(error) => break error,
        }
        assert!(acked < 1_000, "the disk never filled");
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(acked > 10);

    // In a group the small append succeeds although the large one cannot.
    let (other, other_fence) = started(&store, "other").await;
    let group = [append(key, fence, &line), append(other, other_fence, "{\"type\":\"Y\"}")];
    let answers = store.append(&group).await.expect("not for all");
    assert!(answers[0].is_none() && answers[1].is_some(), "{answers:?}");

    pragma(&store, "PRAGMA max_page_count = 100000".to_owned()).await;
    let answers = store.append(&[append(key, fence, &line)]).await.expect("there is room again");
    assert_eq!(answers[0].as_ref().map(|done| done.first_seq), Some(acked + 1));
    let page = store.read(key, ReadFrom::Before(u64::MAX), 10_000).await.expect("reads").expect("is there");
    assert_eq!(page.head.tail, acked + 1);
    assert_eq!(page.slice.last_seq(), Some(acked + 1));
}

#[tokio::test]
async fn a_piece_of_work_that_panics_leaves_nothing_open() {
    let (store, _dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    let work = store.transact::<(), _>(|connection| {
        Box::pin(async move {
            fetch::run(connection, query("UPDATE heads SET tail = 77")).await?;
            panic!("on purpose")
        })
    });
    assert!(work.await.is_err());
    let answers = store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("works on");
    assert_eq!(answers[0].as_ref().map(|done| done.first_seq), Some(1));
}

#[tokio::test]
async fn one_poisoned_thread_does_not_fail_its_group() {
    let (store, _dir) = open().await;
    let (good, good_fence) = started(&store, "good").await;
    let (bad, bad_fence) = started(&store, "bad").await;
    // A row that must not exist: the assertion of the log's index must stop the append.
    pragma(&store, format!("INSERT INTO log VALUES ({}, 1, 1, 1, 0, 2, x'7b7d', NULL)", bad.0)).await;
    let group = [append(bad, bad_fence, "{\"type\":\"X\"}"), append(good, good_fence, "{\"type\":\"X\"}")];
    let answers = store.append(&group).await.expect("the group");
    assert!(answers[0].is_none() && answers[1].is_some());
    let alone = store.append(&group[..1]).await;
    assert!(matches!(alone, Err(StoreError::Corrupt(_))), "{alone:?}");
    let heads = store.heads(&[bad, good]).await.expect("heads");
    assert_eq!(heads.iter().map(|head| (head.key, head.tail)).collect::<Vec<_>>(), [(bad, 0), (good, 1)]);
}

#[tokio::test]
async fn the_write_ahead_log_is_cut_and_the_store_closes_into_one_file() {
    let (store, dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    pragma(&store, "PRAGMA wal_autocheckpoint = 0".to_owned()).await;
    store.inner.checkpoints.close().await;
    let line = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(4_000_000));
    for _ in 0..20 {
        store.append(&[append(key, fence, &line)]).await.expect("appends");
    }
    let wal = dir.path().join("threadline.db-wal");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    assert!(size(&wal) > WAL_LIMIT_BYTES);
    assert!(store.maintain().await.expect("maintains"));
    assert!(size(&wal) < WAL_LIMIT_BYTES);
    assert!(!store.maintain().await.expect("maintains"));

    store.close().await;
    assert!(!wal.exists(), "closed cleanly");
    assert!(matches!(store.heads(&[key]).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await, Err(StoreError::Unavailable(_))));
    let again = SqliteStore::open(dir.path(), Clock::system()).await.expect("the lock is free");
    assert_eq!(again.heads(&[key]).await.expect("heads")[0].tail, 20);
}

#[tokio::test]
async fn appends_do_not_wait_for_readers_of_a_large_log() {
    let (store, dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    // A read transaction stays open, as during a backup.
    let mut reader = read_options(&dir.path().join(FILE)).connect().await.expect("connects");
    query("BEGIN").execute(&mut reader).await.expect("begins");
    query("SELECT count(*) FROM log").execute(&mut reader).await.expect("reads");
    pragma(&store, "PRAGMA wal_autocheckpoint = 0".to_owned()).await;
    store.inner.checkpoints.close().await;
    let line = format!("{{\"type\":\"X\",\"pad\":\"{}\"}}", "x".repeat(4_000_000));
    for _ in 0..20 {
        store.append(&[append(key, fence, &line)]).await.expect("appends");
    }
    let begun = std::time::Instant::now();
    assert!(store.maintain().await.expect("tries"));
    store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("appends");
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    reader.close().await.expect("closes");
    assert!(store.maintain().await.expect("maintains"));
    assert!(!store.maintain().await.expect("maintains"), "the log is cut as soon as it can be");
}

#[tokio::test]
async fn only_databases_of_this_program_and_version_are_opened() {
    let (store, dir) = open().await;
    pragma(&store, "PRAGMA user_version = 99".to_owned()).await;
    pragma(&store, "UPDATE threadline_schema SET min_reader = 98".to_owned()).await;
    store.close().await;
    let newer = SqliteStore::open(dir.path(), Clock::system()).await;
    assert!(matches!(newer, Err(OpenError::Newer { found: 99, min_reader: 98, .. })), "{newer:?}");

    let (store, dir) = open().await;
    pragma(&store, "PRAGMA user_version = 0".to_owned()).await;
    store.close().await;
    let foreign = SqliteStore::open(dir.path(), Clock::system()).await;
    assert!(matches!(foreign, Err(OpenError::Foreign { .. })), "{foreign:?}");
}

#[tokio::test]
async fn a_newer_database_is_used_if_it_allows_that() {
    let (store, dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    pragma(&store, "PRAGMA user_version = 99".to_owned()).await;
    store.close().await;
    let store =
        SqliteStore::open(dir.path(), Clock::system()).await.expect("min_reader is the version of this program");
    store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("appends");
    store.close().await;
    let store = SqliteStore::open(dir.path(), Clock::system()).await.expect("opens again: the version was left");
    store.close().await;
}

#[tokio::test]
async fn first_attempts_of_later_generations_are_renumbered() {
    let (store, dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    // The data as an earlier program has left it, with a run that began in the second generation; then the step.
    for text in [
        "UPDATE runs SET fence = fence + 4294967296",
        "UPDATE heads SET fence = fence + 4294967296",
        "ALTER TABLE turns DROP COLUMN displaced",
        include_str!("../../../../migrations/sqlite/0018_displaced_attempts.sql"),
    ] {
        pragma(&store, text.to_owned()).await;
    }
    store.close().await;
    let store = SqliteStore::open(dir.path(), Clock::system()).await.expect("opens");
    let fence = threadline_core::Fence(fence.0 + (1 << 32));
    let appended = store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("appends");
    assert!(appended[0].is_some());
    let head = store.heads(&[key]).await.expect("heads").pop().expect("a head");
    assert_eq!(head.write_fence(), fence.into());
    let found = store.runs(key, None, 1).await.expect("reads").pop().expect("a run");
    assert_eq!((found.attempt, found.is_taken_up()), (1_000_001, false));
    let run = found.id.clone();
    let turn = crate::AttemptStore::producer_turn(&store, key, &run).await.expect("reads").expect("a turn");
    assert_eq!(turn.attempt, found.attempt);
}

#[tokio::test]
async fn purging_leaves_no_row_behind() {
    let (store, _dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    for _ in 0..30 {
        store.append(&[append(key, fence, "{\"type\":\"X\"}")]).await.expect("appends");
    }
    for n in 0..25 {
        let id = threadline_core::AnnotationId::new(n.to_string()).expect("id");
        let new = threadline_core::NewAnnotation::new(id, "t".into(), None, None).expect("an annotation");
        crate::AnnotationStore::put_annotation(&store, key, new).await.expect("puts");
    }
    let count = async |table: &str| {
        let text = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows = store.read_rows(query(text)).await.expect("counts");
        rows::Columns::new(&rows[0]).int().expect("int")
    };
    assert_eq!((count("log").await, count("runs").await, count("threads").await), (30, 1, 1));
    assert!(store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!((count("log").await, count("heads").await), (30, 0));
    assert_eq!(store.purge(key, 20).await.expect("purges"), Purging::More);
    assert_eq!(count("log").await, 10);
    while store.purge(key, 20).await.expect("purges") == Purging::More {}
    assert_eq!(count("jobs").await, 0);
    assert_eq!((count("log").await, count("runs").await, count("annotations").await), (0, 0, 0));
    assert_eq!(count("threads").await, 1, "the feed does not include the deletion yet");
    let (project, user) = (ProjectId::new("p").expect("id"), UserId::new("u").expect("id"));
    crate::FeedStore::pump_feed(&store, &project, &user).await.expect("pumps");
    assert_eq!(count("threads").await, 0);
}

#[tokio::test]
async fn a_swap_takes_exactly_the_rows_that_were_read_or_nothing() {
    let (store, _dir) = open().await;
    let (key, fence) = started(&store, "t").await;
    let lines = vec!["{\"type\":\"X\"}"; 100].join("\n");
    for _ in 0..6 {
        store.append(&[append(key, fence, &lines)]).await.expect("appends");
    }
    let view = async || {
        let cap = crate::sql::pages::Cap { bytes: SEAL_ALL, rows: SEAL_ALL, events: SEAL_ALL };
        let (_, rows) = store.log_rows(key, ReadFrom::After(0), cap).await.expect("reads").expect("is there");
        rows
    };
    let batches = |rows: Vec<crate::segment::LogRow>| -> Vec<_> {
        rows.into_iter().flat_map(|row| row.unpack().expect("unpacks")).collect()
    };
    let before = batches(view().await);
    let pack = |part: &[_]| crate::segment::encode(part).expect("packs").expect("not empty");
    // Two sealing tasks saw the same rows; the one that saw more comes second and finds some of them removed.
    assert!(Sealing::swap(&store, key, vec![pack(&before[..3])], None).await.expect("swaps"));
    assert!(!Sealing::swap(&store, key, vec![pack(&before[..6])], None).await.expect("answers"));
    assert!(!Sealing::swap(&store, key, vec![pack(&before[3..5]), pack(&before[2..3])], None).await.expect("answers"));
    let rows = view().await;
    assert_eq!(rows.iter().map(|row| row.run.is_none()).collect::<Vec<_>>(), [true, false, false, false]);
    let text = |batches: &[std::sync::Arc<threadline_core::Batch>]| crate::segment::join_bodies(batches);
    assert_eq!(text(&batches(rows)), text(&before));
}

const SEAL_ALL: usize = 1 << 30;
