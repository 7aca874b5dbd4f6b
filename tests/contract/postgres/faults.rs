//! Locks held by others, servers that die or hang, callers that go away.

use std::time::Instant;

use threadline_core::limits::{PG_ANSWER_TIMEOUT, PG_LOCK_TIMEOUT};
use threadline_store::{HeartbeatRequest, StoreError};

use super::*;

#[tokio::test]
async fn a_locked_head_delays_no_other_thread() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let mut running = Vec::new();
    for n in 0..5 {
        running.push(env.running(&format!("t{n}"), "r").await);
    }
    let (held, held_fence) = running[2];
    let mut other = session(&url).await;
    execute(&mut other, &format!("BEGIN; SELECT FROM heads WHERE key = {} FOR UPDATE", held.0)).await;

    let begin = Instant::now();
    for round in 0..3 {
        let batch: Vec<_> = running.iter().map(|(key, fence)| append(*key, *fence, None, events([round]))).collect();
        let answers = env.store.append(&batch).await.expect("appends");
        for (answer, (key, _)) in answers.iter().zip(&running) {
            assert_eq!(answer.is_none(), *key == held, "only the held one is left out");
        }
        let ends: Vec<_> = batch.iter().filter(|append| append.key != running[4].0).cloned().collect();
        assert_eq!(env.store.append(&ends).await.expect("appends").iter().flatten().count(), 3);
    }
    assert!(begin.elapsed() < PG_LOCK_TIMEOUT / 2, "no operation waited: {:?}", begin.elapsed());

    // A single operation waits, but not forever; others continue meanwhile.
    let begin = Instant::now();
    let waiting = async {
        let answer = env.store.append(&[append(held, held_fence, None, events([1]))]).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        assert!(begin.elapsed() >= PG_LOCK_TIMEOUT / 2, "{:?}", begin.elapsed());
    };
    let beats: Vec<_> = running
        .iter()
        .map(|(key, fence)| HeartbeatRequest { key: *key, fence: (*fence).into(), lease: None, epoch: None })
        .collect();
    let beating = async {
        let before = env.head(running[0].0).await.active.expect("active").lease_until;
        env.clock.advance(LEASE / 2);
        let last = running[3];
        let at_first: Vec<_> = beats.iter().filter(|beat| beat.key != last.0).collect();
        // Named twice: the last one has its turn in a second round.
        let twice: Vec<_> = at_first.into_iter().chain(&beats).copied().collect();
        let answer = env.store.heartbeat(&twice).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        for (key, _) in [running[0], last] {
            let after = env.head(key).await.active.expect("active").lease_until;
            assert!(after > before, "those that could be had are extended");
        }
    };
    let others = async {
        for n in 0..10 {
            env.put(running[0].0, running[0].1, [n]).await;
        }
        assert!(begin.elapsed() < PG_LOCK_TIMEOUT, "{:?}", begin.elapsed());
    };
    within(20, async { tokio::join!(waiting, beating, others) }).await;

    execute(&mut other, "ROLLBACK").await;
    assert_eq!(env.put(held, held_fence, [1]).await.first_seq, 1);
    assert!(env.store.heartbeat(&beats).await.expect("beats").iter().all(Option::is_some));
}

#[tokio::test]
async fn one_poisoned_thread_does_not_fail_its_group() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let ((good, good_fence), (bad, bad_fence)) = (env.running("good", "r").await, env.running("bad", "r").await);
    // A row where no row can be: the assertion of the log's key must stop the append.
    execute(&mut session(&url).await, &format!("INSERT INTO log VALUES ({}, 1, 1, 1, 0, 2, '{{}}', NULL)", bad.0))
        .await;
    let group = [append(bad, bad_fence, None, events([1])), append(good, good_fence, None, events([1]))];
    let answers = env.store.append(&group).await.expect("the group");
    assert!(answers[0].is_none() && answers[1].is_some());
    let alone = env.store.append(&group[..1]).await;
    assert!(matches!(alone, Err(StoreError::Corrupt(_))), "{alone:?}");
    assert_eq!((env.head(bad).await.tail, env.head(good).await.tail), (0, 1));
}

#[tokio::test]
async fn a_group_whose_fate_is_unknown_is_not_tried_again() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let ((a, a_fence), (b, b_fence)) = (env.running("a", "r").await, env.running("b", "r").await);
    let group = [append(a, a_fence, None, events([1])), append(b, b_fence, None, events([1]))];
    env.store.append(&group).await.expect("appends");
    // The session ends in the middle of the statement, which is held up at the log.
    let mut other = session(&url).await;
    execute(&mut other, "BEGIN; LOCK TABLE log IN EXCLUSIVE MODE").await;
    let appending = tokio::spawn({
        let (store, group) = (env.store.clone(), group.clone());
        async move { store.append(&group).await }
    });
    let waiting = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()";
    within(10, async { while ask(&url, waiting).await == 0 {} }).await;
    let answer = within(10, appending).await.expect("task");
    execute(&mut other, "ROLLBACK").await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!((env.head(a).await.tail, env.head(b).await.tail), (1, 1));
}

#[tokio::test]
async fn a_start_waits_for_the_holder_of_the_head_and_sees_its_changes() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let thread = env.create("t").await;
    let mut other = session(&url).await;
    let taken = format!(
        "BEGIN; UPDATE heads SET active = TRUE, fence = 1, run = 'x', lease_until = 9e15 WHERE key = {}",
        thread.key.0
    );
    execute(&mut other, &taken).await;
    let record = format!(
        "INSERT INTO runs (key, fence, id, status, first_seq, producer_seq, started_at) VALUES ({}, 1, 'x', 0, 1, 0, 0)",
        thread.key.0
    );
    execute(&mut other, &record).await;
    let start = tokio::spawn({
        let store = env.store.clone();
        async move { store.start(start_run(thread.key, "r")).await.expect("answers") }
    });
    held_up(&url).await;
    execute(&mut other, "COMMIT").await;
    let outcome = start.await.expect("task");
    assert!(
        matches!(&outcome, threadline_store::StartOutcome::RunActive(run, _) if run.id == run_id("x")),
        "{outcome:?}"
    );
}

/// Waits until a statement waits for a lock.
async fn held_up(url: &str) {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    within(10, async {
        while ask(url, waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Each condition of an append is compared with the head that the other transaction left, not with the one that was there
/// when the statement began.
#[tokio::test]
async fn an_append_waits_for_the_holder_of_the_head_and_sees_its_changes() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    for (n, change) in
        ["fence = fence + 1", "active = FALSE", "producer_seq = producer_seq + 1"].into_iter().enumerate()
    {
        let (key, fence) = env.running(&format!("t{n}"), "r").await;
        let mut other = session(&url).await;
        execute(&mut other, &format!("BEGIN; UPDATE heads SET {change} WHERE key = {}", key.0)).await;
        let appending = tokio::spawn({
            let store = env.store.clone();
            async move { store.append(&[append(key, fence, 1, events([1]))]).await.expect("answers") }
        });
        held_up(&url).await;
        execute(&mut other, "COMMIT").await;
        let answer = appending.await.expect("task").pop().flatten();
        assert!(answer.is_none(), "{change}: {answer:?}");
        let stored = format!(
            "SELECT tail + (SELECT count(*) FROM log l WHERE l.key = h.key) FROM heads h WHERE key = {}",
            key.0
        );
        assert_eq!(ask(&url, &stored).await, 0, "{change}");
    }
}

#[tokio::test]
async fn a_server_that_was_killed_is_used_again_once_it_is_back() {
    let server = Postgres::start(&[]);
    let (env, store) = node(&server.fresh_database(), &clock()).await;
    let mut running = Vec::new();
    for n in 0..12 {
        running.push(env.running(&format!("t{n}"), "r").await);
    }
    let everywhere = async || {
        // Side by side, so that many connections are there and in use.
        let all = running.iter().map(|(key, fence)| {
            let store = env.store.clone();
            let one = append(*key, *fence, None, events([1]));
            tokio::spawn(async move { store.append(&[one]).await })
        });
        let mut done = Vec::new();
        for task in all.collect::<Vec<_>>() {
            done.push(task.await.expect("task"));
        }
        done
    };
    let mut acknowledged = everywhere().await.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(acknowledged, 12);
    for _ in 0..2 {
        server.kill();
        assert!(within(10, everywhere()).await.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))));
        assert!(within(10, env.store.heads(&[running[0].0])).await.is_err());
        server.restart();
        // No connection of before the kill is tried any more.
        let answers = within(10, everywhere()).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        acknowledged += answers.len();
    }
    let mut stored = 0;
    for (key, _) in &running {
        stored += env.log(*key).await.len();
    }
    assert_eq!(stored, acknowledged);
    store.close().await;
}

#[tokio::test]
async fn sessions_that_the_server_ended_cost_one_write_and_no_read() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let (key, fence) = env.running("t", "r").await;
    for _ in 0..5 {
        env.head(key).await;
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert!(ask(&url, end).await > 0);
        env.head(key).await;
        // This append may fail, since its outcome is unknown; the next one may not.
        let _unknown = env.store.append(&[append(key, fence, None, events([1]))]).await;
        env.put(key, fence, [2]).await;
    }
    assert!(env.log(key).await.len() >= 5);
}

#[tokio::test]
async fn a_server_that_hangs_is_not_waited_for() {
    let server = Postgres::start(&[]);
    let url = server.fresh_database();
    let (env, store) = node(&url, &clock()).await;
    let (key, fence) = env.running("t", "r").await;
    env.head(key).await;
    let backends = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'threadline'";
    let pids: String = sqlx::query_scalar(backends).fetch_one(&mut session(&url).await).await.expect("SQL");
    let signal = |signal: nix::sys::signal::Signal| {
        for pid in pids.split(' ').map(|pid| pid.parse().expect("a pid")) {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("signals");
        }
    };
    signal(nix::sys::signal::Signal::SIGSTOP);
    let begin = Instant::now();
    let answer = env.store.append(&[append(key, fence, 1, events([1]))]).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert!(begin.elapsed() < PG_ANSWER_TIMEOUT * 2, "{:?}", begin.elapsed());
    // The next one gets a connection of its own; it must not be let in twice by the one that hung.
    let _unknown = within(30, env.store.append(&[append(key, fence, 1, events([1]))])).await;
    signal(nix::sys::signal::Signal::SIGCONT);
    // Whatever the hung session does now, the event is there once.
    env.append(append(key, fence, None, finished())).await.expect("works");
    let texts = env.texts(key).await;
    assert!(texts.iter().filter(|text| text.contains("\"n\":1")).count() == 1, "{texts:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_callers_leave_no_open_transaction() {
    let url = Postgres::shared().fresh_database();
    let (env, _) = node(&url, &clock()).await;
    let env = Arc::new(env);
    let (key, fence) = env.running("t", "r").await;
    for round in 0..200_u64 {
        let task = tokio::spawn({
            let env = env.clone();
            async move {
                match round % 4 {
                    0 => env.store.append(&[append(key, fence, None, events([round]))]).await.map(drop),
                    1 => env.store.create_thread(new_thread(&format!("c{round}"), "u")).await.map(drop),
                    2 => env.store.pump_feed(&project(), &user("u")).await.map(drop),
                    _ => env.store.heads(&[key]).await.map(drop),
                }
            }
        });
        tokio::time::sleep(Duration::from_micros(50 * (round % 20))).await;
        task.abort();
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    for _ in 0..20 {
        assert_eq!(ask(&url, open).await, 0);
    }
    // All connections are still good.
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..50 {
        let env = env.clone();
        tasks.spawn(async move { env.store.create_thread(new_thread(&format!("d{n}"), "u")).await.is_ok() });
    }
    assert!(tasks.join_all().await.iter().all(|made| *made));
}
