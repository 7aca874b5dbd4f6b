//! Two nodes over one database.

use threadline_core::{ReadFrom, ThreadKey};
use threadline_store::{CloseWhen, StartOutcome};
use tokio::task::JoinSet;

use super::*;
use crate::concurrent::check;

/// One node's part in what happens to some threads; events acknowledged.
async fn work(env: Arc<Env>, name: String, keys: Vec<ThreadKey>, rounds: u64) -> u64 {
    let mut acknowledged = 0;
    for round in 0..rounds {
        let key = keys[(round * 7 + name.len() as u64) as usize % keys.len()];
        let Some(head) = env.store.heads(&[key]).await.expect("heads").pop() else { continue };
        let size = 1 + round % 40;
        match (round * 13 + name.len() as u64 * 5) % 10 {
            0 if head.active.is_some() => {
                let closing = closing(&head, Some(run_error()));
                let done = env.store.close(key, closing, CloseWhen::Always).await.expect("closes");
                acknowledged += u64::from(matches!(done, threadline_store::CloseOutcome::Closed(_)));
            }
            1 => {
                env.store.seal(key).await.expect("seals");
            }
            2 => {
                env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
            }
            3 => {
                env.clock.advance(LEASE);
                let mut start = start_run(key, &format!("{name} {round}"));
                start.closing = head.active.as_ref().map(|_| closing(&head, Some(run_error())));
                let closers = u64::from(start.closing.is_some());
                match env.store.start(start).await.expect("answers") {
                    // Without a run to close there are no closers.
                    StartOutcome::Started(done) => acknowledged += done.slice.count().min(closers),
                    StartOutcome::Exists(..)
                    | StartOutcome::TailMismatch(_)
                    | StartOutcome::QueueMoves(_)
                    | StartOutcome::Queued(_)
                    | StartOutcome::OtherEpoch(_)
                    | StartOutcome::ThreadGone => {
                        panic!("not possible")
                    }
                    StartOutcome::RunActive(..) | StartOutcome::LeaseExpired(..) => {}
                }
            }
            _ if head.active.is_none() => {
                let start = start_run(key, &format!("{name} {round}"));
                env.store.start(start).await.expect("answers");
            }
            _ => {
                let mut batch: Vec<_> = Vec::new();
                for head in env.store.heads(&keys).await.expect("heads") {
                    let next = head.active.as_ref().map(|active| active.producer_seq + 1);
                    batch.push(append(head.key, head.fence, next.filter(|_| round % 2 == 0), events(0..size)));
                }
                let answers = env.store.append(&batch).await.expect("appends");
                acknowledged += size * answers.iter().flatten().count() as u64;
            }
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_never_mix_what_they_write() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let ((a, first), (b, second)) = (node(&url, &clock).await, node(&url, &clock).await);
    let nodes = [Arc::new(a), Arc::new(b)];
    let mut keys = Vec::new();
    for n in 0..5 {
        keys.push(nodes[n % 2].create(&format!("t{n}")).await.key);
    }
    let mut tasks = JoinSet::new();
    for worker in 0..8 {
        let env = nodes[worker % 2].clone();
        tasks.spawn(work(env, "x".repeat(worker + 1), keys.clone(), 100));
    }
    // A reader of the one node follows what both write.
    let reader = tokio::spawn({
        let (env, key) = (nodes[1].clone(), keys[0]);
        async move {
            let (mut cursor, mut pages) = (0, 0);
            while pages < 200 {
                pages += 1;
                let page = env.store.read(key, ReadFrom::After(cursor), 500).await.expect("reads").expect("is there");
                assert!(page.slice.first_seq().is_none_or(|first| first == cursor + 1), "no gap");
                assert!(page.slice.count() > 0 || page.head.tail == cursor, "what is committed is seen");
                cursor = page.slice.last_seq().unwrap_or(cursor);
            }
        }
    });
    let acknowledged: u64 = tasks.join_all().await.into_iter().sum();
    reader.await.expect("reader");
    let mut stored = 0;
    for key in &keys {
        check(&nodes[0], *key).await;
        assert_eq!(nodes[0].log(*key).await, nodes[1].log(*key).await);
        stored += nodes[0].head(*key).await.tail;
    }
    assert_eq!(stored, acknowledged, "each acknowledged event once, and no other");
    assert!(stored > 1_000, "{stored}");
    nodes[0].store.pump_feed(&project(), &user("u")).await.expect("pumps");
    assert!(nodes[1].store.dirty_feeds(10).await.expect("dirty").is_empty());
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_sealed_once_although_all_try() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let ((a, _first), (b, _second)) = (node(&url, &clock).await, node(&url, &clock).await);
    let nodes = [Arc::new(a), Arc::new(b)];
    let (key, fence) = nodes[0].running("t", "r").await;
    for n in 0..60 {
        nodes[0].put(key, fence, n * 20..n * 20 + 20).await;
    }
    let before = nodes[0].log(key).await;
    let mut tasks = JoinSet::new();
    for worker in 0..8 {
        let env = nodes[worker % 2].clone();
        tasks.spawn(async move { env.store.seal(key).await.expect("seals") });
    }
    let sealed = tasks.join_all().await.into_iter().filter(|sealed| *sealed).count();
    assert!(sealed >= 1);
    assert_eq!(nodes[1].log(key).await, before);
    assert_eq!(ask(&url, "SELECT count(*) FROM log WHERE fence IS NOT NULL").await, 0);
    nodes[0].put(key, fence, [1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_threads_are_purged_while_clients_use_them() {
    let (url, clock) = (Postgres::shared().fresh_database(), clock());
    let ((a, _first), (b, _second)) = (node(&url, &clock).await, node(&url, &clock).await);
    let nodes = [Arc::new(a), Arc::new(b)];
    let mut tasks = JoinSet::new();
    for n in 0..12 {
        let (one, other) = (nodes[n % 2].clone(), nodes[(n + 1) % 2].clone());
        tasks.spawn(async move {
            let (key, fence) = one.running(&format!("t{n}"), "r").await;
            for n in 0..8 {
                one.put(key, fence, n * 50..n * 50 + 50).await;
            }
            let sealing = async { other.store.seal(key).await.expect("seals") };
            let body = bytes::Bytes::from_static(b"{}");
            let snapshot = threadline_store::Snapshot { seq: 3, version: 1, body };
            let keeping = async {
                other.store.put_snapshot(key, snapshot, &[]).await.expect("keeps");
                for n in 0..8 {
                    let noted = crate::annotations::annotation(&n.to_string(), "1");
                    other.store.put_annotation(key, noted).await.expect("puts");
                    let claim = crate::tool_claims::claim(&n.to_string(), "tab");
                    other.store.claim_tool_call(key, &claim, LEASE).await.expect("claims");
                }
            };
            let purging = async { while other.purge(3).await {} };
            let deleting = async {
                assert!(one.store.delete_thread(key, None).await.expect("deletes"));
                while one.purge(3).await {}
                one.store.pump_feed(&project(), &user("u")).await.expect("pumps");
            };
            tokio::join!(sealing, keeping, deleting, purging);
        });
    }
    tasks.join_all().await;
    while nodes[0].purge(100).await {}
    nodes[1].store.pump_feed(&project(), &user("u")).await.expect("pumps");
    while nodes[0].purge(100).await {}
    for table in ["threads", "heads", "log", "runs", "sealing", "snapshots", "annotations", "annotated", "tool_claims"]
    {
        assert_eq!(ask(&url, &format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
}

#[tokio::test]
async fn claims_that_are_over_are_removed() {
    let url = Postgres::shared().fresh_database();
    let (env, _store) = node(&url, &clock()).await;
    crate::tool_claims::make_claims_that_are_over(&env).await;
    assert_eq!(ask(&url, "SELECT count(*) FROM tool_claims").await, 4);
}
