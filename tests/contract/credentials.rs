//! Sign-outs, uses of keys, origins of agents, and the audit for readers that follow it.

use threadline_core::{
    ApiKey, AuditEntry, Born, Cutoff, CutoffKind, Digest, KeyId, KeyUse, ProjectId, Scopes, Timestamp,
};

use crate::support::{Env, agent, project};

fn other() -> ProjectId {
    ProjectId::new("other").expect("id")
}

fn cutoff(project: &ProjectId, kind: CutoffKind, subject: u8, not_before: i64, at: i64) -> Cutoff {
    let subject = Digest([subject; 32]);
    let (not_before, at, actor) = (Timestamp(not_before), Timestamp(at), "key:é".to_owned());
    Cutoff { project: project.clone(), kind, subject, not_before, at, actor }
}

fn entry(project: &ProjectId, at: i64) -> AuditEntry {
    let (actor, action, facts) = ("operator".to_owned(), "user.signed-out".to_owned(), format!("{{\"n\":{at}}}"));
    AuditEntry { project: project.clone(), at: Timestamp(at), actor, action, facts }
}

pub async fn a_cutoff_only_moves_forward(env: Env) {
    let put = async |cutoff: &Cutoff| {
        let noted = entry(&cutoff.project, cutoff.at.0);
        env.store.put_cutoff(cutoff, Some(&noted)).await.expect("stores");
    };
    let since = async |at: i64| env.store.cutoffs(Timestamp(at)).await.expect("reads");
    assert!(since(i64::MIN).await.is_empty());
    let first = cutoff(&project(), CutoffKind::User, 1, 10, 100);
    let of_a_key = cutoff(&project(), CutoffKind::Key, 1, 5, 200);
    let foreign = cutoff(&other(), CutoffKind::Project, 1, 7, 150);
    for cutoff in [&first, &of_a_key, &foreign] {
        put(cutoff).await;
    }
    assert_eq!(since(i64::MIN).await, [first.clone(), foreign.clone(), of_a_key.clone()]);
    assert_eq!(since(150).await, [foreign.clone(), of_a_key.clone()]);
    // Neither an equal nor an earlier one changes anything, or has an entry.
    for (not_before, at) in [(10, 300), (9, 301)] {
        put(&cutoff(&project(), CutoffKind::User, 1, not_before, at)).await;
    }
    assert_eq!(since(i64::MIN).await[0], first);
    let later = cutoff(&project(), CutoffKind::User, 1, 11, 400);
    put(&later).await;
    assert_eq!(since(i64::MIN).await, [foreign, of_a_key.clone(), later.clone()]);
    let audited = env.store.audit_after(&project(), 0, 10).await.expect("reads");
    assert_eq!(audited.iter().map(|(_, entry)| entry.at.0).collect::<Vec<_>>(), [100, 200, 400]);
    env.store.forget_cutoffs(Timestamp(200)).await.expect("removes");
    assert_eq!(since(i64::MIN).await, [of_a_key, later]);
}

pub async fn a_key_is_found_by_its_id_and_shows_its_last_use(env: Env) {
    let id = KeyId::new("ké").expect("id");
    let key = ApiKey {
        id: id.clone(),
        project: project(),
        scopes: Scopes::USER,
        created_at: Timestamp(5),
        expires_at: None,
        revoked_at: None,
        born: Born::Authenticated,
        made_by: Some(KeyId::new("mother").expect("id")),
        last_used: None,
    };
    let named = async |project: &ProjectId| env.store.key_named(project, &id).await.expect("reads");
    assert_eq!(named(&project()).await, None);
    assert!(env.store.put_key(&key, &Digest([1; 32]), None).await.expect("stores"));
    assert_eq!((named(&project()).await, named(&other()).await), (Some(key.clone()), None));
    let note = async |at: i64, from: Option<&str>| {
        let used = |project| (project, id.clone(), KeyUse { at: Timestamp(at), from: from.map(str::to_owned) });
        env.store.note_uses(&[used(project()), used(other())]).await.expect("notes");
        named(&project()).await.expect("a key").last_used.map(|used| (used.at.0, used.from))
    };
    assert_eq!(note(20, None).await, Some((20, None)));
    assert_eq!(note(30, Some("192.0.2.1")).await, Some((30, Some("192.0.2.1".to_owned()))));
    assert_eq!(note(25, None).await, Some((30, Some("192.0.2.1".to_owned()))), "a node was late");
    let revoked = env.store.revoke_key(&project(), &id, Timestamp(40), None).await.expect("revokes").expect("a key");
    assert_eq!((revoked.made_by, revoked.last_used.map(|used| used.at.0)), (key.made_by, Some(30)));
}

pub async fn the_audit_is_read_forward_and_old_entries_go(env: Env) {
    for at in [10, 20, 30, 40] {
        env.store.record(&entry(&project(), at)).await.expect("records");
        env.store.record(&entry(&other(), at)).await.expect("records");
    }
    let after = async |project: &ProjectId, after, limit| {
        let page = env.store.audit_after(project, after, limit).await.expect("reads");
        assert!(page.is_sorted_by_key(|(number, _)| *number));
        page
    };
    let all = after(&project(), i64::MIN, 10).await;
    let times = |page: &[(i64, AuditEntry)]| page.iter().map(|(_, entry)| entry.at.0).collect::<Vec<_>>();
    assert_eq!(times(&all), [10, 20, 30, 40]);
    assert_eq!(times(&after(&project(), all[1].0, 1).await), [30]);
    assert!(after(&project(), all[3].0, 10).await.is_empty());
    let forget =
        async |before, limit| env.store.forget_audit(&project(), Timestamp(before), limit).await.expect("removes");
    assert!(forget(30, 1).await, "one of two");
    assert!(!forget(30, 10).await);
    assert_eq!(times(&after(&project(), i64::MIN, 10).await), [30, 40]);
    assert_eq!(times(&after(&other(), i64::MIN, 10).await), [10, 20, 30, 40]);
    // Numbers are not given again.
    env.store.record(&entry(&project(), 50)).await.expect("records");
    assert!(after(&project(), all[3].0, 10).await[0].0 > all[3].0);
}

pub async fn the_origin_of_an_agent_is_changed_by_who_saw_it(env: Env) {
    let put = async |origin: &str, seen: Option<&str>| {
        env.store
            .put_agent_origin(&project(), &agent("a"), origin, seen, Some(&entry(&project(), 9)))
            .await
            .expect("answers")
    };
    let found = async || env.store.agent_origin(&project(), &agent("a")).await.expect("reads");
    assert_eq!(found().await, None);
    assert!(put("https://a", None).await);
    assert!(!put("https://b", None).await && !put("https://b", Some("https://c")).await);
    assert_eq!(found().await.as_deref(), Some("https://a"));
    assert!(put("https://b", Some("https://a")).await);
    env.store.put_agent(&project(), &agent("a"), "{}", Some(&entry(&project(), 1))).await.expect("stores");
    assert!(env.store.delete_agent(&project(), &agent("a"), Some(&entry(&project(), 2))).await.expect("deletes"));
    assert!(!env.store.delete_agent(&project(), &agent("a"), Some(&entry(&project(), 3))).await.expect("deletes"));
    assert_eq!(found().await.as_deref(), Some("https://b"), "the origin outlives the agent");
    let audited = env.store.audit_after(&project(), 0, 10).await.expect("reads");
    assert_eq!(audited.iter().map(|(_, entry)| entry.at.0).collect::<Vec<_>>(), [9, 9, 1, 2]);
}
