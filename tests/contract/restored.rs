//! A data directory that was restored, copied or put back has another history; one that was closed, killed or cut off
//! from power has the same one.

use std::{fs, path::Path, process::Command, sync::Arc};

use threadline_core::{Epoch, Generation, Judgement, ThreadKey};
use threadline_store::{
    LineageStore, NodeStore,
    sqlite::{OpenError, SqliteStore, backup},
};

use crate::{nodes::beat, support::*};

/// Opens a data directory whose last process may have ended a moment ago.
async fn open(dir: &Path) -> (Env, SqliteStore) {
    let clock = clock();
    loop {
        match SqliteStore::open(dir, clock.clone()).await {
            Ok(store) => return (Env { store: Arc::new(store.clone()), clock, dir: None }, store),
            // The connections' OS threads release the lock's owner a moment later.
            Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn generations(store: &SqliteStore) -> Vec<(i64, String)> {
    let records = store.generations(10).await.expect("a list");
    records.into_iter().map(|record| (record.generation.0, record.cause)).collect()
}

/// Five events, a beat, and then two events more of which a copy may know nothing.
struct Written {
    key: ThreadKey,
    epoch: Epoch,
}

impl Written {
    async fn first(env: &Env, store: &SqliteStore) -> Self {
        let (key, fence) = env.running("t", "r").await;
        env.put(key, fence, 0..5).await;
        store.put_beat(&beat(1)).await.expect("commits");
        Self { key, epoch: env.head(key).await.epoch }
    }

    async fn then(&self, env: &Env, store: &SqliteStore) {
        let fence = env.head(self.key).await.fence;
        env.put(self.key, fence, 5..7).await;
        store.put_beat(&beat(1)).await.expect("commits");
    }

    /// Checks the judgement of cursors into a log of which five events were restored.
    async fn judged(&self, env: &Env, store: &SqliteStore) {
        let generation = store.lineage().generation();
        let judge = async |seq| {
            let head = env.head(self.key).await;
            head.history().judge(head.tail, Some(self.epoch), seq, generation)
        };
        let lost = Judgement::Replaced { common_up_to: Some(5) };
        assert_eq!((judge(5).await, judge(6).await, judge(7).await), (Judgement::Rebased, lost, lost));
        let fence = env.head(self.key).await.fence;
        env.put(self.key, fence, 100..110).await;
        assert_eq!((judge(5).await, judge(6).await, judge(7).await), (Judgement::Rebased, lost, lost));
        assert!(env.create("new").await.key.0 > generation.key_floor());
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success(), "{from:?} to {to:?}");
}

#[tokio::test]
async fn a_restored_backup_opens_a_generation_and_the_original_does_not() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (data, copied) = (dir.path().join("data"), dir.path().join("copy"));
    let (env, store) = open(&data).await;
    let written = Written::first(&env, &store).await;
    backup(&data, &copied).await.expect("copies");
    assert!(!copied.join("secret.key").exists());
    fs::copy(data.join("secret.key"), copied.join("secret.key")).expect("copied");
    written.then(&env, &store).await;

    let (env, restored) = open(&copied).await;
    assert_eq!(generations(&restored).await, [(2, "copied".into()), (1, "copy".into())]);
    written.judged(&env, &restored).await;
    restored.close().await;
    store.close().await;
    // Both continue in the histories that they have.
    for (path, generation) in [(&copied, 2), (&data, 1)] {
        let (_, store) = open(path).await;
        assert_eq!(store.lineage().generation(), Generation(generation), "{path:?}");
        store.close().await;
    }

    // In the place of the original: above both.
    fs::remove_file(data.join("threadline.db")).expect("removed");
    fs::copy(copied.join("threadline.db"), data.join("threadline.db")).expect("copied");
    let (_, store) = open(&data).await;
    assert_eq!(store.lineage().generation(), Generation(3));
}

#[tokio::test]
async fn a_backup_that_fails_leaves_no_file() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (data, copied) = (dir.path().join("data"), dir.path().join("copy"));
    let (_, store) = open(&data).await;
    store.close().await;
    let file = data.join("threadline.db");
    let mut bytes = fs::read(&file).expect("a file");
    // The first bytes of a page say of which kind it is.
    bytes.chunks_mut(4096).skip(1).for_each(|page| page[..4].fill(0xff));
    fs::write(&file, bytes).expect("writes");
    let failed = backup(&data, &copied).await.expect_err("no page can be read").to_string();
    assert!(failed.contains("malformed"), "{failed}");
    let left: Vec<_> = fs::read_dir(&copied).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_file_that_is_replaced_by_an_older_one_opens_a_generation() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (data, older) = (dir.path().join("data"), dir.path().join("older.db"));
    let (env, store) = open(&data).await;
    let written = Written::first(&env, &store).await;
    store.close().await;
    fs::copy(data.join("threadline.db"), &older).expect("copied");
    let (env, store) = open(&data).await;
    written.then(&env, &store).await;
    store.close().await;
    // Within the same file, so that only the beat tells.
    fs::copy(&older, data.join("threadline.db")).expect("copied");
    let (env, store) = open(&data).await;
    assert_eq!(generations(&store).await, [(2, "rolled-back".into()), (1, "created".into())]);
    written.judged(&env, &store).await;
}

#[tokio::test]
async fn a_copied_directory_opens_a_generation_even_without_its_witness() {
    let dir = tempfile::tempdir().expect("temp dir");
    let data = dir.path().join("data");
    let (env, store) = open(&data).await;
    let written = Written::first(&env, &store).await;
    store.close().await;
    for (name, witness) in [("with", true), ("without", false)] {
        let copied = dir.path().join(name);
        copy(&data, &copied);
        if !witness {
            fs::remove_file(copied.join("witness")).expect("removed");
        }
        let (env, store) = open(&copied).await;
        assert_eq!(generations(&store).await, [(2, "copied".into()), (1, "created".into())], "{name}");
        written.judged(&env, &store).await;
    }
    let (_, store) = open(&data).await;
    assert_eq!(store.lineage().generation(), Generation::FIRST, "the original has not changed");
}

#[tokio::test]
async fn a_directory_that_is_put_back_with_its_witness_opens_a_generation() {
    for in_place in [false, true] {
        let dir = tempfile::tempdir().expect("temp dir");
        let (data, kept) = (dir.path().join("data"), dir.path().join("kept"));
        let (env, store) = open(&data).await;
        let written = Written::first(&env, &store).await;
        store.close().await;
        copy(&data, &kept);
        let (env, store) = open(&data).await;
        assert_eq!(store.lineage().generation(), Generation::FIRST, "a copy was taken, and nothing else");
        written.then(&env, &store).await;
        store.close().await;
        drop((env, store));
        if in_place {
            // Over the files that exist, which keep their inodes.
            copy(&kept.join("."), &data);
        } else {
            // The file system may give the same inodes again.
            fs::remove_dir_all(&data).expect("removed");
            copy(&kept, &data);
        }
        for _ in 0..2 {
            let (env, store) = open(&data).await;
            let expected = [(2, "copied".into()), (1, "created".into())];
            assert_eq!(generations(&store).await, expected, "in place: {in_place}");
            let head = env.head(written.key).await;
            let judged = |seq| head.history().judge(head.tail, Some(written.epoch), seq, Generation(2));
            let lost = Judgement::Replaced { common_up_to: Some(5) };
            assert_eq!((judged(5), judged(6)), (Judgement::Rebased, lost), "in place: {in_place}");
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_witness_that_does_not_name_itself_opens_a_generation_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let data = dir.path().join("data");
    let (env, store) = open(&data).await;
    Written::first(&env, &store).await;
    store.close().await;
    drop((env, store));
    let witness = data.join("witness");
    let mut noted: serde_json::Value =
        serde_json::from_slice(&fs::read(&witness).expect("a witness")).expect("an object");
    noted.as_object_mut().expect("an object").remove("itself").expect("a member");
    fs::write(&witness, noted.to_string()).expect("written");
    for _ in 0..3 {
        let (_, store) = open(&data).await;
        assert_eq!(generations(&store).await, [(2, "copied".into()), (1, "created".into())]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_generation_is_opened_once_although_the_process_ends_before_its_first_beat() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (data, copied) = (dir.path().join("data"), dir.path().join("copy"));
    let (env, store) = open(&data).await;
    let written = Written::first(&env, &store).await;
    store.close().await;
    copy(&data, &copied);
    for _ in 0..3 {
        let (env, store) = open(&copied).await;
        assert_eq!(store.lineage().generation(), Generation(2));
        let head = env.head(written.key).await;
        let judged = head.history().judge(head.tail, Some(written.epoch), 5, Generation(2));
        assert_eq!(judged, Judgement::Rebased);
        store.close().await;
    }
}

#[tokio::test]
async fn a_restart_opens_no_generation_whatever_the_last_process_had_time_for() {
    let dir = tempfile::tempdir().expect("temp dir");
    let data = dir.path().join("data");
    let (env, store) = open(&data).await;
    let lineage = store.lineage().state();
    // Before the first beat.
    let written = Written::first(&env, &store).await;
    store.close().await;
    for round in 2..6 {
        let (env, store) = open(&data).await;
        assert_eq!(store.lineage().state(), lineage, "round {round}");
        assert_eq!(env.head(written.key).await.epoch, written.epoch);
        // Each process has an id of its own. A second name keeps the witness, whose place the next one takes.
        let (witness, before) = (data.join("witness"), data.join("before"));
        let keep = || fs::hard_link(&witness, &before).expect("a second name");
        keep();
        store.put_beat(&beat(round)).await.expect("commits");
        match round {
            // Only dropped, as after a crash.
            2 => {}
            // Killed, or power lost, between the commit of a beat and the witness: the witness is older.
            3 => fs::rename(&before, &witness).expect("put back"),
            // The same a few beats later, with the witness of this process.
            4 => {
                fs::remove_file(&before).expect("removed");
                keep();
                store.put_beat(&beat(round)).await.expect("commits");
                store.put_beat(&beat(round)).await.expect("commits");
                fs::rename(&before, &witness).expect("put back");
                fs::write(data.join("witness.part"), "{\"gen").expect("half a witness");
            }
            _ => store.close().await,
        }
        let _ = fs::remove_file(&before);
        drop((env, store));
    }
    assert_eq!(open(&data).await.1.lineage().state(), lineage);
}
