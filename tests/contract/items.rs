//! Item lists.

use std::time::Duration;

use threadline_core::{
    Digest, ThreadKey, UserId,
    items::{Item, ItemRange, ListAnswer, ListName, ListState, OpKey},
    kv::{KvKey, KvNamespace, KvOwner, KvPlace, Tag},
    limits::{AGENT_DATA_ROW_BYTES, ITEM_OPS_KEPT, MAX_ITEM_LISTS},
};
use threadline_store::{KvChange, KvPut, KvWrite, KvWritten, ListDone, ListEdit, ListOp};
use tokio::task::JoinSet;

use crate::support::*;

const BYTES: usize = 1 << 20;

fn name(text: &str) -> ListName {
    ListName::new(text).expect("a name")
}

fn tag(text: &str) -> Tag {
    Tag::new(text).expect("a tag")
}

fn append(items: &[&str]) -> ListEdit {
    ListEdit::Append(items.iter().map(|item| (*item).to_owned()).collect())
}

/// An operation whose digest is of what it says.
fn op(thread: ThreadKey, list: &str, key: &str, edit: ListEdit) -> ListOp {
    let mut digest = [0; 32];
    let says = format!("{edit:?}");
    says.bytes().enumerate().for_each(|(at, byte)| digest[at % 32] ^= byte.rotate_left(at as u32 % 7));
    let (list, op) = (name(list), OpKey::new(key).expect("a key"));
    ListOp { thread, list, op, digest: Digest(digest), if_tag: None, edit, kv: None }
}

async fn change(env: &Env, op: &ListOp) -> ListDone {
    env.store.change_list(op).await.expect("changes")
}

/// The answer of an operation, and what it adds.
async fn done(env: &Env, op: &ListOp) -> (ListAnswer, i64) {
    match change(env, op).await {
        ListDone::Done { answer, added, .. } => (answer, added),
        other => panic!("{other:?}"),
    }
}

/// Bytes that items of the list `l` count, and the operation that has the answer.
fn counts(bodies: &[usize], key: &str, answer: &ListAnswer) -> i64 {
    let (first, last) = answer.range.unwrap_or((0, 0));
    let stored = serde_json::json!([first, last, answer.count, answer.tag.as_ref().map(Tag::as_str)]).to_string();
    let row = AGENT_DATA_ROW_BYTES + "l".len();
    (bodies.iter().map(|body| row + body).sum::<usize>() + row + key.len() + stored.len()) as i64
}

async fn read(env: &Env, thread: ThreadKey, range: ItemRange, limit: usize) -> Vec<(u64, String)> {
    let (_, items) = env.store.items(thread, &name("l"), range, limit, BYTES).await.expect("reads").expect("is there");
    items.into_iter().map(|item| (item.pos, item.body)).collect()
}

async fn state(env: &Env, thread: ThreadKey) -> Option<ListState> {
    env.store.items(thread, &name("l"), ItemRange::Newest, 1, BYTES).await.expect("reads").expect("is there").0
}

fn numbered(items: &[(u64, &str)]) -> Vec<(u64, String)> {
    items.iter().map(|(pos, body)| (*pos, (*body).to_owned())).collect()
}

pub async fn items_are_added_in_order_and_read_in_pages(env: Env) {
    let key = env.create("t").await.key;
    assert_eq!(state(&env, key).await, None);
    let odd = "{\"b\" : 1.0,\"a\":2,\"a\":3, \"s\":\"\\ud800 \\u0000\"}";
    let (answer, added) = done(&env, &op(key, "l", "1", append(&["1", odd, "3"]))).await;
    assert_eq!((answer.range, answer.count, added), (Some((1, 3)), 3, counts(&[1, odd.len(), 1], "1", &answer)));
    let (answer, _) = done(&env, &op(key, "l", "2", append(&["4"]))).await;
    assert_eq!((answer.range, answer.count), (Some((4, 4)), 4));
    assert_eq!(state(&env, key).await, Some(ListState { tag: answer.tag.expect("a tag"), count: 4, next_pos: 5 }));
    let all = numbered(&[(1, "1"), (2, odd), (3, "3"), (4, "4")]);
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, all);
    assert_eq!(read(&env, key, ItemRange::Newest, 2).await, all[2..]);
    assert_eq!(read(&env, key, ItemRange::Before(3), 1).await, all[1..2]);
    assert_eq!(read(&env, key, ItemRange::After(1), 2).await, all[1..3]);
    assert_eq!(read(&env, key, ItemRange::After(4), 2).await, []);
    // A page ends with the item that reaches the bytes.
    let row = AGENT_DATA_ROW_BYTES + 1;
    for (range, wanted) in [(ItemRange::After(0), &all[..2]), (ItemRange::Newest, &all[1..])] {
        let bytes = if range == ItemRange::Newest { 2 * (row + 1) + 1 } else { row + 2 };
        let (_, page) = env.store.items(key, &name("l"), range, 10, bytes).await.expect("reads").expect("is there");
        assert_eq!(page.into_iter().map(|item| (item.pos, item.body)).collect::<Vec<_>>(), wanted, "{range:?}");
    }
    assert_eq!(
        env.store.items(ThreadKey(key.0 + 100), &name("l"), ItemRange::Newest, 1, BYTES).await.expect("reads"),
        None
    );
}

pub async fn a_repeated_operation_has_the_same_answer(env: Env) {
    let key = env.create("t").await.key;
    let once = op(key, "l", "k", append(&["1", "2"]));
    let first = done(&env, &once).await.0;
    let popped = op(key, "l", "p", ListEdit::Pop(1));
    let pop = done(&env, &popped).await.0;
    assert_eq!((pop.range, pop.count), (Some((2, 2)), 1));
    done(&env, &op(key, "l", "later", append(&["3"]))).await;
    assert_eq!(done(&env, &once).await, (first, 0), "as it was then");
    assert_eq!(done(&env, &popped).await, (pop.clone(), 0));
    let removed = env.store.removed_items(key, &name("l"), &pop.tag.expect("a tag")).await.expect("reads");
    assert_eq!(removed, [Item { pos: 2, body: "2".into() }], "and the same item");
    assert_eq!(change(&env, &op(key, "l", "k", append(&["other"]))).await, ListDone::Conflict);
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(1, "1"), (3, "3")]), "no position twice");
    // The key belongs to its list.
    assert_eq!(done(&env, &op(key, "m", "k", append(&["other"]))).await.0.count, 1);
}

pub async fn items_are_popped_replaced_and_copied(env: Env) {
    let (key, other) = (env.create("t").await.key, env.create("u").await.key);
    done(&env, &op(key, "l", "1", append(&["1", "2", "3", "4"]))).await;
    done(&env, &op(key, "l", "2", ListEdit::Pop(1))).await;
    done(&env, &op(key, "l", "3", append(&["5"]))).await;
    let pop = done(&env, &op(key, "l", "4", ListEdit::Pop(2))).await.0;
    assert_eq!((pop.range, pop.count), (Some((3, 5)), 2));
    let removed = env.store.removed_items(key, &name("l"), &pop.tag.expect("a tag")).await.expect("reads");
    assert_eq!(removed.iter().map(|item| item.pos).collect::<Vec<_>>(), [3, 5], "not what another one has removed");
    let copy = |from, upto| ListEdit::Copy { from, list: name("l"), upto };
    done(&env, &op(key, "l", "5", append(&["6", "7"]))).await;
    let copied = done(&env, &op(other, "l", "c", copy(key, Some(6)))).await;
    assert_eq!((copied.0.range, copied.0.count), (Some((1, 3)), 3));
    assert_eq!(copied.1, counts(&[1, 1, 1], "c", &copied.0));
    // Under a longer name each item counts more.
    let longer = done(&env, &op(other, "longer", "c", copy(key, Some(6)))).await;
    assert_eq!(longer.1 - copied.1, 4 * ("longer".len() - "l".len()) as i64);
    let replaced = done(&env, &op(key, "l", "r", ListEdit::Replace(vec!["x".into()]))).await.0;
    assert_eq!((replaced.range, replaced.count), (Some((8, 8)), 1));
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(8, "x")]));
    assert_eq!(read(&env, other, ItemRange::Newest, 10).await, numbered(&[(1, "1"), (2, "2"), (3, "6")]));
    done(&env, &op(other, "l", "again", copy(key, None))).await;
    assert_eq!(read(&env, other, ItemRange::After(3), 10).await, numbered(&[(4, "x")]));
    assert_eq!(change(&env, &op(other, "l", "gone", copy(ThreadKey(other.0 + 100), None))).await, ListDone::SourceGone);
}

pub async fn a_pop_of_a_missing_list_is_remembered(env: Env) {
    let key = env.create("t").await.key;
    let popped = op(key, "l", "p", ListEdit::Pop(1));
    let first = done(&env, &popped).await;
    assert_eq!((first.0.range, first.0.count), (None, 0));
    done(&env, &op(key, "l", "a", ListEdit::Append(vec!["1".to_owned()]))).await;
    assert!(first.1 > 0, "a remembered operation takes room");
    assert_eq!(done(&env, &popped).await, (first.0, 0), "the repetition removes nothing");
    assert_eq!(done(&env, &op(key, "l", "q", ListEdit::Pop(1))).await.0.range, Some((1, 1)));
}

pub async fn an_operation_needs_the_list_as_it_was_seen(env: Env) {
    let key = env.create("t").await.key;
    let when = |wanted: Option<Tag>, op: ListOp| ListOp { if_tag: Some(wanted), ..op };
    assert_eq!(change(&env, &when(Some(tag("x")), op(key, "l", "1", append(&["1"])))).await, ListDone::Changed);
    let made = done(&env, &when(None, op(key, "l", "1", append(&["1"])))).await.0.tag;
    assert_eq!(change(&env, &when(None, op(key, "l", "2", append(&["2"])))).await, ListDone::Changed);
    let next = done(&env, &when(made.clone(), op(key, "l", "2", append(&["2"])))).await.0.tag;
    assert_eq!(change(&env, &when(made.clone(), op(key, "l", "3", ListEdit::Pop(1)))).await, ListDone::Changed);
    assert_eq!(done(&env, &when(made, op(key, "l", "2", append(&["2"])))).await.0.tag, next, "carried out before");
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(1, "1"), (2, "2")]));
}

pub async fn entries_are_written_with_the_list_or_not_at_all(env: Env) {
    let key = env.create("t").await.key;
    let owner = KvOwner { project: project(), user: Some(UserId::new("u").expect("id")) };
    let place = KvPlace { ns: KvNamespace::default(), key: KvKey::new("k").expect("a key") };
    let entry = |wanted: Option<&str>, value: &str| {
        let put = KvPut { value: value.into(), tag: tag(value), life: None, thread: Some(key), times: None };
        vec![KvWrite { place: place.clone(), if_tag: Some(wanted.map(tag)), change: KvChange::Put(put) }]
    };
    let with = |kv, op: ListOp| ListOp { kv: Some((owner.clone(), kv)), ..op };
    let first = change(&env, &with(entry(None, "1"), op(key, "l", "1", append(&["a"])))).await;
    let ListDone::Done { answer, added, added_kv } = first else { panic!("{first:?}") };
    assert_eq!((added, added_kv), (counts(&[1], "1", &answer), place.size(&tag("1"), 1)));
    let refused = change(&env, &with(entry(None, "2"), op(key, "l", "2", append(&["b"])))).await;
    assert_eq!(refused, ListDone::Kv(KvWritten::Changed(0)));
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(1, "a")]), "the list is as it was");
    let stale = ListOp { if_tag: Some(None), ..with(entry(Some("1"), "3"), op(key, "l", "3", append(&["c"]))) };
    assert_eq!(change(&env, &stale).await, ListDone::Changed);
    let found = env.store.kv_entries(&owner, std::slice::from_ref(&place), BYTES).await.expect("reads").expect("room");
    assert_eq!(found[0].as_ref().map(|entry| &*entry.value), Some("1"), "and so is the entry");
}

pub async fn lists_go_with_their_thread(env: Env) {
    let key = env.create("t").await.key;
    let once = op(key, "l", "1", append(&["12345", "1"]));
    let added = done(&env, &once).await.1 + done(&env, &op(key, "m", "1", append(&["1"]))).await.1;
    let whose = threadline_core::UsageOwner::user(&project(), &user("u"));
    assert_eq!(env.store.count_usage(&whose).await.expect("counts").bytes, added);
    let listed = env.store.listed_data(None, 10).await.expect("reads");
    assert_eq!(listed.iter().map(|thread| thread.key).collect::<Vec<_>>(), [key]);
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert_eq!(env.store.items(key, &name("l"), ItemRange::Newest, 1, BYTES).await.expect("reads"), None);
    assert_eq!(change(&env, &once).await, ListDone::ThreadGone);
    assert_eq!(env.store.listed_data(None, 10).await.expect("reads"), []);
    while env.purge(1).await {}
    assert_eq!(env.store.lists(key).await.expect("reads"), []);
    assert_eq!(env.store.usage(&whose).await.expect("reads").map_or(0, |usage| usage.bytes), 0);
}

pub async fn what_is_over_is_removed_after_a_day(env: Env) {
    let key = env.create("t").await.key;
    let once = op(key, "l", "1", append(&["1", "22", "333"]));
    let first = done(&env, &once).await.0;
    env.clock.advance(ITEM_OPS_KEPT - Duration::from_secs(1));
    let pop = done(&env, &op(key, "l", "2", ListEdit::Pop(2))).await.0;
    let owner = KvOwner { project: project(), user: Some(user("u")) };
    let whose = threadline_core::UsageOwner::user(&project(), &user("u"));
    let before = env.store.count_usage(&whose).await.expect("counts").bytes;
    assert_eq!(env.store.sweep_items(10).await.expect("sweeps"), (0, vec![]));
    assert_eq!(done(&env, &once).await.0, first);
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(
        env.store.sweep_items(10).await.expect("sweeps"),
        (1, vec![(owner.clone(), counts(&[], "1", &first))]),
        "the first operation"
    );
    let after = env.store.count_usage(&whose).await.expect("counts").bytes;
    assert_eq!(before - after, counts(&[], "1", &first));
    assert_eq!(done(&env, &once).await.0.range, Some((4, 6)), "a new one");
    env.clock.advance(ITEM_OPS_KEPT - Duration::from_secs(1));
    let over = counts(&[2, 3], "2", &pop);
    assert_eq!(env.store.sweep_items(10).await.expect("sweeps"), (3, vec![(owner, over)]));
    assert_eq!(env.store.removed_items(key, &name("l"), &pop.tag.expect("a tag")).await.expect("reads"), []);
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(1, "1"), (4, "1"), (5, "22"), (6, "333")]));
}

pub async fn a_thread_has_a_bounded_number_of_lists(env: Env) {
    let key = env.create("t").await.key;
    for n in 0..MAX_ITEM_LISTS {
        done(&env, &op(key, &format!("l{n}"), "1", append(&["1"]))).await;
    }
    assert_eq!(change(&env, &op(key, "more", "1", append(&["1"]))).await, ListDone::TooManyLists);
    done(&env, &op(key, "l3", "2", append(&["1"]))).await;
}

pub async fn a_list_moves_with_its_tag_and_positions(env: Env) {
    let key = env.create("t").await.key;
    let moved = ListState { tag: tag("moved"), count: 3, next_pos: 9 };
    let item = |pos: u64| Item { pos, body: format!("{pos}") };
    let put = async |state: &ListState, items: &[Item]| {
        env.store.put_list(key, &name("l"), state, items).await.expect("puts")
    };
    assert!(put(&moved, &[item(2), item(5)]).await);
    assert!(put(&moved, &[item(5), item(8)]).await, "the rest, and a part again");
    assert_eq!(read(&env, key, ItemRange::Newest, 10).await, numbered(&[(2, "2"), (5, "5"), (8, "8")]));
    assert_eq!(env.store.lists(key).await.expect("reads"), [(name("l"), moved.clone())]);
    assert_eq!(done(&env, &op(key, "l", "1", append(&["new"]))).await.0.range, Some((9, 9)));
    assert!(!put(&moved, &[item(1)]).await, "the list has changed since");
    assert_eq!(read(&env, key, ItemRange::Before(3), 10).await, numbered(&[(2, "2")]));
}

pub async fn of_many_concurrent_appends_none_is_lost(env: Env) {
    let key = env.create("t").await.key;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let store = env.store.clone();
        // Each of three operations comes from two clients.
        let appended = op(key, "l", &format!("{}", n % 3), append(&[&format!("{}", n % 3), "x"]));
        tasks.spawn(async move { store.change_list(&appended).await.expect("changes") });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(|done| matches!(done, ListDone::Done { .. })), "{answers:?}");
    let items = read(&env, key, ItemRange::Newest, 10).await;
    assert_eq!(items.iter().map(|(pos, _)| *pos).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    for pair in items.chunks(2) {
        assert!(pair[0].1 != "x" && pair[1].1 == "x", "the items of an operation stay together: {items:?}");
    }
}
