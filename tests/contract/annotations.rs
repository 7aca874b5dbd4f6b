//! Annotations of threads.

use std::time::Duration;

use serde_json::value::RawValue;
use threadline_core::{Annotation, AnnotationId, NewAnnotation, ThreadKey, Timestamp};
use threadline_store::{AnnotatedThread, DynStore};
use tokio::task::JoinSet;

use crate::support::*;

pub fn annotation(id: &str, payload: &str) -> NewAnnotation {
    let payload = RawValue::from_string(payload.to_owned()).expect("JSON");
    let id = AnnotationId::new(id).expect("id");
    NewAnnotation::new(id, "user_action".into(), Some(&payload), None).expect("an annotation")
}

async fn put(env: &Env, key: ThreadKey, new: NewAnnotation) -> Option<bool> {
    env.store.put_annotation(key, new).await.expect("puts")
}

/// All annotations of a thread, in pages of this size; `None` if it is gone.
async fn read(env: &Env, key: ThreadKey, limit: usize) -> Option<Vec<Annotation>> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = env.store.annotations(key, after, limit).await.expect("reads")?;
        assert!(page.len() <= limit);
        if page.is_empty() {
            return Some(all);
        }
        for (number, annotation) in page {
            after += 1;
            assert_eq!(number, after, "without a gap");
            all.push(annotation);
        }
    }
}

fn ids(all: &[Annotation]) -> Vec<&str> {
    all.iter().map(|annotation| annotation.id.as_str()).collect()
}

pub async fn an_annotation_is_stored_once(env: Env) {
    let (key, other) = (env.create("t").await.key, env.create("other").await.key);
    assert_eq!(read(&env, key, 10).await, Some(vec![]));
    let first = NewAnnotation {
        kind: "type \u{e9}".into(),
        occurred_at: Some(Timestamp(-7)),
        ..annotation("a", "{\"b\" : 1.0,\"a\":2,\"a\":3, \"s\":\"\\ud800 \\u0000\"}")
    };
    let came = env.clock.now();
    assert_eq!(put(&env, key, first.clone()).await, Some(true));
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(put(&env, key, first.clone()).await, Some(false));
    let another = NewAnnotation { kind: "another".into(), ..annotation("a", "2") };
    assert_eq!(put(&env, key, another).await, Some(false), "its id is taken, whatever it says");
    let wanted = Annotation { at: came, ..first.clone().made(Timestamp(0)) };
    assert_eq!(read(&env, key, 10).await, Some(vec![wanted]), "as it came first, byte for byte");
    // Ids are of one thread each, and one that is moved keeps its time.
    let moved = NewAnnotation { at: Some(Timestamp(5)), ..annotation("a", "null") };
    assert_eq!(put(&env, other, moved.clone()).await, Some(true));
    assert_eq!(read(&env, other, 10).await, Some(vec![moved.made(Timestamp(0))]));
}

pub async fn annotations_are_numbered_as_they_came(env: Env) {
    let key = env.create("t").await.key;
    let names = ["b", "a", "c", "B", "\u{e9}", "0"];
    for name in names {
        assert_eq!(put(&env, key, annotation(name, "1")).await, Some(true));
        assert_eq!(put(&env, key, annotation("b", "1")).await, Some(false), "which takes no number");
    }
    for limit in [1, 2, 5, 6, 7] {
        assert_eq!(ids(&read(&env, key, limit).await.expect("is there")), names, "{limit}");
    }
    for beyond in [6, 7, u64::MAX] {
        assert_eq!(env.store.annotations(key, beyond, 10).await.expect("reads"), Some(vec![]));
    }
}

pub async fn annotations_go_with_their_thread(env: Env) {
    let key = env.create("t").await.key;
    let kept = env.create("kept").await.key;
    for n in 0..25 {
        put(&env, key, annotation(&n.to_string(), "1")).await;
    }
    put(&env, kept, annotation("a", "1")).await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    let again = env.create("t").await.key;
    for purged in [false, true] {
        assert_eq!(read(&env, key, 10).await, None);
        assert_eq!(put(&env, key, annotation("late", "1")).await, None);
        assert_eq!(read(&env, again, 10).await, Some(vec![]), "made again it is another one");
        while !purged && env.purge(10).await {}
    }
    assert_eq!(put(&env, ThreadKey(404), annotation("a", "1")).await, None);
    assert_eq!(ids(&read(&env, kept, 10).await.expect("is there")), ["a"]);
}

/// Many put the same few annotations into one thread, also if they ask different nodes: each is new to one of them, and the
/// numbers have no gap.
pub async fn check_races(stores: &[DynStore], key: ThreadKey) {
    let mut tasks = JoinSet::new();
    for n in 0..96_usize {
        let store = stores[n % stores.len()].clone();
        tasks.spawn(async move {
            let new = annotation(&format!("a{}", n / 8), &n.to_string());
            store.put_annotation(key, new).await.expect("puts").expect("is there")
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|new| *new).count(), 12);
    let page = stores[0].annotations(key, 0, 100).await.expect("reads").expect("is there");
    assert_eq!(page.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let mut ids: Vec<_> = page.iter().map(|(_, annotation)| annotation.id.to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12);
}

pub async fn one_of_many_concurrent_puts_of_an_annotation_is_first(env: Env) {
    let key = env.create("t").await.key;
    let store: DynStore = env.store.clone();
    check_races(&[store], key).await;
}

pub async fn annotated_threads_are_listed_in_order(env: Env) {
    let mut wanted = Vec::new();
    for name in ["b", "without", "a", "deleted", "c"] {
        let thread = env.create(name).await;
        for n in 0..if name == "without" { 0 } else { 3 } {
            put(&env, thread.key, annotation(&n.to_string(), "1")).await;
        }
        if name == "deleted" {
            env.store.delete_thread(thread.key, None).await.expect("deletes");
        } else if name != "without" {
            let (project, id) = (thread.project, thread.id);
            wanted.push(AnnotatedThread {
                key: thread.key,
                project,
                user: thread.user,
                id,
                claimed: true,
                epoch: thread.epoch,
            });
        }
    }
    for limit in [1, 2, 10] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = env.store.annotated_threads(after, limit).await.expect("lists");
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            found.extend(page);
        }
        assert_eq!(found, wanted, "{limit}");
    }
}
