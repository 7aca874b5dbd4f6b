//! Key-value entries.

use std::time::Duration;

use threadline_core::{
    ThreadKey, Timestamp, Usage, UsageOwner, UserId,
    kv::{KvEntry, KvKey, KvNamespace, KvOwner, KvPlace, Tag},
    limits::{AGENT_DATA_ROW_BYTES, ITEM_OPS_KEPT},
};
use threadline_store::{KvChange, KvPut, KvRange, KvTimes, KvWrite, KvWritten, MovedKv, OwnedPlace};
use tokio::task::JoinSet;

use crate::support::*;

const BYTES: usize = 1 << 20;

fn owner(user: Option<&str>) -> KvOwner {
    KvOwner { project: project(), user: user.map(|name| UserId::new(name).expect("id")) }
}

fn own() -> KvOwner {
    owner(Some("u"))
}

fn ns(labels: &[&str]) -> KvNamespace {
    KvNamespace::new(labels).expect("a namespace")
}

fn at(labels: &[&str], key: &str) -> KvPlace {
    KvPlace { ns: ns(labels), key: KvKey::new(key).expect("a key") }
}

fn tag(text: &str) -> Tag {
    Tag::new(text).expect("a tag")
}

fn value(text: &str, named: &str) -> KvPut {
    KvPut { value: text.to_owned(), tag: tag(named), life: None, thread: None, times: None }
}

fn put(place: KvPlace, value: KvPut) -> KvWrite {
    KvWrite { place, if_tag: None, change: KvChange::Put(value) }
}

fn drop_entry(place: KvPlace) -> KvWrite {
    KvWrite { place, if_tag: None, change: KvChange::Delete(None) }
}

/// A removal that can be repeated.
fn remove(place: KvPlace, named: &str) -> KvWrite {
    KvWrite { place, if_tag: None, change: KvChange::Delete(Some(tag(named))) }
}

fn touch(place: KvPlace, life: Option<u64>) -> KvWrite {
    KvWrite { place, if_tag: None, change: KvChange::Touch(life.map(Duration::from_secs)) }
}

fn only_if(wanted: Option<&str>, write: KvWrite) -> KvWrite {
    KvWrite { if_tag: Some(wanted.map(tag)), ..write }
}

async fn write(env: &Env, writes: &[KvWrite]) -> KvWritten {
    env.store.write_kv(&own(), writes).await.expect("writes")
}

async fn stored(env: &Env, writes: &[KvWrite]) -> (Vec<bool>, i64) {
    match write(env, writes).await {
        KvWritten::Done { existed, added } => (existed, added),
        other => panic!("{other:?}"),
    }
}

async fn get(env: &Env, place: KvPlace) -> Option<KvEntry> {
    env.store.kv_entries(&own(), &[place], BYTES).await.expect("reads").expect("room").pop().expect("an answer")
}

/// Bytes that an entry counts, whose tag has one byte.
fn size(place: &KvPlace, value: usize) -> i64 {
    place.size(&tag("t"), value)
}

async fn values(env: &Env, prefix: &[&str]) -> Vec<String> {
    let page = env
        .store
        .kv_page(KvRange { owner: &own(), prefix: &ns(prefix), limit: 100 }, None, BYTES)
        .await
        .expect("reads");
    page.into_iter().map(|entry| entry.value).collect()
}

pub async fn an_entry_is_stored_byte_for_byte_and_replaced(env: Env) {
    let place = at(&["a", "b c"], "k é");
    let text = "{\"b\" : 1.0,\"a\":2,\"a\":3, \"s\":\"\\ud800 \\u0000\"}";
    let whole = size(&place, text.len());
    assert_eq!(whole, text.len() as i64 + 6 + 4 + 1 + AGENT_DATA_ROW_BYTES as i64, "with its names and its row");
    let first = env.clock.now();
    assert_eq!(get(&env, place.clone()).await, None);
    assert_eq!(stored(&env, &[put(place.clone(), value(text, "1"))]).await, (vec![false], whole));
    let entry = KvEntry {
        place: place.clone(),
        value: text.to_owned(),
        tag: tag("1"),
        created_at: first,
        updated_at: first,
        expires_at: None,
    };
    assert_eq!(get(&env, place.clone()).await, Some(entry.clone()));
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(stored(&env, &[put(place.clone(), value("1", "2"))]).await, (vec![true], size(&place, 1) - whole));
    let entry = KvEntry { value: "1".into(), tag: tag("2"), updated_at: env.clock.now(), ..entry };
    assert_eq!(get(&env, place.clone()).await, Some(entry), "the time of its first write stays");
    assert_eq!(stored(&env, &[drop_entry(place.clone())]).await, (vec![true], -size(&place, 1)));
    assert_eq!(stored(&env, &[drop_entry(place.clone())]).await, (vec![false], 0));
    assert_eq!(get(&env, place).await, None);
}

pub async fn a_batch_of_writes_is_stored_as_a_whole_or_not_at_all(env: Env) {
    let (a, b, c) = (at(&[], "a"), at(&[], "b"), at(&["n"], "c"));
    stored(&env, &[put(a.clone(), value("1", "one"))]).await;
    let batch = |wanted: Option<&str>| {
        [
            put(b.clone(), value("2", "two")),
            only_if(Some("one"), drop_entry(a.clone())),
            only_if(wanted, put(c.clone(), value("3", "three"))),
        ]
    };
    assert_eq!(write(&env, &batch(Some("x"))).await, KvWritten::Changed(2));
    assert_eq!(values(&env, &[]).await, ["1"], "no write is stored");
    assert_eq!(
        stored(&env, &batch(None)).await,
        (vec![false, true, false], size(&b, 1) + size(&c, 1) + 2 + 4 - size(&a, 1) - 2)
    );
    assert_eq!(values(&env, &[]).await, ["2", "3"]);
    assert_eq!(write(&env, &[only_if(None, put(b.clone(), value("4", "four")))]).await, KvWritten::Changed(0));
    assert_eq!(
        write(&env, &[only_if(Some("one"), drop_entry(a.clone()))]).await,
        KvWritten::Changed(0),
        "nothing there"
    );
    // Of several writes of one entry the last one counts; conditions see what was before all of them.
    let twice = [put(b.clone(), value("5", "five")), only_if(Some("two"), put(b.clone(), value("66", "six")))];
    assert_eq!(stored(&env, &twice).await, (vec![true, true], 1));
    assert_eq!(values(&env, &[]).await, ["66", "3"]);
    assert_eq!(stored(&env, &[put(a.clone(), value("7", "7")), drop_entry(a.clone())]).await, (vec![false, false], 0));
    assert_eq!(get(&env, a).await, None);
}

pub async fn a_repeated_write_is_recognized_by_its_tag(env: Env) {
    let place = at(&[], "k");
    let once = [only_if(None, put(place.clone(), value("1", "mine")))];
    assert_eq!(stored(&env, &once).await.0, [false]);
    assert_eq!(stored(&env, &once).await.0, [true], "the same write again");
    assert_eq!(write(&env, &[only_if(None, put(place.clone(), value("2", "mine")))]).await, KvWritten::Changed(0));
    let later = [only_if(Some("mine"), put(place.clone(), value("3", "next")))];
    assert_eq!(stored(&env, &later).await.0, [true]);
    assert_eq!(stored(&env, &later).await.0, [true]);
    assert_eq!(write(&env, &once).await, KvWritten::Changed(0), "another write was stored since");
    assert_eq!(values(&env, &[]).await, ["3"]);
}

pub async fn a_removal_is_recognized_by_its_tag(env: Env) {
    let (place, other) = (at(&["n"], "k"), at(&[], "other"));
    stored(&env, &[put(place.clone(), value("12345", "one"))]).await;
    let once = [only_if(Some("one"), remove(place.clone(), "gone")), put(other.clone(), value("1", "t"))];
    let rest = place.size(&tag("gone"), 0);
    let freed = place.size(&tag("one"), 5);
    assert_eq!(stored(&env, &once).await, (vec![true, false], rest - freed + size(&other, 1)));
    assert_eq!((get(&env, place.clone()).await, values(&env, &["n"]).await.len()), (None, 0), "no reader sees it");
    assert_eq!(
        env.store.kv_namespaces(KvRange { owner: &own(), prefix: &ns(&[]), limit: 10 }, None).await.expect("reads"),
        [ns(&[])]
    );
    assert_eq!(env.store.all_kv(None, 10, BYTES).await.expect("reads").len(), 1);
    assert_eq!(stored(&env, &once).await, (vec![true, true], 0), "the first answer, and no further effect");
    let another = only_if(Some("one"), remove(place.clone(), "another"));
    assert_eq!(write(&env, &[another]).await, KvWritten::Changed(0));
    assert_eq!(stored(&env, &[drop_entry(place.clone())]).await, (vec![false], 0), "there is nothing");
    assert_eq!(stored(&env, &once).await.0, [true, true]);
    // A removal of nothing is not remembered.
    assert_eq!(stored(&env, &[remove(at(&[], "none"), "t")]).await, (vec![false], 0));
    assert_eq!(stored(&env, &[remove(at(&[], "none"), "t")]).await, (vec![false], 0));
    env.clock.advance(ITEM_OPS_KEPT - Duration::from_millis(1));
    assert_eq!(env.store.sweep_kv(10).await.expect("sweeps"), []);
    env.clock.advance(Duration::from_millis(1));
    assert_eq!(env.store.sweep_kv(10).await.expect("sweeps"), [(own(), rest)]);
    assert_eq!(write(&env, &once).await, KvWritten::Changed(0), "forgotten after a day");
    // A new entry takes the place of what is remembered.
    stored(&env, &[put(place.clone(), value("1", "two")), put(other.clone(), value("1", "t"))]).await;
    stored(&env, &[remove(place.clone(), "gone")]).await;
    let again = stored(&env, &[only_if(None, put(place.clone(), value("22", "three")))]).await;
    assert_eq!(again, (vec![false], place.size(&tag("three"), 2) - rest));
    assert_eq!(get(&env, place).await.map(|entry| entry.created_at), Some(env.clock.now()));
}

pub async fn a_batch_with_two_conditions_on_an_entry_is_repeated(env: Env) {
    let (put_twice, put_and_removed) = (at(&[], "a"), at(&[], "b"));
    stored(&env, &[put(put_twice.clone(), value("1", "x")), put(put_and_removed.clone(), value("1", "x"))]).await;
    let batch = [
        only_if(Some("x"), put(put_twice.clone(), value("2", "y"))),
        only_if(Some("x"), put(put_twice.clone(), value("3", "z"))),
        only_if(Some("x"), put(put_and_removed.clone(), value("2", "y"))),
        only_if(Some("x"), remove(put_and_removed.clone(), "z")),
    ];
    assert_eq!(stored(&env, &batch).await.0, [true; 4]);
    assert_eq!(stored(&env, &batch).await, (vec![true; 4], 0), "after a lost answer");
    assert_eq!(values(&env, &[]).await, ["3"]);
    assert_eq!(write(&env, &batch[..1]).await, KvWritten::Changed(0), "another batch");
}

pub async fn a_touch_lets_an_entry_expire_later_and_changes_nothing_else(env: Env) {
    let (thread, place) = (env.create("t").await.key, at(&["n"], "k"));
    let short = KvPut { life: Some(Duration::from_secs(10)), thread: Some(thread), ..value("{\"a\" :1}", "t") };
    stored(&env, &[put(place.clone(), short), put(at(&[], "lasts"), value("1", "t"))]).await;
    let before = get(&env, place.clone()).await.expect("an entry");
    env.clock.advance(Duration::from_secs(9));
    for (life, lasts) in [(None, 10), (Some(20), 20), (None, 20)] {
        env.clock.advance(Duration::from_millis(1));
        assert_eq!(stored(&env, &[touch(place.clone(), life)]).await, (vec![true], 0));
        let expires_at = Some(env.clock.now().plus(Duration::from_secs(lasts)));
        let entry = get(&env, place.clone()).await;
        assert_eq!(entry, Some(KvEntry { expires_at, ..before.clone() }), "{life:?}");
    }
    let moved = env.store.all_kv(None, 10, BYTES).await.expect("reads").pop().expect("an entry");
    assert_eq!((moved.thread, moved.life), (Some((user("u"), thread_id("t"))), Some(Duration::from_secs(20))));
    // An entry that does not expire still does not, and one that is not there does not come.
    assert_eq!(stored(&env, &[touch(at(&[], "lasts"), None), touch(at(&[], "none"), Some(1))]).await.0, [true, false]);
    assert_eq!(get(&env, at(&[], "lasts")).await.and_then(|entry| entry.expires_at), None);
    assert_eq!(values(&env, &[]).await.len(), 2);
    // Beside another write of the entry a touch has no effect, in whatever order.
    let both = [put(place.clone(), value("2", "t")), touch(place.clone(), Some(5))];
    assert_eq!(stored(&env, &both).await.0, [true, true]);
    assert_eq!(get(&env, place.clone()).await.map(|entry| (entry.value, entry.expires_at)), Some(("2".into(), None)));
    stored(&env, &[touch(place.clone(), Some(5))]).await;
    env.clock.advance(Duration::from_secs(5));
    assert_eq!(stored(&env, &[touch(place.clone(), Some(5))]).await.0, [false], "it has expired");
}

pub async fn entries_belong_to_their_owner(env: Env) {
    let place = at(&["n"], "k");
    let owners = [owner(None), owner(Some("u")), owner(Some("v"))];
    for (number, owner) in owners.iter().enumerate() {
        let write = put(place.clone(), value(&number.to_string(), "t"));
        env.store.write_kv(owner, &[write]).await.expect("writes");
    }
    for (number, owner) in owners.iter().enumerate() {
        let found =
            env.store.kv_page(KvRange { owner, prefix: &ns(&[]), limit: 10 }, None, BYTES).await.expect("reads");
        assert_eq!(found.iter().map(|entry| &*entry.value).collect::<Vec<_>>(), [number.to_string()], "{owner:?}");
    }
    env.store.forget_user(&project(), &user("u")).await.expect("forgets");
    assert_eq!(get(&env, place.clone()).await, None);
    for kept in [&owners[0], &owners[2]] {
        assert!(
            env.store.kv_entries(kept, std::slice::from_ref(&place), BYTES).await.expect("reads").expect("room")[0]
                .is_some()
        );
    }
}

pub async fn entries_are_read_in_pages(env: Env) {
    let places = [
        at(&[], "z"),
        at(&["a"], "1"),
        at(&["a"], "2"),
        at(&["a", "b"], "1"),
        at(&["a b"], "1"),
        at(&["ab"], "é"),
        at(&["b"], "0"),
    ];
    let writes: Vec<_> =
        places.iter().rev().enumerate().map(|(n, place)| put(place.clone(), value(&n.to_string(), "t"))).collect();
    stored(&env, &writes).await;
    for limit in [1, 2, 3, 10] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = env
                .store
                .kv_page(KvRange { owner: &own(), prefix: &ns(&[]), limit }, after.as_ref(), BYTES)
                .await
                .expect("reads");
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.place.clone());
            found.extend(page.into_iter().map(|entry| entry.place));
        }
        assert_eq!(found, places, "{limit} at once");
    }
    let below = async |prefix: &[&str]| {
        let page = env
            .store
            .kv_page(KvRange { owner: &own(), prefix: &ns(prefix), limit: 10 }, None, BYTES)
            .await
            .expect("reads");
        page.into_iter().map(|entry| entry.place).collect::<Vec<_>>()
    };
    assert_eq!(below(&["a"]).await, places[1..4]);
    assert_eq!(below(&["a", "b"]).await, places[3..4]);
    assert_eq!(below(&["c"]).await, []);
    // A page ends with the entry that reaches the bytes, and has one at least.
    let first = usize::try_from(size(&places[0], 1)).expect("a number");
    for (bytes, count) in [(0, 0), (1, 1), (first, 1), (first + 1, 2), (BYTES, 7)] {
        assert_eq!(
            env.store
                .kv_page(KvRange { owner: &own(), prefix: &ns(&[]), limit: 10 }, None, bytes)
                .await
                .expect("reads")
                .len(),
            count,
            "{bytes}"
        );
    }
    // Entries that are asked for come in the order asked, and all of them or none.
    let asked = [at(&["b"], "0"), at(&["none"], "0"), at(&[], "z"), at(&["b"], "0")];
    let most = asked.iter().map(|place| size(place, 1)).sum::<i64>() - size(&asked[1], 1);
    let most = usize::try_from(most).expect("a number");
    let read = env.store.kv_entries(&own(), &asked, most).await.expect("reads").expect("room");
    assert_eq!(
        read.iter().map(|entry| entry.as_ref().map(|entry| &*entry.value)).collect::<Vec<_>>(),
        [Some("0"), None, Some("6"), Some("0")]
    );
    assert_eq!(env.store.kv_entries(&own(), &asked, most - 1).await.expect("reads"), None);
}

pub async fn namespaces_are_listed_once_and_in_order(env: Env) {
    let all = [ns(&[]), ns(&["a"]), ns(&["a", "b"]), ns(&["a", "c"]), ns(&["ab"]), ns(&["b"])];
    let writes = all
        .iter()
        .flat_map(|ns| ["1", "2"].map(|key| KvPlace { ns: ns.clone(), key: KvKey::new(key).expect("a key") }));
    stored(&env, &writes.map(|place| put(place, value("1", "t"))).collect::<Vec<_>>()).await;
    let list = async |prefix: &[&str], after: Option<&KvNamespace>, limit| {
        env.store.kv_namespaces(KvRange { owner: &own(), prefix: &ns(prefix), limit }, after).await.expect("reads")
    };
    assert_eq!(list(&[], None, 10).await, all);
    assert_eq!(list(&[], None, 2).await, all[..2]);
    assert_eq!(list(&[], Some(&all[0]), 2).await, all[1..3]);
    assert_eq!(list(&["a"], None, 10).await, all[1..4]);
    assert_eq!(list(&["a"], Some(&all[1]), 10).await, all[2..4]);
    assert_eq!(list(&["a"], Some(&all[3]), 10).await, []);
}

pub async fn an_entry_expires(env: Env) {
    let place = at(&["n"], "k");
    let life = Duration::from_secs(10);
    let short = || KvPut { life: Some(life), ..value("12345", "t") };
    stored(&env, &[put(place.clone(), short()), put(at(&[], "stays"), value("1", "s"))]).await;
    assert_eq!(get(&env, place.clone()).await.and_then(|entry| entry.expires_at), Some(env.clock.now().plus(life)));
    env.clock.advance(life - Duration::from_millis(1));
    assert!(get(&env, place.clone()).await.is_some());
    assert_eq!(env.store.sweep_kv(10).await.expect("sweeps"), []);
    env.clock.advance(Duration::from_millis(1));
    assert_eq!(get(&env, place.clone()).await, None);
    assert_eq!((values(&env, &[]).await, values(&env, &["n"]).await.len()), (vec!["1".to_owned()], 0));
    assert_eq!(
        env.store.kv_namespaces(KvRange { owner: &own(), prefix: &ns(&[]), limit: 10 }, None).await.expect("reads"),
        [ns(&[])]
    );
    assert_eq!(env.store.all_kv(None, 10, BYTES).await.expect("reads").len(), 1);
    // It is as if it had never been: a write that requires that there is none is stored, with a time of its own.
    assert_eq!(stored(&env, &[only_if(None, put(place.clone(), short()))]).await.0, [false]);
    assert_eq!(get(&env, place.clone()).await.map(|entry| entry.created_at), Some(env.clock.now()));
    env.clock.advance(life);
    assert_eq!(write(&env, &[only_if(Some("t"), drop_entry(place.clone()))]).await, KvWritten::Changed(0));
    assert_eq!(env.store.sweep_kv(10).await.expect("sweeps"), [(own(), size(&place, 5))]);
    assert_eq!(env.store.sweep_kv(10).await.expect("sweeps"), []);
    assert_eq!(values(&env, &[]).await, ["1"]);
}

pub async fn an_entry_goes_with_its_thread(env: Env) {
    let key = env.create("t").await.key;
    let of = |thread| KvPut { thread: Some(thread), ..value("1", "t") };
    assert_eq!(write(&env, &[put(at(&[], "k"), of(ThreadKey(key.0 + 100)))]).await, KvWritten::ThreadGone(0));
    stored(&env, &[put(at(&[], "k"), of(key)), put(at(&[], "stays"), value("2", "s"))]).await;
    let moved = env.store.all_kv(None, 10, BYTES).await.expect("reads");
    assert_eq!(moved[0].thread, Some((user("u"), thread_id("t"))));
    // In the trash it is hidden, and comes back with the thread.
    let idle = env.clock.now().plus(Duration::from_secs(1));
    let trashed = env.store.trash(&project(), &[key], idle, Duration::from_secs(60)).await.expect("trashes");
    assert_eq!((trashed, values(&env, &[]).await), (vec![key], vec!["2".to_owned()]));
    let entry = threadline_core::AuditEntry {
        project: project(),
        at: env.clock.now(),
        actor: "a".into(),
        action: "thread.restored".into(),
        facts: "{}".into(),
    };
    env.store.restore(&project(), Some(&user("u")), &thread_id("t"), &entry).await.expect("restores");
    assert_eq!(values(&env, &[]).await, ["1", "2"]);
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!(values(&env, &[]).await, ["2"], "gone at once");
    assert_eq!(write(&env, &[put(at(&[], "k"), of(key))]).await, KvWritten::ThreadGone(0));
    while env.purge(10).await {}
    assert_eq!(
        stored(&env, &[put(at(&[], "k"), value("33", "t"))]).await,
        (vec![false], size(&at(&[], "k"), 2)),
        "its row is gone as well"
    );
}

pub async fn entries_of_a_deleted_thread_leave_the_sums_at_once(env: Env) {
    let key = env.create("t").await.key;
    let (own_place, other) = (at(&["n"], "k"), at(&[], "stays"));
    let sums = async || {
        let [user, whole] = [UsageOwner::user(&project(), &user("u")), UsageOwner::project(&project())];
        let bytes = async |owner| env.store.usage(&owner).await.expect("reads").map_or(0, |usage| usage.bytes);
        (bytes(user).await, bytes(whole).await)
    };
    let of_thread = KvPut { thread: Some(key), ..value("12345", "t") };
    let (_, added) = stored(&env, &[put(own_place, of_thread.clone()), put(other.clone(), value("1", "t"))]).await;
    let noted = (project(), user("u"), Usage { bytes: added, threads: 0 });
    env.store.add_usage(&[noted]).await.expect("adds");
    // The entries of the project itself are added by the count.
    env.store.write_kv(&owner(None), &[put(at(&[], "of the project"), of_thread)]).await.expect("writes");
    let (before, whole) = sums().await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    while env.purge(1).await {}
    let (after, whole_after) = sums().await;
    assert_eq!((after, whole_after - after), (size(&other, 1), whole - before), "{before} before");
    let counted = env.store.count_usage(&UsageOwner::user(&project(), &user("u"))).await.expect("counts").bytes;
    assert_eq!(counted, after, "the count has nothing to correct");
}

pub async fn a_footprint_and_a_sum_count_entries(env: Env) {
    let (one, other, third) = (at(&["n"], "a"), at(&[], "b"), at(&[], "p"));
    let both = size(&one, 5) + size(&other, 1);
    stored(&env, &[put(one, value("12345", "t")), put(other, value("1", "t"))]).await;
    let print = async || env.store.footprint(&project(), &user("u")).await.expect("counts").kv_entries;
    assert_eq!(print().await, 2);
    let whose = threadline_core::UsageOwner::user(&project(), &user("u"));
    let of_project = size(&third, 7);
    let own_entries = [put(third, value("1234567", "t"))];
    env.store.write_kv(&owner(None), &own_entries).await.expect("writes");
    assert_eq!(env.store.count_usage(&whose).await.expect("counts").bytes, both);
    let whole = threadline_core::UsageOwner::project(&project());
    assert_eq!(
        env.store.count_usage(&whole).await.expect("counts").bytes,
        both + of_project,
        "with those of the project itself"
    );
    assert_eq!(env.store.count_usage(&whose).await.expect("counts").bytes, both, "and again");
    env.store.forget_user(&project(), &user("u")).await.expect("forgets");
    assert_eq!((print().await, env.store.count_usage(&whole).await.expect("counts").bytes), (0, of_project));
}

pub async fn entries_move_with_their_times(env: Env) {
    let key = env.create("t").await.key;
    let times =
        KvTimes { created_at: Timestamp(5), updated_at: Timestamp(6), expires_at: Some(env.clock.now().plus(LEASE)) };
    let one = KvPut { times: Some(times), thread: Some(key), ..value("1", "t") };
    let lasting = KvPut { times: Some(KvTimes { expires_at: None, ..times }), ..value("2", "t") };
    stored(&env, &[put(at(&["n"], "a"), one), put(at(&["n"], "b"), lasting)]).await;
    env.store.write_kv(&owner(None), &[put(at(&[], "c"), value("3", "t"))]).await.expect("writes");
    let (mut all, mut after) = (Vec::new(), None);
    while let Some(moved) = env.store.all_kv(after.as_ref(), 1, BYTES).await.expect("reads").pop() {
        after = Some(OwnedPlace { owner: moved.owner.clone(), place: moved.entry.place.clone() });
        all.push(moved);
    }
    let facts = |moved: &MovedKv| {
        (moved.entry.value.clone(), moved.entry.created_at, moved.entry.expires_at, moved.thread.is_some())
    };
    let now = env.clock.now();
    let wanted = [
        ("3".to_owned(), now, None, false),
        ("1".to_owned(), Timestamp(5), times.expires_at, true),
        ("2".to_owned(), Timestamp(5), None, false),
    ];
    assert_eq!(all.iter().map(facts).collect::<Vec<_>>(), wanted, "the entries of the project itself come first");
    assert_eq!(env.store.all_kv(None, 10, BYTES).await.expect("reads"), all);
}

pub async fn of_many_concurrent_writes_with_one_condition_one_is_stored(env: Env) {
    for (round, wanted) in [None, Some("t0"), Some("t1"), None].into_iter().enumerate() {
        if wanted.is_none() {
            stored(&env, &[drop_entry(at(&[], "k"))]).await;
        }
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let store = env.store.clone();
            let named = format!("t{round}");
            // Other entries are written as well, in both orders: no batch waits for another one for ever.
            let mut writes = vec![
                only_if(wanted, put(at(&[], "k"), value(&format!("{n}"), &named))),
                put(at(&["m"], "first"), value("1", "t")),
                put(at(&["z"], "last"), value("1", "t")),
            ];
            if n % 2 == 0 {
                writes.reverse();
            }
            tasks.spawn(async move { store.write_kv(&own(), &writes).await.expect("writes") });
        }
        let done =
            tasks.join_all().await.into_iter().filter(|written| matches!(written, KvWritten::Done { .. })).count();
        assert_eq!(done, 1, "round {round}");
    }
}
