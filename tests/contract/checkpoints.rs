//! Checkpoints.

use threadline_core::{
    ProjectId, RunId, ThreadKey, Timestamp, UsageOwner, UserId,
    checkpoints::{
        Blob, Channel, ChannelAt, ChannelVersion, Checkpoint, CheckpointId, CheckpointNs, CheckpointParts,
        CheckpointPosition, DataType, FoundCheckpoint, TaskId, TaskPath, TaskWrite, TaskWrites, TypedData,
        WhichCheckpoints,
    },
    items::{ListName, OpKey},
    kv::KvOwner,
    limits::{LOOSE_BLOBS_KEPT, MAX_BLOB_BYTES, MAX_THREAD_DATA_BYTES},
};
use threadline_store::{
    CheckpointBound, CheckpointDone, CheckpointScope, DeletedCheckpoints, ListDone, ListEdit, ListOp, PutCheckpoint,
};
use tokio::task::JoinSet;

use crate::support::*;

const ALL: CheckpointBound = CheckpointBound { limit: 100, bytes: 1 << 20, data: true };

fn ns(text: &str) -> CheckpointNs {
    CheckpointNs::new(text).expect("a namespace")
}

fn id(text: &str) -> CheckpointId {
    CheckpointId::new(text).expect("an id")
}

fn data(kind: &str, body: &[u8]) -> TypedData {
    TypedData { kind: DataType::new(kind).expect("a type"), body: body.to_vec() }
}

fn at(channel: &str, version: &str) -> ChannelAt {
    let channel = Channel::new(channel).expect("a channel");
    ChannelAt { channel, version: ChannelVersion::new(version).expect("a version") }
}

fn blob(channel: &str, version: &str, body: &[u8]) -> Blob {
    Blob { at: at(channel, version), data: data("msgpack", body) }
}

fn checkpoint(space: &str, name: &str, channels: &[(&str, &str)]) -> Checkpoint {
    Checkpoint {
        ns: ns(space),
        id: id(name),
        parent: None,
        run: None,
        data: data("json", name.as_bytes()),
        metadata: "{}".into(),
        channels: channels.iter().map(|(channel, version)| at(channel, version)).collect(),
    }
}

fn writes(task: &str, path: &str, all: &[(i64, &str)]) -> TaskWrites {
    let write = |(idx, body): &(i64, &str)| TaskWrite {
        idx: *idx,
        channel: Channel::new("c").expect("a channel"),
        data: data("t", body.as_bytes()),
    };
    let (task, path) = (TaskId::new(task).expect("an id"), TaskPath::new(path).expect("a path"));
    TaskWrites { task, path, writes: all.iter().map(write).collect() }
}

fn which(space: Option<&str>, ids: Option<&[&str]>) -> WhichCheckpoints {
    WhichCheckpoints { ns: space.map(ns), ids: ids.map(|ids| ids.iter().map(|name| id(name)).collect()) }
}

/// Bytes that a write has added.
fn added(done: CheckpointDone) -> i64 {
    match done {
        CheckpointDone::Done { added } => added,
        other => panic!("{other:?}"),
    }
}

async fn blobs(env: &Env, thread: ThreadKey, space: &str, all: &[Blob]) -> i64 {
    added(env.store.put_blobs(thread, &ns(space), all).await.expect("puts"))
}

async fn put(env: &Env, thread: ThreadKey, new: &Checkpoint) -> CheckpointDone {
    env.store.put_checkpoint(thread, new, PutCheckpoint::Replace).await.expect("puts")
}

async fn write(env: &Env, thread: ThreadKey, space: &str, name: &str, all: &TaskWrites) -> i64 {
    added(env.store.put_writes(thread, &ns(space), &id(name), all).await.expect("puts"))
}

async fn page(
    env: &Env,
    scope: &CheckpointScope,
    from: &CheckpointPosition,
    bound: CheckpointBound,
) -> Vec<FoundCheckpoint> {
    env.store.checkpoints(scope, from, bound).await.expect("reads")
}

async fn all(env: &Env, thread: ThreadKey) -> Vec<FoundCheckpoint> {
    page(env, &CheckpointScope::Thread(thread), &CheckpointPosition::newest(), ALL).await
}

fn names(page: &[FoundCheckpoint]) -> Vec<(&str, &str)> {
    page.iter().map(|found| (found.stored.checkpoint.ns.as_str(), found.stored.checkpoint.id.as_str())).collect()
}

async fn parts(env: &Env, found: &FoundCheckpoint) -> CheckpointParts {
    env.store.checkpoint_parts(std::slice::from_ref(found), 1 << 20).await.expect("reads").remove(0)
}

async fn usage(env: &Env) -> i64 {
    env.store.count_usage(&UsageOwner::user(&project(), &user("u"))).await.expect("counts").bytes
}

pub async fn a_checkpoint_is_stored_byte_for_byte_and_replaced(env: Env) {
    let key = env.create("t").await.key;
    let odd = Checkpoint {
        parent: Some(id("parent é")),
        run: Some(RunId::new("r").expect("an id")),
        data: data("x+aes", &[0, 255, 10, 13]),
        metadata: "{\"b\" : 1.0,\"a\":2,\"a\":3}".into(),
        ..checkpoint("n|1:a", "i", &[("b", "2"), ("a", "1")])
    };
    let stored = [blob("a", "1", &[0, 1]), blob("b", "2", &[])];
    assert_eq!(blobs(&env, key, "n|1:a", &stored).await, stored.iter().map(|blob| blob.size(&odd.ns)).sum::<i64>());
    assert_eq!(added(put(&env, key, &odd).await), odd.size());
    let first = env.clock.now();
    env.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(added(put(&env, key, &odd).await), 0, "the same again");
    let found = all(&env, key).await.remove(0);
    assert_eq!((found.thread, found.thread_id.as_str()), (key, "t"));
    assert_eq!(
        (&found.stored.checkpoint, found.stored.at),
        (&odd, first),
        "with the time at which it was stored first"
    );
    let got = parts(&env, &found).await.blobs;
    let got: Vec<_> = got.iter().map(|blob| (blob.at.channel.as_str(), blob.body.as_deref())).collect();
    assert_eq!(got, [("b", Some(&[][..])), ("a", Some(&[0, 1]))], "in the order of the channels");
    let next = Checkpoint { metadata: "{\"longer\":true}".into(), ..checkpoint("n|1:a", "i", &[("a", "1")]) };
    assert_eq!(added(put(&env, key, &next).await), next.size() - odd.size());
    let found = all(&env, key).await.remove(0);
    assert_eq!((found.stored.checkpoint, found.stored.at), (next, first));
}

pub async fn a_checkpoint_needs_the_blobs_of_its_channels(env: Env) {
    let key = env.create("t").await.key;
    blobs(&env, key, "", &[blob("a", "1", b"x")]).await;
    blobs(&env, key, "other", &[blob("b", "1", b"x")]).await;
    let new = checkpoint("", "i", &[("a", "1"), ("b", "1"), ("c", "1")]);
    assert_eq!(put(&env, key, &new).await, CheckpointDone::BlobMissing(1));
    assert_eq!(all(&env, key).await, [], "nothing is seen of it");
    blobs(&env, key, "", &[blob("b", "1", b"x"), blob("c", "2", b"x")]).await;
    assert_eq!(put(&env, key, &new).await, CheckpointDone::BlobMissing(2), "another version");
    blobs(&env, key, "", &[blob("c", "1", b"x")]).await;
    added(put(&env, key, &new).await);
    assert_eq!(names(&all(&env, key).await), [("", "i")]);
    assert_eq!(put(&env, ThreadKey(key.0 + 100), &new).await, CheckpointDone::ThreadGone);
}

pub async fn the_first_blob_of_a_version_stays(env: Env) {
    let key = env.create("t").await.key;
    let both = [blob("a", "1", b"first"), blob("a", "1", b"second"), blob("b", "1", b"b")];
    assert_eq!(blobs(&env, key, "", &both).await, both[0].size(&ns("")) + both[2].size(&ns("")));
    assert_eq!(blobs(&env, key, "", &[blob("a", "1", b"third"), blob("b", "1", b"b")]).await, 0);
    let got = env.store.blob(key, &ns(""), &at("a", "1")).await.expect("reads");
    assert_eq!(got, Some(data("msgpack", b"first")));
    assert_eq!(env.store.blob(key, &ns(""), &at("a", "2")).await.expect("reads"), None);
    // More than one transaction of SQLite.
    let large: Vec<_> = (0..5).map(|n| blob(&format!("l{n}"), "1", &vec![n; 600_000])).collect();
    blobs(&env, key, "", &large).await;
    for blob in &large {
        let got = env.store.blob(key, &ns(""), &blob.at).await.expect("reads");
        assert_eq!(got.as_ref(), Some(&blob.data));
    }
    assert_eq!(blobs(&env, key, "", &[]).await, 0);
}

pub async fn writes_stay_or_are_replaced_by_their_number(env: Env) {
    let key = env.create("t").await.key;
    let first = writes("k", "p", &[(0, "a"), (1, "b"), (-1, "error")]);
    let size = |idx: usize| first.size(&ns(""), &id("i"), &first.writes[idx]);
    assert_eq!(write(&env, key, "", "i", &first).await, size(0) + size(1) + size(2));
    let again = writes("k", "q", &[(1, "other"), (2, "c"), (-1, "er"), (-1, "err")]);
    let more = again.size(&ns(""), &id("i"), &again.writes[1]);
    assert_eq!(write(&env, key, "", "i", &again).await, more - 2, "the last one below 0 is two bytes shorter");
    write(&env, key, "", "i", &writes("j", "q", &[(0, "d")])).await;
    write(&env, key, "", "i", &writes("z", "a", &[(0, "e")])).await;
    write(&env, key, "n", "i", &writes("k", "p", &[(0, "not here")])).await;
    // The checkpoint comes later.
    added(put(&env, key, &checkpoint("", "i", &[])).await);
    let found = all(&env, key).await.remove(0);
    let got = parts(&env, &found).await.writes;
    let got: Vec<_> = got
        .iter()
        .map(|write| {
            let body = std::str::from_utf8(write.body.as_deref().expect("a body")).expect("text");
            (write.path.as_str(), write.task.as_str(), write.idx, body)
        })
        .collect();
    let wanted = [
        ("a", "z", 0, "e"),
        ("p", "k", 0, "a"),
        ("p", "k", 1, "b"),
        ("q", "j", 0, "d"),
        ("q", "k", -1, "err"),
        ("q", "k", 2, "c"),
    ];
    assert_eq!(got, wanted);
    let one =
        |idx| env.store.task_write(key, &found.stored.checkpoint.ns, &found.stored.checkpoint.id, &first.task, idx);
    assert_eq!(one(-1).await.expect("reads").and_then(|write| write.body).as_deref(), Some(&b"err"[..]));
    assert_eq!(one(9).await.expect("reads"), None);
}

pub async fn checkpoints_are_read_in_pages_the_newest_first(env: Env) {
    let key = env.create("t").await.key;
    let other = env.create("u").await.key;
    for (space, name) in [("", "a"), ("", "é"), ("", "b"), ("n", "b"), ("n", "c"), ("m", "Z")] {
        added(put(&env, key, &checkpoint(space, name, &[])).await);
    }
    added(put(&env, other, &checkpoint("", "d", &[])).await);
    let order = [("", "é"), ("n", "c"), ("n", "b"), ("", "b"), ("", "a"), ("m", "Z")];
    let thread = CheckpointScope::Thread(key);
    assert_eq!(names(&all(&env, key).await), order, "by bytes");
    let (mut from, mut seen) = (CheckpointPosition::newest(), Vec::new());
    loop {
        let page = page(&env, &thread, &from, CheckpointBound { limit: 2, ..ALL }).await;
        let Some(last) = page.last() else { break };
        from = CheckpointPosition::behind(last);
        seen.extend(page);
    }
    assert_eq!(names(&seen), order);
    let before = CheckpointPosition::before("b".into());
    assert_eq!(names(&page(&env, &thread, &before, ALL).await), [("", "a"), ("m", "Z")]);
    let in_ns = |least: &str| CheckpointScope::Namespace(key, ns("n"), least.to_owned());
    let from = CheckpointPosition::newest();
    assert_eq!(names(&page(&env, &in_ns(""), &from, ALL).await), [("n", "c"), ("n", "b")]);
    let next = CheckpointPosition::behind(&page(&env, &in_ns(""), &from, ALL).await[0]);
    assert_eq!(names(&page(&env, &in_ns(""), &next, ALL).await), [("n", "b")]);
    let exact = CheckpointPosition::before(id("b").next());
    assert_eq!(names(&page(&env, &in_ns("b"), &exact, ALL).await), [("n", "b")]);
    assert_eq!(page(&env, &in_ns("a"), &CheckpointPosition::before(id("a").next()), ALL).await, []);
    // Without bodies, and no further one once metadata and bodies have the bytes.
    let head = page(&env, &in_ns(""), &from, CheckpointBound { data: false, bytes: 3, ..ALL }).await;
    assert_eq!(names(&head), [("n", "c"), ("n", "b")]);
    assert!(head.iter().all(|found| found.stored.checkpoint.data == data("json", b"")));
    assert_eq!(page(&env, &in_ns(""), &from, CheckpointBound { bytes: 3, ..ALL }).await.len(), 1);
}

pub async fn checkpoints_of_all_threads_are_read_in_one_order(env: Env) {
    let (t, u) = (env.create("t").await.key, env.create("u").await.key);
    let of_other = env.create_for("bob", "b").await.key;
    for (thread, space, name) in
        [(t, "", "2"), (u, "", "2"), (t, "n", "2"), (u, "", "1"), (t, "", "3"), (of_other, "", "25")]
    {
        added(put(&env, thread, &checkpoint(space, name, &[])).await);
    }
    let order = async |user: Option<UserId>| {
        let scope = CheckpointScope::Project(project(), user);
        let (mut from, mut seen) = (CheckpointPosition::newest(), Vec::new());
        loop {
            let page = page(&env, &scope, &from, CheckpointBound { limit: 2, ..ALL }).await;
            let Some(last) = page.last() else { return seen };
            from = CheckpointPosition::behind(last);
            let place = |found: &FoundCheckpoint| {
                let Checkpoint { ns, id, .. } = &found.stored.checkpoint;
                format!("{} {} {}", found.thread_id.as_str(), ns.as_str(), id.as_str())
            };
            seen.extend(page.iter().map(place));
        }
    };
    assert_eq!(order(None).await, ["t  3", "b  25", "u  2", "t n 2", "t  2", "u  1"]);
    assert_eq!(order(Some(user("u"))).await, ["t  3", "u  2", "t n 2", "t  2", "u  1"]);
    assert!(env.store.delete_thread(t, None).await.expect("deletes"));
    assert_eq!(order(None).await, ["b  25", "u  2", "u  1"]);
    let nobody = CheckpointScope::Project(ProjectId::new("other").expect("id"), None);
    assert_eq!(page(&env, &nobody, &CheckpointPosition::newest(), ALL).await, []);
}

pub async fn parts_are_left_out_beyond_their_bytes(env: Env) {
    let key = env.create("t").await.key;
    let stored = [blob("a", "1", &[1; 100]), blob("b", "1", &[2; 100]), blob("c", "1", &[])];
    blobs(&env, key, "", &stored).await;
    for name in ["1", "2"] {
        added(put(&env, key, &checkpoint("", name, &[("a", "1"), ("b", "1"), ("c", "1")])).await);
    }
    let task = writes("k", "", &[(0, "0123456789")]);
    let of_write = write(&env, key, "", "1", &task).await;
    let found = all(&env, key).await;
    let whole = async |bytes: i64| {
        let parts = env.store.checkpoint_parts(&found, usize::try_from(bytes).expect("a number")).await.expect("reads");
        let blobs = |parts: &CheckpointParts| parts.blobs.iter().map(|blob| blob.body.is_some()).collect::<Vec<_>>();
        let of_write = parts[1].writes[0].body.is_some();
        assert_eq!(parts[0].blobs.iter().map(|blob| blob.at.channel.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        (of_write, blobs(&parts[0]), blobs(&parts[1]))
    };
    let one = stored[0].size(&ns(""));
    assert_eq!(whole(0).await, (false, vec![false; 3], vec![false; 3]));
    assert_eq!(whole(of_write).await, (true, vec![false; 3], vec![false; 3]));
    assert_eq!(whole(of_write + one).await, (true, vec![true, false, false], vec![false; 3]));
    let first = stored.iter().map(|blob| blob.size(&ns(""))).sum::<i64>();
    assert_eq!(whole(of_write + first + one).await, (true, vec![true; 3], vec![true, false, false]));
    assert_eq!(whole(of_write + 2 * first).await, (true, vec![true; 3], vec![true; 3]));
}

pub async fn a_deletion_takes_what_no_other_checkpoint_has(env: Env) {
    let key = env.create("t").await.key;
    let stored = [blob("a", "1", b"a"), blob("a", "2", b"a"), blob("b", "1", b"b"), blob("waits", "1", b"w")];
    blobs(&env, key, "", &stored).await;
    blobs(&env, key, "n", &stored).await;
    added(put(&env, key, &checkpoint("", "1", &[("a", "1"), ("b", "1")])).await);
    added(put(&env, key, &checkpoint("", "2", &[("a", "2"), ("b", "1")])).await);
    added(put(&env, key, &checkpoint("n", "1", &[("a", "1")])).await);
    for name in ["1", "2", "never"] {
        write(&env, key, "", name, &writes("k", "", &[(0, "x")])).await;
    }
    let has = async |space: &str, channel: &str, version: &str| {
        env.store.blob(key, &ns(space), &at(channel, version)).await.expect("reads").is_some()
    };
    let has_write = async |name: &str| {
        let task = TaskId::new("k").expect("an id");
        env.store.task_write(key, &ns(""), &id(name), &task, 0).await.expect("reads").is_some()
    };
    let delete = async |of: WhichCheckpoints| {
        let (before, done) = (usage(&env).await, env.store.delete_checkpoints(key, &of, 10).await);
        let DeletedCheckpoints { checkpoints, bytes, more } = done.expect("deletes").expect("is there");
        assert_eq!((before - usage(&env).await, more), (bytes, false));
        checkpoints
    };
    assert_eq!(delete(which(Some(""), Some(&["1", "none"]))).await, 1);
    assert_eq!(names(&all(&env, key).await), [("", "2"), ("n", "1")]);
    assert!(!has("", "a", "1").await && has("n", "a", "1").await, "of its namespace only");
    assert!(has("", "b", "1").await && has("", "a", "2").await, "of another checkpoint");
    assert!(has("", "waits", "1").await, "the checkpoint of this one may come");
    assert_eq!((has_write("1").await, has_write("2").await, has_write("never").await), (false, true, true));
    assert_eq!(delete(which(None, Some(&["1", "never"]))).await, 1, "in all namespaces");
    assert!(!has("n", "a", "1").await && !has_write("never").await);
    assert_eq!(delete(which(Some(""), None)).await, 1);
    assert!(!has("", "a", "2").await && !has("", "waits", "1").await && has("n", "waits", "1").await);
    assert_eq!(delete(which(None, None)).await, 0);
    assert_eq!(usage(&env).await, 0, "nothing is left");
    let gone = env.store.delete_checkpoints(ThreadKey(key.0 + 100), &which(None, None), 10).await;
    assert_eq!(gone.expect("deletes"), None);
}

pub async fn a_deletion_goes_on_in_steps(env: Env) {
    let key = env.create("t").await.key;
    for n in 0..5 {
        let version = n.to_string();
        blobs(&env, key, "", &[blob("a", &version, b"a"), blob("all", "1", b"a")]).await;
        added(put(&env, key, &checkpoint("", &version, &[("a", &version), ("all", "1")])).await);
        write(&env, key, "", &version, &writes("k", "", &[(0, "x")])).await;
    }
    let mut seen = Vec::new();
    loop {
        let step = env.store.delete_checkpoints(key, &which(None, None), 2).await.expect("deletes").expect("is there");
        seen.push(step.checkpoints);
        for found in all(&env, key).await {
            let parts = parts(&env, &found).await;
            assert_eq!((parts.blobs.len(), parts.writes.len()), (2, 1), "what is left is whole");
        }
        if !step.more {
            break;
        }
    }
    assert_eq!(seen, [2, 2, 1]);
    assert_eq!(usage(&env).await, 0);
}

pub async fn checkpoints_of_a_run_are_found_in_all_threads(env: Env) {
    let (t, u, bob) = (env.create("t").await.key, env.create("u").await.key, env.create_for("bob", "b").await.key);
    let run = RunId::new("r").expect("an id");
    let of_run = |space: &str, name: &str| Checkpoint { run: Some(run.clone()), ..checkpoint(space, name, &[]) };
    for (thread, new) in
        [(t, of_run("", "1")), (t, checkpoint("", "2", &[])), (u, of_run("n", "1")), (bob, of_run("", "1"))]
    {
        added(put(&env, thread, &new).await);
    }
    let found = async |user: Option<UserId>, limit: usize| {
        let found = env.store.checkpoints_of_run(&project(), user.as_ref(), &run, limit).await.expect("reads");
        let mut found: Vec<_> =
            found.into_iter().map(|place| (place.thread, place.user.as_str().to_owned(), place.ns)).collect();
        found.sort();
        found
    };
    let mine = vec![(t, "u".to_owned(), ns("")), (u, "u".to_owned(), ns("n"))];
    assert_eq!(found(Some(user("u")), 10).await, mine);
    assert_eq!(found(None, 10).await.len(), 3);
    assert_eq!(found(None, 1).await.len(), 1);
    assert!(env.store.delete_thread(bob, None).await.expect("deletes"));
    assert_eq!(found(None, 10).await, mine);
}

pub async fn checkpoints_go_with_their_thread(env: Env) {
    let key = env.create("t").await.key;
    blobs(&env, key, "", &[blob("a", "1", b"12345")]).await;
    let new = checkpoint("", "i", &[("a", "1")]);
    added(put(&env, key, &new).await);
    write(&env, key, "", "i", &writes("k", "", &[(0, "x"), (1, "y")])).await;
    let found = all(&env, key).await.remove(0);
    assert!(usage(&env).await > 5);
    let listed = env.store.listed_data(None, 10).await.expect("reads");
    assert_eq!(listed.iter().map(|thread| thread.key).collect::<Vec<_>>(), [key]);
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!(all(&env, key).await, []);
    let gone = CheckpointDone::ThreadGone;
    assert_eq!(put(&env, key, &new).await, gone);
    assert_eq!(env.store.put_blobs(key, &ns(""), &[]).await.expect("puts"), gone);
    assert_eq!(env.store.put_writes(key, &ns(""), &id("i"), &writes("k", "", &[])).await.expect("puts"), gone);
    assert_eq!(env.store.blob(key, &ns(""), &at("a", "1")).await.expect("reads"), None);
    assert_eq!(env.store.delete_checkpoints(key, &which(None, None), 1).await.expect("deletes"), None);
    while env.purge(1).await {}
    assert_eq!(parts(&env, &found).await, CheckpointParts::default(), "no row is left");
    let sum = env.store.usage(&UsageOwner::user(&project(), &user("u"))).await.expect("reads");
    assert_eq!(sum.map_or(0, |usage| usage.bytes), 0);
}

pub async fn a_moved_checkpoint_replaces_none(env: Env) {
    let key = env.create("t").await.key;
    let moved = |metadata: &str| Checkpoint { metadata: metadata.into(), ..checkpoint("", "i", &[]) };
    let keep = async |new: &Checkpoint| {
        env.store.put_checkpoint(key, new, PutCheckpoint::Keep(Timestamp(7))).await.expect("puts")
    };
    let first = moved("{\"first\":1}");
    assert_eq!(added(keep(&first).await), first.size());
    assert_eq!(added(keep(&moved("{\"second\":22}")).await), 0);
    let found = all(&env, key).await.remove(0);
    assert_eq!((found.stored.checkpoint, found.stored.at), (first, Timestamp(7)));
}

pub async fn a_thread_has_a_bounded_number_of_bytes(env: Env) {
    let key = env.create("t").await.key;
    let mut left = MAX_THREAD_DATA_BYTES;
    let mut n = 0;
    while left > MAX_BLOB_BYTES as i64 + 2_000 {
        left -= blobs(&env, key, "", &[blob(&format!("large{n}"), "1", &vec![0; MAX_BLOB_BYTES])]).await;
        n += 1;
    }
    let most = usize::try_from(left).expect("a number") - blob("rest", "1", b"").size(&ns("")) as usize;
    let done = env.store.put_blobs(key, &ns(""), &[blob("rest", "1", &vec![0; most + 1])]).await.expect("puts");
    assert_eq!(done, CheckpointDone::TooLarge);
    assert_eq!(env.store.blob(key, &ns(""), &at("rest", "1")).await.expect("reads"), None);
    blobs(&env, key, "", &[blob("rest", "1", &vec![0; most])]).await;
    assert_eq!(put(&env, key, &checkpoint("", "i", &[])).await, CheckpointDone::TooLarge);
    let one = writes("k", "", &[(0, "x")]);
    assert_eq!(env.store.put_writes(key, &ns(""), &id("i"), &one).await.expect("puts"), CheckpointDone::TooLarge);
    assert_eq!(blobs(&env, key, "", &[blob("rest", "1", b"again")]).await, 0, "what is there is no more");
    let op = ListOp {
        thread: key,
        list: ListName::new("l").expect("a name"),
        op: OpKey::new("k").expect("a key"),
        digest: threadline_core::Digest([0; 32]),
        if_tag: None,
        edit: ListEdit::Append(vec!["1".into()]),
        kv: None,
    };
    let empty =
        [ListEdit::Append(vec!["1".into()]), ListEdit::Append(vec![]), ListEdit::Pop(1), ListEdit::Replace(vec![])];
    for edit in empty {
        let op = ListOp { edit, ..op.clone() };
        let done = env.store.change_list(&op).await.expect("changes");
        assert_eq!(done, ListDone::TooLarge, "{:?}: together with items and what is remembered", op.edit);
    }
    env.store.delete_checkpoints(key, &which(None, None), 10).await.expect("deletes");
    assert!(matches!(env.store.change_list(&op).await.expect("changes"), ListDone::Done { .. }));
}

pub async fn blobs_that_no_checkpoint_names_are_removed_after_an_hour(env: Env) {
    let key = env.create("t").await.key;
    let owner = KvOwner { project: project(), user: Some(user("u")) };
    let sweep = async || env.store.sweep_blobs(10).await.expect("sweeps");
    let is_there = async |at: &ChannelAt| env.store.blob(key, &ns(""), at).await.expect("reads").is_some();
    let stored = [
        blob("named", "1", b"n"),
        blob("orphan", "1", b"orphan"),
        blob("replaced", "1", b"r"),
        blob("again", "1", b"a"),
    ];
    blobs(&env, key, "", &stored).await;
    added(put(&env, key, &checkpoint("", "1", &[("named", "1"), ("replaced", "1")])).await);
    env.clock.advance(LOOSE_BLOBS_KEPT - std::time::Duration::from_secs(1));
    assert_eq!(sweep().await, None);
    // A blob that is stored again is about to be named, and one whose checkpoint is replaced is named no longer.
    blobs(&env, key, "", &stored[3..]).await;
    added(put(&env, key, &checkpoint("", "1", &[("named", "1")])).await);
    env.clock.advance(std::time::Duration::from_secs(1));
    let before = usage(&env).await;
    assert_eq!(sweep().await, Some((owner.clone(), stored[1].size(&ns("")))));
    assert_eq!(before - usage(&env).await, stored[1].size(&ns("")));
    assert_eq!((sweep().await, is_there(&stored[1].at).await), (None, false));
    assert!(is_there(&stored[0].at).await && is_there(&stored[2].at).await && is_there(&stored[3].at).await);
    // A blob may be named until the sweep, also after its hour.
    added(put(&env, key, &checkpoint("", "2", &[("again", "1")])).await);
    env.clock.advance(LOOSE_BLOBS_KEPT);
    assert_eq!(sweep().await, Some((owner, stored[2].size(&ns("")))));
    assert_eq!(sweep().await, None);
    assert_eq!(names(&all(&env, key).await), [("", "2"), ("", "1")]);
    assert!(is_there(&stored[0].at).await && is_there(&stored[3].at).await && !is_there(&stored[2].at).await);
    env.store.delete_checkpoints(key, &which(None, None), 10).await.expect("deletes");
    assert_eq!(usage(&env).await, 0);
}

pub async fn a_deletion_races_checkpoints_and_none_loses_a_blob(env: Env) {
    let key = env.create("t").await.key;
    for round in 0..12 {
        let (version, old, new) = (round.to_string(), format!("old{round}"), format!("new{round}"));
        let shared = blob("shared", &version, b"shared");
        blobs(&env, key, "", std::slice::from_ref(&shared)).await;
        added(put(&env, key, &checkpoint("", &old, &[("shared", &version)])).await);
        let mut tasks = JoinSet::new();
        let (store, next) = (env.store.clone(), checkpoint("", &new, &[("shared", &version)]));
        tasks.spawn(async move {
            let done = store.put_checkpoint(key, &next, PutCheckpoint::Replace).await.expect("puts");
            assert!(matches!(done, CheckpointDone::Done { .. } | CheckpointDone::BlobMissing(0)), "{done:?}");
        });
        let (store, of) = (env.store.clone(), which(None, Some(&[&old])));
        tasks.spawn(async move {
            store.delete_checkpoints(key, &of, 10).await.expect("deletes");
        });
        tasks.join_all().await;
        let found = all(&env, key).await;
        let stored = found.iter().any(|found| found.stored.checkpoint.id.as_str() == new);
        let there = env.store.blob(key, &ns(""), &shared.at).await.expect("reads").is_some();
        assert_eq!(stored, there, "round {round}: a checkpoint has its blob, and a blob its checkpoint");
    }
}
