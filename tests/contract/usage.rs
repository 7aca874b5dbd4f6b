//! Sums of what users and projects have stored.

use std::time::Duration;

use threadline_core::{
    ProjectId, ThreadKey, Usage, UsageOwner, UserId,
    limits::{USAGE_AGE, USAGE_FIRST_COUNT},
};
use threadline_store::{JobEnd, JobKind, JobSubject, Purging, PutJob};

use crate::support::{Env, append, closing, events, new_thread, project, user};

fn usage(bytes: i64, threads: i64) -> Usage {
    Usage { bytes, threads }
}

fn of_user(name: &str) -> UsageOwner {
    UsageOwner::user(&project(), &user(name))
}

fn whole() -> UsageOwner {
    UsageOwner::project(&project())
}

fn change(name: &str, bytes: i64, threads: i64) -> (ProjectId, UserId, Usage) {
    (project(), user(name), usage(bytes, threads))
}

impl Env {
    async fn sum(&self, owner: &UsageOwner) -> Option<Usage> {
        self.store.usage(owner).await.expect("reads")
    }

    /// Sums of a user and of the project.
    async fn sums(&self, name: &str) -> [Option<Usage>; 2] {
        [self.sum(&of_user(name)).await, self.sum(&whole()).await]
    }

    async fn add(&self, changes: &[(ProjectId, UserId, Usage)]) -> Vec<(UsageOwner, Usage)> {
        let mut changed = self.store.add_usage(changes).await.expect("adds");
        changed.sort_by(|one, other| one.0.cmp(&other.0));
        changed
    }

    /// A thread of a user with this many events, and their bytes.
    async fn filled(&self, id: &str, owner: &str, count: u64) -> (ThreadKey, i64) {
        let thread = self.store.create_thread(new_thread(id, owner)).await.expect("creates").thread;
        let fence = self.start(thread.key, "r").await.fence;
        let mut bytes = 0;
        for n in 0..count {
            let events = events([n]);
            bytes += events.body().len() as i64;
            self.append(append(thread.key, fence, None, events)).await.expect("appends");
        }
        (thread.key, bytes)
    }
}

pub async fn sums_are_added_for_users_and_their_project(env: Env) {
    assert_eq!(env.sums("ann").await, [None, None]);
    for (id, owner) in [("t", "ann"), ("u", "bob")] {
        env.store.create_thread(new_thread(id, owner)).await.expect("creates");
    }
    let changed = env.add(&[change("ann", 10, 1), change("bob", 5, 1)]).await;
    assert_eq!(changed, [(whole(), usage(15, 2)), (of_user("ann"), usage(10, 1)), (of_user("bob"), usage(5, 1))]);
    assert_eq!(env.add(&[change("ann", 7, -3)]).await, [(whole(), usage(22, -1)), (of_user("ann"), usage(17, -2))]);
    assert_eq!(env.sums("ann").await, [Some(usage(17, -2)), Some(usage(22, -1))]);
    assert_eq!(env.sums("bob").await[0], Some(usage(5, 1)));
    // Nobody's threads: the user was erased, or never had any.
    assert_eq!(env.add(&[change("carl", 3, 1)]).await, []);
    assert_eq!(env.sums("carl").await, [None, Some(usage(22, -1))]);
    // A thread is enough for a sum of nothing, which is then counted.
    env.store.create_thread(new_thread("v", "dora")).await.expect("creates");
    assert_eq!(env.add(&[change("dora", 0, 0)]).await, [(whole(), usage(22, -1)), (of_user("dora"), Usage::NONE)]);
}

pub async fn nodes_that_add_at_once_lose_nothing(env: Env) {
    for n in 0..4 {
        env.store.create_thread(new_thread(&format!("t{n}"), &format!("u{n}"))).await.expect("creates");
    }
    let mut nodes = tokio::task::JoinSet::new();
    for node in 0..6 {
        let store = env.store.clone();
        nodes.spawn(async move {
            for round in 0..10 {
                // Each of them in another order.
                let mut changes: Vec<_> = (0..4).map(|n| change(&format!("u{n}"), 3, 1)).collect();
                changes.rotate_left((node + round) % 4);
                store.add_usage(&changes).await.expect("adds");
                if round % 5 == 0 {
                    store.count_usage(&whole()).await.expect("counts");
                }
            }
        });
    }
    nodes.join_all().await;
    for n in 0..4 {
        assert_eq!(env.sums(&format!("u{n}")).await, [Some(usage(180, 60)), Some(usage(720, 240))]);
    }
}

pub async fn a_purge_subtracts_what_it_removes(env: Env) {
    let (kept, kept_bytes) = env.filled("kept", "ann", 3).await;
    let (key, bytes) = env.filled("t", "ann", 40).await;
    env.add(&[change("ann", kept_bytes + bytes, 2)]).await;
    env.store.delete_thread(key, None).await.expect("deletes");
    while env.store.purge(key, 16).await.expect("purges") == Purging::More {}
    assert_eq!(env.sums("ann").await, [Some(usage(kept_bytes, 1)); 2]);
    // A repetition subtracts nothing.
    assert_eq!(env.store.purge(key, 16).await.expect("purges"), Purging::Done);
    assert_eq!(env.sums("ann").await, [Some(usage(kept_bytes, 1)); 2]);
    // The trash frees nothing; its end does.
    env.clock.advance(Duration::from_secs(3_600));
    let head = env.head(kept).await;
    env.close(kept, closing(&head, None)).await;
    env.clock.advance(Duration::from_secs(3_600));
    let minute = Duration::from_secs(60);
    let trashed = env.store.trash(&project(), &[kept], env.clock.now(), minute).await.expect("trashes");
    assert_eq!(trashed, [kept]);
    assert_eq!(env.store.count_usage(&of_user("ann")).await.expect("counts"), usage(kept_bytes, 1));
    env.clock.advance(minute);
    assert!(env.store.discard(kept, false).await.expect("discards"));
    while env.store.purge(kept, 16).await.expect("purges") == Purging::More {}
    assert_eq!(env.sums("ann").await, [Some(Usage::NONE); 2]);
}

pub async fn a_count_corrects_a_sum(env: Env) {
    let (_, bytes) = env.filled("t", "ann", 20).await;
    let (_, more) = env.filled("u", "ann", 3).await;
    let (_, others) = env.filled("v", "bob", 2).await;
    env.add(&[change("ann", 1_000_000, -7), change("bob", others, 1)]).await;
    assert_eq!(env.store.count_usage(&of_user("ann")).await.expect("counts"), usage(bytes + more, 2));
    assert_eq!(env.sums("ann").await, [Some(usage(bytes + more, 2)), Some(usage(bytes + more + others, 3))]);
    // Counting again finds nothing to correct.
    assert_eq!(env.store.count_usage(&of_user("ann")).await.expect("counts"), usage(bytes + more, 2));
    assert_eq!(env.store.count_usage(&whole()).await.expect("counts"), usage(bytes + more + others, 3));
    // A sum of which nothing was ever added.
    let (_, lost) = env.filled("w", "carl", 5).await;
    assert_eq!(env.store.count_usage(&of_user("carl")).await.expect("counts"), usage(lost, 1));
    // A user who has nothing has no row.
    assert_eq!(env.store.count_usage(&of_user("nobody")).await.expect("counts"), Usage::NONE);
    assert_eq!(env.sums("nobody").await, [None, Some(usage(bytes + more + others + lost, 4))]);
}

pub async fn sums_are_due_once_a_day(env: Env) {
    env.store.create_thread(new_thread("t", "ann")).await.expect("creates");
    env.add(&[change("ann", 0, 1)]).await;
    let due = async || {
        let mut due = env.store.due_usage(USAGE_AGE, 10).await.expect("looks");
        due.sort();
        due
    };
    assert_eq!(due().await, []);
    // A new sum is counted soon.
    env.clock.advance(USAGE_FIRST_COUNT);
    assert_eq!(due().await, [whole(), of_user("ann")]);
    assert_eq!(env.store.due_usage(USAGE_AGE, 1).await.expect("looks").len(), 1);
    env.store.count_usage(&of_user("ann")).await.expect("counts");
    assert_eq!(due().await, [whole()]);
    env.store.count_usage(&whole()).await.expect("counts");
    assert_eq!(due().await, []);
    env.clock.advance(USAGE_AGE - Duration::from_millis(1));
    env.add(&[change("ann", 5, 0)]).await;
    assert_eq!(due().await, []);
    env.clock.advance(Duration::from_millis(1));
    assert_eq!(due().await, [whole(), of_user("ann")]);
}

pub async fn nothing_is_counted_of_an_erased_user(env: Env) {
    let (key, bytes) = env.filled("t", "ann", 10).await;
    env.filled("u", "bob", 1).await;
    // Half of it is written, the rest comes from another node when the user is gone.
    env.add(&[change("ann", bytes / 2, 0), change("bob", 20, 1)]).await;
    env.store.delete_thread(key, None).await.expect("deletes");
    while env.store.purge(key, 512).await.expect("purges") == Purging::More {}
    env.store.forget_user(&project(), &user("ann")).await.expect("forgets");
    assert_eq!(env.sums("ann").await, [None, Some(usage(20, 1))]);
    assert_eq!(env.add(&[change("ann", bytes - bytes / 2, 1)]).await, []);
    assert_eq!(env.sums("ann").await, [None, Some(usage(20, 1))]);
}

pub async fn a_pass_over_the_sums_is_a_job_of_the_store(env: Env) {
    let put = || env.store.put_job(JobKind::Usage, &JobSubject::Store, Duration::ZERO, PutJob::IfAbsent);
    assert!(put().await.expect("puts"));
    assert!(!put().await.expect("is there"));
    let jobs = env.store.take_jobs(JobKind::Usage, 5).await.expect("takes");
    assert_eq!(jobs.iter().map(|job| &job.subject).collect::<Vec<_>>(), [&JobSubject::Store]);
    env.store.end_job(&jobs[0], JobEnd::Later(Duration::from_secs(60))).await.expect("ends");
    assert!(env.store.take_jobs(JobKind::Usage, 5).await.expect("takes").is_empty());
}
