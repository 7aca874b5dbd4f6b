//! Snapshots of projections.

use std::time::Duration;

use bytes::Bytes;
use threadline_core::Seq;
use threadline_store::{Packing, Snapshot};

use crate::support::{Env, append, events, finished};

fn snapshot(seq: Seq, version: u32, body: &str) -> Snapshot {
    Snapshot { seq, version, body: Bytes::copy_from_slice(body.as_bytes()) }
}

pub async fn a_snapshot_is_found_by_seq_and_version(env: Env) {
    let key = env.create("t").await.key;
    let other = env.create("other").await.key;
    let long = "x".repeat(300_000);
    for (seq, version, body) in [(4, 1, "four"), (8, 1, &long), (9, 2, "nine"), (6, 1, "six")] {
        env.store.put_snapshot(key, snapshot(seq, version, body), &[]).await.expect("puts");
    }
    env.store.put_snapshot(other, snapshot(7, 1, "other"), &[]).await.expect("puts");
    let found = async |at, version| {
        let found = env.store.snapshot(key, at, version).await.expect("finds");
        found.map(|snapshot| {
            assert_eq!(snapshot.version, version);
            (snapshot.seq, String::from_utf8(snapshot.body.to_vec()).expect("text"))
        })
    };
    assert_eq!(found(3, 1).await, None);
    assert_eq!(found(5, 1).await, Some((4, "four".into())));
    assert_eq!(found(7, 1).await, Some((6, "six".into())));
    assert_eq!(found(Seq::MAX, 1).await, Some((8, long)));
    assert_eq!(found(8, 2).await, None);
    assert_eq!(found(9, 2).await, Some((9, "nine".into())));
    let seqs = env.store.snapshot_seqs(key).await.expect("lists");
    assert_eq!(seqs, [(4, 1), (6, 1), (8, 1), (9, 2)]);
}

pub async fn snapshots_are_replaced_and_dropped(env: Env) {
    let key = env.create("t").await.key;
    for seq in 1..=5 {
        env.store.put_snapshot(key, snapshot(seq, 1, "old"), &[]).await.expect("puts");
    }
    env.store.put_snapshot(key, snapshot(5, 2, "new"), &[2, 4, 77]).await.expect("puts");
    assert_eq!(env.store.snapshot_seqs(key).await.expect("lists"), [(1, 1), (3, 1), (5, 2)]);
    let newest = env.store.snapshot(key, 9, 2).await.expect("finds").expect("is there");
    assert_eq!(&newest.body[..], b"new");
}

pub async fn events_after_the_newest_snapshot_are_measured(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    let measured = async || {
        let found = env.store.unprojected(key, 1).await.expect("measures").expect("is there");
        (found.since, found.snapshot_bytes, found.events, found.bytes)
    };
    assert_eq!(measured().await, (0, 0, 0, 0));
    env.put(key, fence, 1..=3).await;
    let line = events([1]).body().len() as u64;
    // Newlines between the events of a batch are counted with it.
    assert_eq!(measured().await, (0, 0, 3, 3 * line + 2));
    env.store.put_snapshot(key, snapshot(3, 1, "body"), &[]).await.expect("puts");
    assert_eq!(measured().await, (3, 4, 0, 0));
    env.put(key, fence, [4]).await;
    env.append(append(key, fence, 5, finished())).await.expect("ends");
    assert_eq!(measured().await, (3, 4, 2, line + finished().body().len() as u64));
    // A snapshot of another version does not count.
    let other = env.store.unprojected(key, 2).await.expect("measures").expect("is there");
    assert_eq!((other.since, other.events), (0, 5));
    env.store.delete_thread(key, None).await.expect("deletes");
    assert!(env.store.unprojected(key, 1).await.expect("measures").is_none());
}

pub async fn events_after_a_snapshot_count_by_their_share_of_a_segment(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 100..=389).await;
    env.store.put_snapshot(key, snapshot(290, 1, "body"), &[]).await.expect("puts");
    env.put(key, fence, 390..=398).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    let measured = async || env.store.unprojected(key, 1).await.expect("measures").expect("is there");
    let apart = measured().await;
    while !matches!(env.store.pack(key, Duration::ZERO).await.expect("packs"), Packing::Packed(300)) {}
    let packed = measured().await;
    assert_eq!((packed.since, packed.events), (apart.since, apart.events));
    assert!(
        packed.bytes.abs_diff(apart.bytes) < 50,
        "{} bytes, and {} once they are packed",
        apart.bytes,
        packed.bytes
    );
}

pub async fn snapshots_go_with_their_thread(env: Env) {
    let key = env.create("t").await.key;
    env.store.put_snapshot(key, snapshot(1, 1, "old"), &[]).await.expect("puts");
    env.store.delete_thread(key, None).await.expect("deletes");
    // One that comes late finds no thread.
    env.store.put_snapshot(key, snapshot(2, 1, "late"), &[]).await.expect("puts nothing");
    while env.purge(10).await {}
    assert_eq!(env.store.snapshot_seqs(key).await.expect("lists"), []);
}
