//! Several callers at once. What must hold is checked on the log that comes out.

use std::{sync::Arc, time::Duration};

use threadline_core::{CreatedThread, ReadFrom, RunStatus, ThreadKey};
use threadline_store::{CloseOutcome, CloseWhen, StartOutcome};
use tokio::task::JoinSet;

use crate::support::*;

/// Dense (checked by `log`), runs never mixed, no event after a terminal event, records that match the log.
pub async fn check(env: &Env, key: ThreadKey) {
    let log = env.log(key).await;
    let mut runs = env.store.runs(key, None, 100_000).await.expect("runs");
    runs.reverse();
    let mut next = 1;
    for run in &runs {
        assert_eq!(run.first_seq, next, "{run:?} begins where the one before ended");
        let own = &log[run.first_seq as usize - 1..run.last_seq() as usize];
        for (index, (seq, owner, _, event)) in own.iter().enumerate() {
            assert_eq!(owner, run.id.as_str(), "at {seq}");
            let terminal = event.contains("RUN_FINISHED") || event.contains("RUN_ERROR");
            assert!(!terminal || index + 1 == own.len(), "something stands behind the end of {run:?}");
        }
        assert!(run.status.is_active() || run.ended_at.is_some());
        next = run.last_seq() + 1;
    }
    assert_eq!(log.len() as u64 + 1, next, "every event belongs to a run");
    let active = runs.iter().filter(|run| run.status.is_active()).count();
    assert_eq!(active, usize::from(env.head(key).await.active.is_some()));
}

pub async fn a_start_races_the_last_appends(env: Env) {
    let env = Arc::new(env);
    let thread = env.create("t").await;
    let (mut key_wins, mut append_wins) = (0, 0);
    let mut fence = env.start(thread.key, "r0").await.fence;
    for round in 0..120 {
        let key = thread.key;
        env.clock.advance(LEASE);
        let seen = env.head(key).await;
        let append = {
            let env = env.clone();
            tokio::spawn(async move {
                if round % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                env.append(append(key, fence, None, events([1, 2]))).await.is_some()
            })
        };
        let start = {
            let env = env.clone();
            tokio::spawn(async move {
                let mut start = start_run(key, &format!("r{}", round + 1));
                start.closing = Some(closing(&seen, Some(run_error())));
                env.store.start(start).await.expect("answers")
            })
        };
        let (appended, outcome) = (append.await.expect("task"), start.await.expect("task"));
        match outcome {
            StartOutcome::Started(started) => {
                assert!(!appended, "both cannot be: the closing saw the tail without the append");
                key_wins += 1;
                fence = started.run.fence;
            }
            // The append extended the lease, or came in before: the start has to look again.
            StartOutcome::RunActive(..) | StartOutcome::LeaseExpired(..) => {
                assert!(appended);
                append_wins += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(key_wins + append_wins == 120);
    check(&env, thread.key).await;
}

pub async fn closes_race_appends(env: Env) {
    let env = Arc::new(env);
    let (mut closed, mut missed) = (0, 0);
    for round in 0..60 {
        let (key, fence) = env.running(&format!("t{round}"), "r").await;
        let mut tasks = JoinSet::new();
        for n in 0..3_u64 {
            let env = env.clone();
            tasks.spawn(async move { env.append(append(key, fence, n + 1, events([n]))).await.is_some() });
        }
        for _ in 0..2 {
            let env = env.clone();
            tasks.spawn(async move {
                loop {
                    let head = env.head(key).await;
                    if head.active.is_none() {
                        return false;
                    }
                    match env
                        .store
                        .close(key, closing(&head, Some(run_error())), CloseWhen::Always)
                        .await
                        .expect("closes")
                    {
                        CloseOutcome::Closed(_) => return true,
                        CloseOutcome::Missed => tokio::task::yield_now().await,
                        CloseOutcome::Gone => panic!("it is there"),
                    }
                }
            });
        }
        let done = tasks.join_all().await.into_iter().filter(|done| *done).count() as u64;
        let head = env.head(key).await;
        assert_eq!(head.active, None);
        assert_eq!(head.tail, done, "one event for each success: exactly one close, and the appends before it");
        check(&env, key).await;
        if head.tail > 1 { missed += 1 } else { closed += 1 }
    }
    assert_eq!(closed + missed, 60);
}

pub async fn a_batch_commits_beside_a_concurrent_close(env: Env) {
    let env = Arc::new(env);
    for round in 0..25 {
        let mut batch = Vec::new();
        for n in 0..10 {
            let (key, fence) = env.running(&format!("{round} {n}"), "r").await;
            batch.push(append(key, fence, 1, events([1])));
        }
        let (closed, gone) = (batch[3].key, batch[6].key);
        batch[8].fence = threadline_core::Fence(99).into();
        let head = env.head(closed).await;
        let close = {
            let env = env.clone();
            tokio::spawn(
                async move { env.store.close(closed, closing(&head, Some(run_error())), CloseWhen::Always).await },
            )
        };
        let delete = {
            let env = env.clone();
            tokio::spawn(async move { env.store.delete_thread(gone, None).await })
        };
        let answers = env.store.append(&batch).await.expect("appends");
        let close = close.await.expect("task").expect("answers");
        assert!(delete.await.expect("task").expect("answers"));
        for (n, answer) in answers.iter().enumerate() {
            match n {
                3 => assert_eq!(answer.is_some(), matches!(close, CloseOutcome::Missed)),
                6 => {}
                8 => assert!(answer.is_none()),
                _ => assert!(answer.is_some(), "{n}"),
            }
        }
        for n in (0..10).filter(|n| *n != 6) {
            check(&env, batch[n].key).await;
        }
    }
}

pub async fn readers_see_a_growing_log_without_a_seam(env: Env) {
    let env = Arc::new(env);
    let (key, fence) = env.running("t", "r").await;
    let total: u64 = 2_400;
    let writer = {
        let env = env.clone();
        tokio::spawn(async move {
            let mut next = 1;
            while next <= total {
                let size = (1 + next % 13).min(total + 1 - next);
                env.append(append(key, fence, next, events(next..next + size))).await.expect("appended");
                next += size;
            }
        })
    };
    let sealer = {
        let env = env.clone();
        tokio::spawn(async move {
            let mut sealed = 0;
            while env.head(key).await.tail < total {
                sealed += u64::from(env.store.seal(key).await.expect("seals"));
                tokio::task::yield_now().await;
            }
            sealed + u64::from(env.store.seal(key).await.expect("seals"))
        })
    };
    let mut readers = JoinSet::new();
    for max in [1_000_usize, 50, 100_000] {
        let env = env.clone();
        readers.spawn(async move {
            let (mut cursor, mut polls) = (0, 0);
            while cursor < total {
                polls += 1;
                let page = env.store.read(key, ReadFrom::After(cursor), max).await.expect("reads").expect("there");
                assert!(page.slice.last_seq().unwrap_or(cursor) <= page.head.tail, "the head is of the same moment");
                assert!(page.slice.count() > 0 || page.head.tail == cursor, "what is committed is seen");
                for (seq, event, _) in page.slice.events() {
                    cursor += 1;
                    assert_eq!(seq, cursor);
                    assert_eq!(event, format!("{{\"type\":\"X\",\"n\":{seq}}}").as_bytes());
                }
                // Backwards in between: the newest piece must join on to the tail of its own moment.
                let page = env.store.read(key, ReadFrom::Before(u64::MAX), 20).await.expect("reads").expect("there");
                assert_eq!(page.slice.last_seq().unwrap_or(0), page.head.tail);
                assert_eq!(page.slice.count(), page.head.tail.min(20));
                if page.slice.count() == 0 {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            }
            polls
        });
    }
    readers.join_all().await;
    writer.await.expect("writer");
    assert!(sealer.await.expect("sealer") > 0);
    check(&env, key).await;
}

pub async fn cancelled_callers_leave_no_partial_write(env: Env) {
    let env = Arc::new(env);
    let mut keys = Vec::new();
    for n in 0..4 {
        keys.push(env.running(&format!("t{n}"), "r").await);
    }
    for round in 0..150_u64 {
        let tasks: Vec<_> = (0..3)
            .map(|kind| {
                let (env, keys) = (env.clone(), keys.clone());
                tokio::spawn(async move {
                    match kind {
                        0 => {
                            let all: Vec<_> =
                                keys.iter().map(|(key, fence)| append(*key, *fence, None, events([1, 2]))).collect();
                            env.store.append(&all).await.map(drop)
                        }
                        1 => env.store.append(&[append(keys[0].0, keys[0].1, None, events([3]))]).await.map(drop),
                        _ => env.store.create_thread(new_thread(&format!("c{round}"), "u")).await.map(drop),
                    }
                })
            })
            .collect();
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        if round % 5 == 0 {
            tokio::time::sleep(Duration::from_micros(20 * (round % 11))).await;
        }
        for task in tasks {
            task.abort();
        }
    }
    // The store works on, and whatever was begun is whole. The end keeps out what is still under way.
    for (key, fence) in &keys {
        let before = env.head(*key).await.tail;
        let end = env.append(append(*key, *fence, None, finished())).await.expect("appended");
        assert!(end.first_seq > before);
        check(&env, *key).await;
    }
    let count = async |key, what| env.log(key).await.iter().filter(|event| event.3.contains(what)).count();
    let first = count(keys[0].0, "\"n\":2").await;
    for (key, _) in &keys {
        let pairs = count(*key, "\"n\":2").await;
        assert_eq!(pairs, count(*key, "\"n\":1").await);
        // The batch of four is one commit; where several are under way at once, one leaves out the heads of another.
        assert!(pairs == first || env.store.pipelines() > 1);
    }
    let listed = env.list(threadline_core::ListOrder::Created, 50).await;
    for id in listed.iter().filter(|id| id.starts_with('c')) {
        let thread = env.get(id).await.expect("there");
        env.start(thread.key, "r").await;
    }
}

pub async fn creates_race_for_one_id(env: Env) {
    let env = Arc::new(env);
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let env = env.clone();
        tasks.spawn(async move { env.store.create_thread(new_thread("t", &format!("u{n}"))).await.expect("creates") });
    }
    let done = tasks.join_all().await;
    let first = &done[0].thread;
    assert_eq!(done.iter().filter(|made| made.created).count(), 1);
    assert!(done.iter().all(|made| made.thread.key == first.key && made.thread.user == first.user));
    // Starts of one run and of many: one is started, the rest exist or are held.
    let key = first.key;
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let env = env.clone();
        tasks.spawn(async move { env.store.start(start_run(key, &format!("r{}", n % 2))).await.expect("answers") });
    }
    let answers = tasks.join_all().await;
    let count = |wanted: fn(&StartOutcome) -> bool| answers.iter().filter(|answer| wanted(answer)).count();
    assert_eq!(count(|answer| matches!(answer, StartOutcome::Started(_))), 1);
    assert_eq!(count(|answer| matches!(answer, StartOutcome::Exists(..))), 9);
    assert_eq!(count(|answer| matches!(answer, StartOutcome::RunActive(..))), 10);
    assert_eq!(env.store.runs(key, None, 10).await.expect("runs")[0].status, RunStatus::Running);
}

pub async fn marks_race_each_other_and_the_appends(env: Env) {
    let (key, fence) = env.running("t", "r").await;
    env.put(key, fence, 1..=20).await;
    let before = env.get("t").await.expect("there").version;
    let env = Arc::new(env);
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let (env, seq) = (env.clone(), 1 + n * 7 % 20);
        tasks.spawn(async move {
            if n % 4 == 0 {
                env.put(key, fence, [n]).await;
            }
            let marked = env.store.mark_read(key, seq, None).await.expect("marks").expect("is there");
            assert!((seq..=marked.tail).contains(&marked.read_seq), "{seq}: {marked:?}");
        });
    }
    tasks.join_all().await;
    let thread = env.get("t").await.expect("there");
    assert_eq!((thread.read_seq, thread.tail), (20, 30));
    assert!((1..=20).contains(&(thread.version - before)), "a change each time, and only then: {}", thread.version);
}

pub async fn pumps_race_each_other(env: Env) {
    let env = Arc::new(env);
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let env = env.clone();
        tasks.spawn(async move {
            let CreatedThread { thread, .. } =
                env.store.create_thread(new_thread(&format!("t{n}"), "u")).await.expect("creates");
            env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
            if n % 4 == 0 {
                env.store.delete_thread(thread.key, None).await.expect("deletes");
                env.purge(100).await;
            }
            env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
        });
    }
    tasks.join_all().await;
    let page = env.store.feed(&project(), &user("u"), 0, 500).await.expect("feed");
    assert_eq!(page.entries.len(), 40);
    let mut cursors: Vec<u64> = page.entries.iter().map(|entry| entry.cursor).collect();
    assert_eq!(cursors.last(), Some(&page.head.position));
    cursors.dedup();
    assert!(cursors.is_sorted() && cursors.len() == 40);
    assert!(page.head.position <= 50, "each change has one position: {:?}", page.head);
    assert!(env.store.dirty_feeds(10).await.expect("dirty").is_empty());
}
