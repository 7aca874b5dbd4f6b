//! The row of a thread has the state of its newest run, and lists are filtered by it.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    AgentId, FeedChange, LastRun, ListOrder, NewThread, NodeId, RunStatus, Thread, ThreadKey, ThreadPatch,
    ThreadStatus, Timestamp,
};
use threadline_store::{ListThreads, StartRun, StopOutcome, TakeTurn, memory::MemoryStore};

use crate::support::*;

const STATUSES: [ThreadStatus; 3] = [ThreadStatus::Running, ThreadStatus::Failed, ThreadStatus::Idle];

fn last(run: &str, status: RunStatus, error_code: Option<&str>, ended_at: Option<Timestamp>) -> Option<LastRun> {
    Some(LastRun { id: run_id(run), status, error_code: error_code.map(Into::into), ended_at })
}

/// The thread, which every read shows with the same state of its newest run: that of the run's record.
async fn shown(env: &Env, id: &str) -> Thread {
    let thread = env.get(id).await.expect("there");
    let newest = env.store.runs(thread.key, None, 1).await.expect("runs");
    assert_eq!(thread.last_run, newest.first().map(LastRun::from), "{id}");
    assert_eq!(
        thread.active_run.as_ref().map(LastRun::from),
        thread.last_run.clone().filter(|run| run.status.is_active())
    );
    let listed = env.store.list_threads(ListThreads { include_archived: true, ..list(100) }).await.expect("lists");
    assert_eq!(listed.threads.into_iter().find(|listed| listed.key == thread.key).as_ref(), Some(&thread));
    env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
    let page = env.store.feed(&project(), &user("u"), 0, 100).await.expect("the feed");
    let fed = page.entries.into_iter().find(|entry| entry.thread_id == thread.id).expect("an entry");
    assert_eq!(fed.change, FeedChange::Upsert(Box::new(thread.clone())));
    thread
}

pub async fn the_row_follows_the_newest_run(env: Env) {
    let step = || env.clock.advance(Duration::from_millis(7));
    let key = env.create("t").await.key;
    assert_eq!((shown(&env, "t").await.last_run, shown(&env, "t").await.status()), (None, ThreadStatus::Idle));

    let fence = env.start(key, "fails").await.fence;
    let running = shown(&env, "t").await;
    assert_eq!(running.last_run, last("fails", RunStatus::Running, None, None));
    step();
    env.put(key, fence, [1]).await;
    assert_eq!(shown(&env, "t").await.last_run, running.last_run);
    assert_eq!(shown(&env, "t").await.version, running.version, "an append does not write the row");
    env.append(append(key, fence, None, run_error())).await.expect("ends");
    let failed = shown(&env, "t").await;
    assert_eq!(failed.last_run, last("fails", RunStatus::Error, Some("producer-failed"), Some(env.clock.now())));
    assert_eq!(failed.status(), ThreadStatus::Failed);

    step();
    let fence = env.start(key, "stops").await.fence;
    // The new run replaces every field of the run before.
    assert_eq!(shown(&env, "t").await.last_run, last("stops", RunStatus::Running, None, None));
    let asked = env.store.request_stop(key, &run_id("stops"), None, true).await.expect("asks");
    assert!(matches!(asked, StopOutcome::Asked(..)), "{asked:?}");
    assert_eq!(shown(&env, "t").await.last_run, last("stops", RunStatus::Running, None, None));
    env.append(append(key, fence, None, finished())).await.expect("ends");
    let stopped = shown(&env, "t").await;
    assert_eq!(stopped.last_run, last("stops", RunStatus::Stopped, None, Some(env.clock.now())));
    assert_eq!(stopped.status(), ThreadStatus::Idle);

    step();
    let fence = env.start(key, "abandoned").await.fence;
    assert!(env.store.release(key, fence, None).await.expect("releases"));
    assert_eq!(shown(&env, "t").await.last_run, last("abandoned", RunStatus::Finishing, None, None));
    env.close(key, closing(&env.head(key).await, None)).await;
    let abandoned = shown(&env, "t").await;
    assert_eq!(abandoned.last_run, last("abandoned", RunStatus::Abandoned, None, Some(env.clock.now())));
    assert_eq!(abandoned.status(), ThreadStatus::Failed);

    step();
    env.start(key, "lapses").await;
    env.clock.advance(LEASE);
    // The next start closes the run, and is the newest one.
    let takes = closing(&env.head(key).await, Some(run_error()));
    env.started(StartRun { closing: Some(takes), ..start_run(key, "next") }).await;
    assert_eq!(shown(&env, "t").await.last_run, last("next", RunStatus::Running, None, None));
    step();
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    let closed = last("next", RunStatus::Error, Some("producer-failed"), Some(env.clock.now()));
    assert_eq!(shown(&env, "t").await.last_run, closed);

    step();
    env.started(StartRun { events: Some(finished()), ..start_run(key, "whole") }).await;
    assert_eq!(shown(&env, "t").await.last_run, last("whole", RunStatus::Finished, None, Some(env.clock.now())));
    step();
    env.started(StartRun { events: Some(run_error()), ..start_run(key, "failed whole") }).await;
    let whole = last("failed whole", RunStatus::Error, Some("producer-failed"), Some(env.clock.now()));
    assert_eq!(shown(&env, "t").await.last_run, whole);
    // A change of the thread leaves it as it is.
    step();
    let thread = env.get("t").await.expect("there");
    env.store.edit_thread(key, thread.version, ThreadPatch::default(), None).await.expect("edits").expect("edited");
    assert_eq!(shown(&env, "t").await.last_run, whole);
}

pub async fn runs_that_end_in_one_commit_end_each_in_its_row(env: Env) {
    let mut batch = Vec::new();
    for id in ["fails", "finishes", "stops", "continues"] {
        let (key, fence) = env.running(id, "r").await;
        let events = match id {
            "fails" => run_error(),
            "continues" => events([1]),
            _ => finished(),
        };
        if id == "stops" {
            env.store.request_stop(key, &run_id("r"), None, true).await.expect("asks");
        }
        batch.push(append(key, fence, None, events));
    }
    env.clock.advance(Duration::from_millis(7));
    assert!(env.store.append(&batch).await.expect("appends").iter().all(Option::is_some));
    let now = Some(env.clock.now());
    assert_eq!(shown(&env, "fails").await.last_run, last("r", RunStatus::Error, Some("producer-failed"), now));
    assert_eq!(shown(&env, "finishes").await.last_run, last("r", RunStatus::Finished, None, now));
    assert_eq!(shown(&env, "stops").await.last_run, last("r", RunStatus::Stopped, None, now));
    assert_eq!(shown(&env, "continues").await.last_run, last("r", RunStatus::Running, None, None));
}

pub async fn a_taken_turn_stays_the_newest_run(env: Env) {
    let key = env.create("t").await.key;
    env.started(StartRun { turn: Some(turn()), ..start_run(key, "driven") }).await;
    let head = env.head(key).await;
    let take = TakeTurn {
        key,
        run: run_id("driven"),
        fence: head.write_fence(),
        tail: head.tail,
        events: None,
        driver: NodeId(2),
        futile: 0,
        input: None,
    };
    env.store.take_turn(take).await.expect("takes").expect("taken");
    assert_eq!(shown(&env, "t").await.last_run, last("driven", RunStatus::Running, None, None));
    env.close(key, closing(&env.head(key).await, Some(run_error()))).await;
    assert_eq!(shown(&env, "t").await.status(), ThreadStatus::Failed);
}

pub async fn the_feed_reports_start_and_end_with_the_state(env: Env) {
    let key = env.create("t").await.key;
    let news = async |after: u64| {
        env.store.pump_feed(&project(), &user("u")).await.expect("pumps");
        let page = env.store.feed(&project(), &user("u"), after, 10).await.expect("the feed");
        let runs = page.entries.into_iter().map(|entry| match entry.change {
            FeedChange::Upsert(thread) => thread.last_run,
            FeedChange::Delete => panic!("it is there"),
        });
        (page.head.position, runs.collect::<Vec<_>>())
    };
    let (made, runs) = news(0).await;
    assert_eq!(runs, [None]);
    let fence = env.start(key, "r").await.fence;
    let (began, runs) = news(made).await;
    assert_eq!(runs, [last("r", RunStatus::Running, None, None)]);
    env.put(key, fence, [1]).await;
    assert_eq!(news(began).await, (began, Vec::new()), "an append is no news of the list");
    env.append(append(key, fence, None, run_error())).await.expect("ends");
    let ended = last("r", RunStatus::Error, Some("producer-failed"), Some(env.clock.now()));
    assert_eq!(news(began).await.1, [ended]);
}

/// A thread in the state that a number stands for.
async fn in_state(env: &Env, id: &str, state: u64, agent: Option<AgentId>) -> ThreadKey {
    let new = NewThread { agent, ..new_thread(id, "u") };
    let key = env.store.create_thread(new).await.expect("creates").thread.key;
    let whole = |events| StartRun { events: Some(events), ..start_run(key, "whole") };
    match state {
        0 => {}
        1 => drop(env.start(key, "r").await),
        2 => drop(env.started(whole(finished())).await),
        3 => drop(env.started(whole(run_error())).await),
        4 => {
            env.start(key, "r").await;
            env.close(key, closing(&env.head(key).await, None)).await;
        }
        5 => {
            env.started(whole(run_error())).await;
            let fence = env.start(key, "released").await.fence;
            env.store.release(key, fence, None).await.expect("releases");
        }
        _ => {
            env.started(whole(run_error())).await;
            env.started(StartRun { events: Some(finished()), ..start_run(key, "well") }).await;
        }
    }
    key
}

pub async fn lists_are_filtered_by_status(env: Env) {
    for n in 0..28 {
        let id = format!("{:02}", (n * 11) % 28);
        in_state(&env, &id, n % 7, (n % 14 < 7).then(|| agent("a"))).await;
        // Some are of the same moment, so that the id decides.
        if n % 3 == 0 {
            env.clock.advance(Duration::from_millis(1));
        }
        if n % 5 == 0 {
            let thread = env.get(&id).await.expect("there");
            let patch = ThreadPatch { archived: Some(true), ..ThreadPatch::default() };
            env.store.edit_thread(thread.key, thread.version, patch, None).await.expect("edits").expect("edited");
        }
    }
    in_state(&env, "deleted", 3, None).await;
    let deleted = env.get("deleted").await.expect("there").key;
    assert!(env.store.delete_thread(deleted, None).await.expect("deletes"));
    let mut other = new_thread("other", "v");
    other.claimed = false;
    env.start(env.store.create_thread(other).await.expect("creates").thread.key, "r").await;

    for order in [ListOrder::Recent, ListOrder::Created] {
        for (include_archived, agent) in [(true, None), (false, None), (true, Some(agent("a")))] {
            let all = ListThreads { order, include_archived, agent, ..list(100) };
            let whole = env.store.list_threads(all.clone()).await.expect("lists").threads;
            let mut found = 0;
            for status in STATUSES {
                let wanted: Vec<_> = whole.iter().filter(|thread| thread.status() == status).cloned().collect();
                assert!(wanted.len() > 1, "{status:?}");
                for limit in [1, 2, 3, 100] {
                    let (mut seen, mut after) = (Vec::new(), None);
                    loop {
                        let list = ListThreads { status: Some(status), after, limit, ..all.clone() };
                        let page = env.store.list_threads(list).await.expect("lists");
                        assert!(page.threads.len() == limit || page.next.is_none(), "only the last page is short");
                        seen.extend(page.threads);
                        after = page.next;
                        if after.is_none() {
                            break;
                        }
                    }
                    assert_eq!(seen, wanted, "{order:?} {status:?} {limit}");
                }
                found += wanted.len();
            }
            assert_eq!(found, whole.len());
        }
    }
}

/// Between two pages, threads change their state.
pub async fn a_filtered_list_repeats_and_skips_no_thread_that_stays(env: Env) {
    let mut keys = Vec::new();
    for n in 0..12 {
        keys.push(in_state(&env, &format!("{n:02}"), 3, None).await);
    }
    for order in [ListOrder::Recent, ListOrder::Created] {
        let failed = |after| ListThreads { order, status: Some(ThreadStatus::Failed), after, ..list(2) };
        let (mut seen, mut after, mut run) = (Vec::new(), None, 0);
        loop {
            let page = env.store.list_threads(failed(after)).await.expect("lists");
            seen.extend(page.threads.iter().map(|thread| thread.id.to_string()));
            after = page.next;
            if after.is_none() {
                break;
            }
            // The first thread runs, and fails again or not.
            env.clock.advance(Duration::from_millis(1));
            let events = if run % 2 == 0 { finished() } else { run_error() };
            let id = format!("{order:?} {run}");
            env.started(StartRun { events: Some(events), ..start_run(keys[0], &id) }).await;
            run += 1;
        }
        let stayed: Vec<_> = seen.iter().filter(|id| *id != "00").cloned().collect();
        assert_eq!(stayed, (1..12).map(|n| format!("{n:02}")).collect::<Vec<_>>(), "{order:?}");
    }
}

/// [`crate::transfer`] moves a thread with an active run; these have ended, or never were.
pub async fn an_imported_thread_has_the_state_of_its_newest_run(env: Env) {
    let reference = Env { store: Arc::new(MemoryStore::new(env.clock.clone())), clock: env.clock.clone(), dir: None };
    for state in 0..7 {
        let id = format!("t{state}");
        env.clock.advance(Duration::from_millis(1));
        for (from, to, id) in [(&env, &reference, id.clone()), (&reference, &env, format!("back {id}"))] {
            let key = in_state(from, &id, state, None).await;
            crate::transfer::moved(from, key, to).await;
            let (was, is) = (shown(from, &id).await, shown(to, &id).await);
            assert_eq!((was.status(), was.last_run), (is.status(), is.last_run), "{id}");
        }
    }
}
