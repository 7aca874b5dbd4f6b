//! Agent data of all kinds with its thread: in the trash, back from it, and erased.

use std::time::Duration;

use threadline_core::{
    AuditEntry, Digest, ThreadKey, Usage, UsageOwner,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, CheckpointPosition, DataType,
        TaskId, TaskPath, TaskWrite, TaskWrites, TypedData,
    },
    items::{ItemRange, ListName, OpKey},
    kv::{KvKey, KvNamespace, KvOwner, KvPlace, Tag},
};
use threadline_store::{
    CheckpointBound, CheckpointDone, CheckpointScope, KvChange, KvPut, KvWrite, KvWritten, ListDone, ListEdit, ListOp,
    Purging, PutCheckpoint,
};

use crate::support::*;

const BYTES: usize = 1 << 20;

fn owner(name: &str) -> KvOwner {
    KvOwner { project: project(), user: Some(user(name)) }
}

fn list() -> ListName {
    ListName::new("l").expect("a name")
}

fn ns() -> CheckpointNs {
    CheckpointNs::new("").expect("a namespace")
}

fn id() -> CheckpointId {
    CheckpointId::new("i").expect("an id")
}

fn data() -> TypedData {
    TypedData { kind: DataType::new("t").expect("a type"), body: vec![1, 2, 3] }
}

fn at() -> ChannelAt {
    let channel = Channel::new("c").expect("a channel");
    ChannelAt { channel, version: ChannelVersion::new("1").expect("a version") }
}

fn writes() -> TaskWrites {
    let write = TaskWrite { idx: 0, channel: at().channel, data: data() };
    let (task, path) = (TaskId::new("k").expect("an id"), TaskPath::new("").expect("a path"));
    TaskWrites { task, path, writes: vec![write] }
}

fn entry(thread: ThreadKey) -> [KvWrite; 1] {
    let place = KvPlace { ns: KvNamespace::default(), key: KvKey::new("k").expect("a key") };
    let put =
        KvPut { value: "1".into(), tag: Tag::new("t").expect("a tag"), life: None, thread: Some(thread), times: None };
    [KvWrite { place, if_tag: None, change: KvChange::Put(put) }]
}

fn append(thread: ThreadKey, key: &str) -> ListOp {
    ListOp {
        thread,
        list: list(),
        op: OpKey::new(key).expect("a key"),
        digest: Digest([0; 32]),
        if_tag: None,
        edit: ListEdit::Append(vec!["1".into(), "2".into()]),
        kv: None,
    }
}

/// Stores data of each kind with a thread of the user `u`; returns its bytes.
async fn fill(env: &Env, thread: ThreadKey) -> i64 {
    let checkpoint = Checkpoint {
        ns: ns(),
        id: id(),
        parent: None,
        run: None,
        data: data(),
        metadata: "{}".into(),
        channels: vec![at()],
    };
    let blob = Blob { at: at(), data: data() };
    let steps = [
        env.store.put_blobs(thread, &ns(), &[blob]).await.expect("puts"),
        env.store.put_checkpoint(thread, &checkpoint, PutCheckpoint::Replace).await.expect("puts"),
        env.store.put_writes(thread, &ns(), &id(), &writes()).await.expect("puts"),
    ];
    let mut bytes = 0;
    for step in steps {
        let CheckpointDone::Done { added } = step else { panic!("{step:?}") };
        bytes += added;
    }
    let ListDone::Done { added, .. } = env.store.change_list(&append(thread, "1")).await.expect("changes") else {
        panic!("not stored")
    };
    bytes += added;
    let KvWritten::Done { added, .. } = env.store.write_kv(&owner("u"), &entry(thread)).await.expect("writes") else {
        panic!("not stored")
    };
    bytes + added
}

/// Everything that readers see of the data of a thread.
async fn seen(env: &Env, thread: ThreadKey) -> String {
    let scope = CheckpointScope::Thread(thread);
    let bound = CheckpointBound { limit: 10, bytes: BYTES, data: true };
    let found = env.store.checkpoints(&scope, &CheckpointPosition::newest(), bound).await.expect("reads");
    let parts = env.store.checkpoint_parts(&found, BYTES).await.expect("reads");
    let blob = env.store.blob(thread, &ns(), &at()).await.expect("reads");
    let write = env.store.task_write(thread, &ns(), &id(), &writes().task, 0).await.expect("reads");
    let items = env.store.items(thread, &list(), ItemRange::Newest, 10, BYTES).await.expect("reads");
    let [KvWrite { place, .. }] = entry(thread);
    let entries = env.store.kv_entries(&owner("u"), &[place], BYTES).await.expect("reads").expect("room");
    format!("{found:?} {parts:?} {blob:?} {write:?} {items:?} {entries:?}")
}

async fn trash(env: &Env, thread: ThreadKey) {
    let idle = env.clock.now().plus(Duration::from_secs(1));
    let trashed = env.store.trash(&project(), &[thread], idle, Duration::from_secs(60)).await.expect("trashes");
    assert_eq!(trashed, [thread]);
}

async fn counted(env: &Env) -> i64 {
    env.store.count_usage(&UsageOwner::user(&project(), &user("u"))).await.expect("counts").bytes
}

pub async fn data_of_agents_comes_back_from_the_trash(env: Env) {
    let key = env.create("t").await.key;
    let bytes = fill(&env, key).await;
    let (before, nothing) = (seen(&env, key).await, ThreadKey(key.0 + 100));
    trash(&env, key).await;
    assert_eq!(seen(&env, key).await, seen(&env, nothing).await, "all is hidden");
    assert_eq!(counted(&env).await, bytes, "and counts");
    // A thread in the trash takes no data, not by its key either.
    let blob = Blob { at: at(), data: data() };
    assert_eq!(env.store.put_blobs(key, &ns(), &[blob]).await.expect("puts"), CheckpointDone::ThreadGone);
    assert_eq!(env.store.put_writes(key, &ns(), &id(), &writes()).await.expect("puts"), CheckpointDone::ThreadGone);
    assert_eq!(env.store.change_list(&append(key, "2")).await.expect("changes"), ListDone::ThreadGone);
    assert_eq!(env.store.write_kv(&owner("u"), &entry(key)).await.expect("writes"), KvWritten::ThreadGone(0));
    let restored = AuditEntry {
        project: project(),
        at: env.clock.now(),
        actor: "a".into(),
        action: "thread.restored".into(),
        facts: "{}".into(),
    };
    env.store.restore(&project(), Some(&user("u")), &thread_id("t"), &restored).await.expect("restores");
    assert_eq!(seen(&env, key).await, before, "byte for byte");
    assert_eq!(counted(&env).await, bytes);
}

pub async fn data_of_agents_is_erased_with_its_user(env: Env) {
    for in_trash in [false, true] {
        let key = env.create("t").await.key;
        let bytes = fill(&env, key).await;
        let other = env.create_for("v", "other").await.key;
        env.store.write_kv(&owner("v"), &entry(other)).await.expect("writes");
        let noted = (project(), user("u"), Usage { bytes, threads: 0 });
        env.store.add_usage(&[noted]).await.expect("adds");
        if in_trash {
            trash(&env, key).await;
            assert!(env.store.discard(key, true).await.expect("discards"));
        } else {
            assert!(env.store.delete_thread(key, None).await.expect("deletes"));
        }
        while env.store.purge(key, 1).await.expect("purges") == Purging::More {}
        assert_eq!(counted(&env).await, 0, "no row is left: {in_trash}");
        env.store.forget_user(&project(), &user("u")).await.expect("forgets");
        let print = env.store.footprint(&project(), &user("u")).await.expect("counts");
        assert_eq!(print, threadline_core::Footprint::default());
        assert_eq!(env.store.footprint(&project(), &user("v")).await.expect("counts").kv_entries, 1, "another's stays");
        let whole = env.store.usage(&UsageOwner::project(&project())).await.expect("reads");
        let of_other = env.store.usage(&UsageOwner::user(&project(), &user("v"))).await.expect("reads");
        let sum = |usage: Option<Usage>| usage.map_or(0, |usage| usage.bytes);
        assert_eq!(sum(whole), sum(of_other), "of the project only what others have");
        assert!(env.store.delete_thread(other, None).await.expect("deletes"));
        while env.purge(1).await {}
    }
}
