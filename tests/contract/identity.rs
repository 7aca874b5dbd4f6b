//! Projects, API keys, tickets and the audit. Races are won by one.

use std::{sync::Arc, time::Duration};

use threadline_core::{ApiKey, AuditEntry, Born, Digest, KeyId, ProjectId, Scope, Scopes, Timestamp};
use threadline_store::{DynStore, StoredProject};
use tokio::task::JoinSet;

use crate::support::*;

pub fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

fn key_id(name: &str) -> KeyId {
    KeyId::new(name).expect("id")
}

fn other() -> ProjectId {
    ProjectId::new("other").expect("id")
}

fn stored(id: &ProjectId, version: i64, settings: &str) -> StoredProject {
    let secrets = Some(format!("[{version}]"));
    StoredProject { id: id.clone(), version, settings: settings.to_owned(), secrets, sealed: false }
}

fn key(project: &ProjectId, id: &str, scopes: Scopes) -> ApiKey {
    ApiKey {
        id: key_id(id),
        project: project.clone(),
        scopes,
        created_at: Timestamp(5),
        expires_at: None,
        revoked_at: None,
        born: Born::Authenticated,
        made_by: None,
        last_used: None,
    }
}

fn entry(project: &ProjectId, at: i64) -> AuditEntry {
    let (actor, action) = ("key:é".to_owned(), "key.revoked".to_owned());
    AuditEntry { project: project.clone(), at: Timestamp(at), actor, action, facts: format!("{{\"n\":{at}}}") }
}

/// Times of the entries in a project's audit, the first one first.
async fn audited(env: &Env, project: &ProjectId) -> Vec<i64> {
    let audit = env.store.audit(project, None, 100).await.expect("reads");
    audit.into_iter().rev().map(|(_, entry)| entry.at.0).collect()
}

/// Runs many concurrent calls: how many returned true.
async fn winners<F: Future<Output = bool> + Send + 'static>(
    stores: &[DynStore],
    what: impl Fn(DynStore, u8) -> F,
) -> usize {
    let mut tasks = JoinSet::new();
    for n in 0..32 {
        tasks.spawn(what(stores[usize::from(n) % stores.len()].clone(), n));
    }
    tasks.join_all().await.into_iter().filter(|won| *won).count()
}

/// One of all gets a ticket, makes a project, changes it, and gives a key its id; also if they ask different nodes.
pub async fn check_races(stores: &[DynStore]) {
    let store = &stores[0];
    for round in 0..8u8 {
        store.put_ticket(&digest(round), "bearer", Timestamp(100), Timestamp(0)).await.expect("puts");
        let take = |store: DynStore, _| async move {
            let taken = store.take_ticket(&digest(round), Timestamp(1)).await.expect("takes");
            assert!(taken.as_deref().is_none_or(|bearer| bearer == "bearer"));
            taken.is_some()
        };
        assert_eq!(winners(stores, take).await, 1, "ticket {round}");

        let version = i64::from(round) + 1;
        let put = |store: DynStore, n: u8| async move {
            store.put_project(&stored(&project(), version, &n.to_string()), None).await.expect("answers")
        };
        assert_eq!(winners(stores, put).await, 1, "version {version}");
        let put = |store: DynStore, n: u8| async move {
            let mut bytes = [n; 32];
            bytes[0] = round;
            store
                .put_key(&key(&project(), &format!("k{round}"), Scopes::ALL), &Digest(bytes), None)
                .await
                .expect("answers")
        };
        assert_eq!(winners(stores, put).await, 1, "key {round}");
        let put = |store: DynStore, n: u8| async move {
            store
                .put_key(&key(&other(), &format!("k{round}-{n}"), Scopes::ALL), &digest(100 + round), None)
                .await
                .expect("answers")
        };
        assert_eq!(winners(stores, put).await, 1, "digest {round}");
    }
    assert_eq!(store.projects().await.expect("reads")[0].version, 8);
    assert_eq!(store.keys(&project()).await.expect("reads").len(), 8);
    assert_eq!(store.keys(&other()).await.expect("reads").len(), 8);
}

pub async fn a_project_is_put_by_version(env: Env) {
    let put = async |project: &StoredProject| {
        let entry = entry(&project.id, project.version);
        env.store.put_project(project, Some(&entry)).await.expect("answers")
    };
    let seals = env.store.sealing_key().is_some();
    let all = async || {
        let all = env.store.projects().await.expect("reads").into_iter();
        let all = all.map(|project| {
            assert_eq!(project.sealed, seals);
            StoredProject { sealed: false, ..project }
        });
        all.collect::<Vec<_>>()
    };
    assert_eq!(all().await, []);
    for version in [i64::MIN, -1, 0, 2, 7] {
        assert!(!put(&stored(&project(), version, "{}")).await, "there is no version before {version}");
    }
    let first = stored(&project(), 1, "{\"a\":\"\\u0000 é\"}");
    assert!(put(&first).await);
    assert!(!put(&stored(&project(), 1, "{}")).await, "it is made once");
    for version in [0, 3, i64::MAX] {
        assert!(!put(&stored(&project(), version, "{}")).await, "{version} does not follow 1");
    }
    assert_eq!(all().await, std::slice::from_ref(&first), "as it was put");
    let second = stored(&project(), 2, "{\"b\":2}");
    assert!(put(&second).await);
    assert!(!put(&second).await, "it is at that version now");
    let theirs = stored(&other(), 1, "{}");
    assert!(put(&theirs).await);
    assert_eq!(all().await, [theirs, second], "by id");
    assert_eq!(audited(&env, &project()).await, [1, 2], "no entry without a change");
}

pub async fn keys_are_found_by_digest_and_belong_to_a_project(env: Env) {
    let put = async |key: &ApiKey, n: u8| {
        let entry = entry(&key.project, n.into());
        env.store.put_key(key, &digest(n), Some(&entry)).await.expect("answers")
    };
    let find = async |n: u8| env.store.key(&digest(n)).await.expect("reads");
    let list = async |project: &ProjectId| env.store.keys(project).await.expect("reads");
    assert_eq!((find(1).await, list(&project()).await), (None, vec![]));
    let b = key(&project(), "b", Scopes::ALL);
    let a = ApiKey {
        expires_at: Some(Timestamp(9)),
        revoked_at: Some(Timestamp(8)),
        born: Born::Development,
        ..key(&project(), "a", Scopes::of(&[Scope::Metrics]))
    };
    assert!(put(&b, 1).await && put(&a, 2).await);
    assert_eq!((find(1).await, find(2).await), (Some(b.clone()), Some(a.clone())), "whether it is valid or not");
    assert!(!put(&key(&project(), "b", Scopes::USER), 3).await, "the id is taken");
    assert!(!put(&key(&project(), "c", Scopes::USER), 1).await, "the digest is taken");
    assert!(!put(&key(&other(), "c", Scopes::USER), 1).await, "by whomever");
    assert_eq!((find(1).await, find(3).await), (Some(b.clone()), None), "nothing was changed");
    let theirs = key(&other(), "b", Scopes::default());
    assert!(put(&theirs, 4).await, "ids are of one project each");
    assert_eq!(list(&project()).await, [a.clone(), b.clone()], "by id");
    assert_eq!(list(&other()).await, std::slice::from_ref(&theirs));
    let all = env.store.all_keys().await.expect("reads");
    assert_eq!(all, [(theirs, digest(4)), (a, digest(2)), (b, digest(1))], "by project and id");
    let audit = (audited(&env, &project()).await, audited(&env, &other()).await);
    assert_eq!(audit, (vec![1, 2], vec![4]), "no entry without a change");
}

pub async fn a_key_is_revoked_once(env: Env) {
    let revoke = async |project: &ProjectId, id: &str, at| {
        let entry = entry(project, at);
        env.store.revoke_key(project, &key_id(id), Timestamp(at), Some(&entry)).await.expect("answers")
    };
    let own = ApiKey { born: Born::Development, ..key(&project(), "k", Scopes::USER) };
    let theirs = key(&other(), "k", Scopes::USER);
    env.store.put_key(&own, &digest(1), None).await.expect("puts");
    env.store.put_key(&theirs, &digest(2), None).await.expect("puts");
    assert_eq!(revoke(&project(), "none", 1).await, None);
    let revoked = ApiKey { revoked_at: Some(Timestamp(7)), ..own.clone() };
    assert_eq!(revoke(&project(), "k", 7).await.as_ref(), Some(&revoked));
    assert_eq!(revoke(&project(), "k", 9).await.as_ref(), Some(&revoked), "it keeps its first time");
    assert_eq!(audited(&env, &project()).await, [7], "no entry without a change");
    assert_eq!(env.store.key(&digest(1)).await.expect("reads").as_ref(), Some(&revoked));
    assert_eq!(env.store.key(&digest(2)).await.expect("reads"), Some(theirs), "another project's key of this id");
    assert!(!env.store.put_key(&own, &digest(3), None).await.expect("answers"), "its id is not given again");
}

pub async fn a_ticket_is_taken_once_and_in_time(env: Env) {
    let put = async |n, bearer: &str, until, now| {
        env.store.put_ticket(&digest(n), bearer, Timestamp(until), Timestamp(now)).await.expect("puts");
    };
    let take = async |n, now| env.store.take_ticket(&digest(n), Timestamp(now)).await.expect("takes");
    assert_eq!(take(1, 0).await, None);
    put(1, "{\"user\":\"é\"}", 10, 0).await;
    put(2, "second", 10, 0).await;
    assert_eq!(take(1, 9).await.as_deref(), Some("{\"user\":\"é\"}"));
    assert_eq!(take(1, 9).await, None, "once");
    assert_eq!(take(2, 10).await, None, "its time is over");
    assert_eq!(take(2, 9).await, None, "and it is gone");
    // Sent again, because the answer was lost.
    put(3, "first", 10, 0).await;
    put(3, "again", 20, 15).await;
    assert_eq!(take(3, 16).await.as_deref(), Some("again"));
    assert_eq!(take(3, 16).await, None);
}

fn name(n: u16) -> Digest {
    let mut digest = [0; 32];
    digest[..2].copy_from_slice(&n.to_be_bytes());
    Digest(digest)
}

pub async fn old_tickets_are_swept(env: Env) {
    let sweep = async |now| env.store.sweep_tickets(Timestamp(now)).await.expect("sweeps");
    let take = async |n| env.store.take_ticket(&name(n), Timestamp(0)).await.expect("takes");
    assert!(!sweep(100).await, "there is none");
    // More than one step removes.
    for n in 0..200 {
        env.store.put_ticket(&name(n), "b", Timestamp(10), Timestamp(0)).await.expect("puts");
    }
    for (n, until) in [(500, 11), (501, 30)] {
        env.store.put_ticket(&name(n), "b", Timestamp(until), Timestamp(0)).await.expect("puts");
    }
    assert!(!sweep(9).await, "the time of none is over");
    assert_eq!(take(0).await.as_deref(), Some("b"), "and all are there");
    while sweep(10).await {}
    // By a slow clock, the remaining ones can still be redeemed.
    for n in 1..200 {
        assert_eq!(take(n).await, None, "{n}");
    }
    for n in [500, 501] {
        assert_eq!(take(n).await.as_deref(), Some("b"), "{n}: its time is to come");
    }
}

pub async fn old_tickets_are_removed_as_new_ones_are_issued(env: Env) {
    let put = async |n, until, now| {
        env.store.put_ticket(&name(n), "b", Timestamp(until), Timestamp(now)).await.expect("puts");
    };
    for n in 0..100 {
        put(n, 10, 0).await;
    }
    put(500, 30, 0).await;
    // Fewer than that many are needed: each removes several.
    for n in 600..610 {
        put(n, 30, 10).await;
    }
    // By a slow clock, the remaining ones could still be redeemed.
    for n in 0..100 {
        assert_eq!(env.store.take_ticket(&name(n), Timestamp(0)).await.expect("takes"), None, "{n}");
    }
    for n in [500, 600, 609] {
        assert!(env.store.take_ticket(&name(n), Timestamp(10)).await.expect("takes").is_some(), "{n}");
    }
}

pub async fn the_audit_is_paged_newest_first(env: Env) {
    let page = async |project: &ProjectId, before, limit| env.store.audit(project, before, limit).await.expect("reads");
    assert_eq!(page(&project(), None, 10).await, []);
    for at in 1..=9 {
        let whose = if at % 3 == 0 { other() } else { project() };
        env.store.record(&entry(&whose, at)).await.expect("records");
    }
    let whole = page(&project(), None, 100).await;
    let wanted: Vec<_> = [8, 7, 5, 4, 2, 1].map(|at| entry(&project(), at)).into();
    assert_eq!(whole.iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>(), wanted);
    assert!(whole.is_sorted_by(|a, b| a.0 > b.0) && whole[5].0 > 0, "numbers grow: {whole:?}");
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let next = page(&project(), before, 4).await;
        let Some(last) = next.last() else { break };
        before = Some(last.0);
        paged.extend(next);
    }
    assert_eq!(paged, whole);
    assert_eq!(page(&other(), Some(i64::MAX), 1).await[0].1, entry(&other(), 9));
    assert_eq!(page(&project(), Some(i64::MIN), 10).await, []);
    assert_eq!(page(&project(), None, 0).await, []);
}

pub async fn of_many_at_once_one_wins(env: Env) {
    let store: DynStore = env.store.clone();
    tokio::time::timeout(Duration::from_secs(60), check_races(&[store])).await.expect("in time");
}

pub async fn every_audit_entry_has_a_unique_number(env: Env) {
    let store: Arc<_> = env.store.clone();
    let mut tasks = JoinSet::new();
    for at in 0..32 {
        let store = store.clone();
        tasks.spawn(async move { store.record(&entry(&project(), at)).await.expect("records") });
    }
    tasks.join_all().await;
    let page = store.audit(&project(), None, 100).await.expect("reads");
    assert_eq!(page.len(), 32);
    assert!(page.is_sorted_by(|a, b| a.0 > b.0));
    let mut times: Vec<_> = page.iter().map(|(_, entry)| entry.at.0).collect();
    times.sort_unstable();
    assert_eq!(times, (0..32).collect::<Vec<_>>());
}
