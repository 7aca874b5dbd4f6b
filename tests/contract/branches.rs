//! Forks and the branches of a conversation.

use std::time::Duration;

use threadline_core::{Branch, Epoch, Family, FeedChange, ForkedFrom, ListOrder, Thread, ThreadKey};
use threadline_store::{Arrival, MovedThread, Published, Staging};

use crate::{support::*, transfer::taken_out};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The fork of a thread at its tail, as the engine stages it.
async fn fork_of(env: &Env, parent: ThreadKey, id: &str) -> (ThreadKey, MovedThread, Arrival) {
    let (mut moved, part) = taken_out(env, parent).await;
    let epoch = moved.thread.epoch;
    let family = moved.thread.branch.family.unwrap_or(Family(epoch.to_i64()));
    let forked_from = Some(ForkedFrom { thread: moved.thread.id.clone(), epoch, seq: moved.thread.tail });
    moved.thread = Thread {
        id: thread_id(id),
        epoch: Epoch::generate(),
        version: 1,
        branch: Branch { family: Some(family), listed: false, forked_from },
        ..moved.thread
    };
    let Staging::Staged(key) = env.store.stage(&moved, part).await.expect("stages") else { panic!("{id} is there") };
    (key, moved, Arrival::Fork { parent, epoch })
}

async fn forked(env: &Env, parent: ThreadKey, id: &str) -> Thread {
    let (key, moved, arrival) = fork_of(env, parent, id).await;
    assert_eq!(env.store.publish(key, &moved, arrival).await.expect("publishes"), Published::Done);
    env.get(id).await.expect("is there")
}

/// A thread with a run that has ended.
async fn used(env: &Env, id: &str) -> ThreadKey {
    let (key, fence) = env.running(id, "r").await;
    env.put(key, fence, 0..3).await;
    env.append(append(key, fence, None, finished())).await.expect("ends");
    key
}

async fn chosen(env: &Env, thread: &Thread, key: Option<ThreadKey>) -> bool {
    let family = thread.branch.family.expect("a family");
    env.store.list_branch(&thread.project, &thread.user, family, key).await.expect("lists")
}

/// Ids of the branches with whether they are listed, oldest first.
async fn branches(env: &Env, thread: &Thread) -> Vec<(String, bool)> {
    let family = thread.branch.family.expect("a family");
    let branches = env.store.branches(&thread.project, &thread.user, family, 10).await.expect("reads");
    branches.iter().map(|branch| (branch.id.to_string(), branch.branch.listed)).collect()
}

/// Threads as the feed shows them now: true for one that is there.
async fn feed(env: &Env) -> Vec<(String, bool)> {
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let page = env.store.feed(&project(), &user("u"), 0, 100).await.expect("feed");
    let mut entries: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (entry.thread_id.to_string(), matches!(entry.change, FeedChange::Upsert(_))))
        .collect();
    entries.sort();
    entries
}

fn named(pairs: &[(&str, bool)]) -> Vec<(String, bool)> {
    pairs.iter().map(|(id, flag)| ((*id).to_owned(), *flag)).collect()
}

pub async fn a_fork_has_the_log_of_its_parent_and_a_life_of_its_own(env: Env) {
    let parent = used(&env, "t").await;
    let before = env.log(parent).await;
    let fork = forked(&env, parent, "f").await;
    assert_eq!(env.log(fork.key).await, before);
    let of_parent = env.get("t").await.expect("is there");
    assert_ne!(fork.epoch, of_parent.epoch);
    assert_eq!((fork.branch.family, fork.last_run.as_ref()), (of_parent.branch.family, of_parent.last_run.as_ref()));
    let origin = fork.branch.forked_from.clone().expect("an origin");
    assert_eq!((origin.thread.as_str(), origin.epoch, origin.seq), ("t", of_parent.epoch, of_parent.tail));
    // Each goes on alone, and outlives the other.
    let run = env.start(fork.key, "own").await;
    assert!(run.fence > env.head(parent).await.fence);
    env.put(fork.key, run.fence, 10..12).await;
    assert_eq!(env.log(parent).await, before);
    assert!(env.store.delete_thread(parent, None).await.expect("deletes"));
    while env.purge(3).await {}
    assert_eq!(env.log(fork.key).await[..before.len()], before);
    assert_eq!(env.get("f").await.expect("is there").branch, fork.branch);
}

pub async fn a_fork_needs_its_parent_as_it_was_read(env: Env) {
    let parent = used(&env, "t").await;
    let (key, moved, arrival) = fork_of(&env, parent, "f").await;
    let Arrival::Fork { parent, .. } = arrival else { unreachable!() };
    let other = Arrival::Fork { parent, epoch: Epoch::generate() };
    assert_eq!(env.store.publish(key, &moved, other).await.expect("answers"), Published::Gone);
    assert!(env.store.delete_thread(parent, None).await.expect("deletes"));
    assert_eq!(env.store.publish(key, &moved, arrival).await.expect("answers"), Published::Gone);
    assert!(env.get("f").await.is_none());
    env.store.unstage(key).await.expect("gives up");
}

pub async fn lists_and_feeds_show_one_branch_of_a_conversation(env: Env) {
    let parent = used(&env, "t").await;
    let beside = used(&env, "beside").await;
    let one = forked(&env, parent, "one").await;
    // A fork is not listed before it is chosen.
    assert_eq!(branches(&env, &one).await, named(&[("t", true), ("one", false)]));
    assert_eq!(feed(&env).await, named(&[("beside", true), ("one", false), ("t", true)]));
    assert!(chosen(&env, &one, Some(one.key)).await);
    assert!(!chosen(&env, &one, Some(one.key)).await, "it is listed already");
    let two = forked(&env, one.key, "two").await;
    assert!(chosen(&env, &two, Some(two.key)).await);
    assert_eq!(branches(&env, &one).await, named(&[("t", false), ("one", false), ("two", true)]));
    let mut listed = env.list(ListOrder::Created, 10).await;
    listed.sort();
    assert_eq!(listed, ["beside", "two"]);
    assert_eq!(feed(&env).await, named(&[("beside", true), ("one", false), ("t", false), ("two", true)]));
    assert!(chosen(&env, &two, Some(parent)).await);
    assert_eq!(feed(&env).await, named(&[("beside", true), ("one", false), ("t", true), ("two", false)]));
    assert!(!chosen(&env, &two, Some(beside)).await, "no branch of the conversation");
    // Without a key the listed one stays, and else the one used last is listed.
    assert!(!chosen(&env, &two, None).await);
    env.clock.advance(Duration::from_secs(1));
    let run = env.start(one.key, "newer").await;
    env.append(append(one.key, run.fence, None, finished())).await.expect("ends");
    assert!(env.store.delete_thread(parent, None).await.expect("deletes"));
    assert!(chosen(&env, &two, None).await);
    assert_eq!(branches(&env, &one).await, named(&[("one", true), ("two", false)]));
}

pub async fn of_concurrent_choices_one_branch_is_listed(env: Env) {
    let parent = used(&env, "t").await;
    let mut members = vec![forked(&env, parent, "one").await, forked(&env, parent, "two").await];
    members.push(env.get("t").await.expect("is there"));
    for round in 0..5 {
        let mut choices = tokio::task::JoinSet::new();
        for member in &members {
            let (store, member) = (env.store.clone(), member.clone());
            choices.spawn(async move {
                let family = member.branch.family.expect("a family");
                store.list_branch(&member.project, &member.user, family, Some(member.key)).await.expect("lists")
            });
        }
        choices.join_all().await;
        let listed = branches(&env, &members[0]).await.into_iter().filter(|branch| branch.1).count();
        assert_eq!(listed, 1, "round {round}");
    }
}

pub async fn a_branch_is_idle_with_all_of_its_conversation(env: Env) {
    let parent = used(&env, "t").await;
    let fork = forked(&env, parent, "f").await;
    env.clock.advance(2 * DAY);
    let run = env.start(fork.key, "own").await;
    env.append(append(fork.key, run.fence, None, finished())).await.expect("ends");
    let before = env.clock.now().minus(DAY);
    assert_eq!(env.store.count_idle(&project(), before, 10).await.expect("counts"), 0);
    let idle = env.store.idle_threads(&project(), before, None, 10).await.expect("reads");
    assert!(idle.threads.is_empty());
    assert!(env.store.trash(&project(), &[parent], before, DAY).await.expect("trashes").is_empty());
    env.clock.advance(2 * DAY);
    let before = env.clock.now().minus(DAY);
    assert_eq!(env.store.count_idle(&project(), before, 10).await.expect("counts"), 2);
    let trashed = env.store.trash(&project(), &[parent, fork.key], before, DAY).await.expect("trashes");
    assert_eq!(trashed, [parent, fork.key]);
}
