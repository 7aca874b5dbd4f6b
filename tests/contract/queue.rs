//! Queues of threads: changes, and ends that begin the next turn.

use std::sync::Arc;

use threadline_core::{
    Author, Hold, KeyId, NewEvents, NodeId, QueueState, RunId, RunStatus, ThreadKey, Timestamp, WriteFence,
    limits::STOP_GRACE,
};
use threadline_store::{
    Advance, Advanced, Append, Before, ChangeQueue, ClaimTurns, CloseOutcome, CloseWhen, Closing, Queue, QueuedTurn,
    StartOutcome, StartRun, StopOutcome, TakeTurn,
};
use tokio::task::JoinSet;

use crate::support::*;

pub fn queued(run: &str) -> QueuedTurn {
    QueuedTurn {
        run: run_id(run),
        agent: agent("a"),
        asked_by: Some(Author::user(&user("u"))),
        key: Some(KeyId::new("k").expect("id")),
        at: Timestamp(7),
        input: Some(format!("input of {run}")),
    }
}

async fn read(env: &Env, key: ThreadKey) -> Queue {
    env.store.queue(key).await.expect("reads").expect("is there")
}

async fn order(env: &Env, key: ThreadKey) -> Vec<String> {
    read(env, key).await.turns.into_iter().map(|turn| turn.run.to_string()).collect()
}

/// A change that keeps everything, made from what the queue is now.
pub fn change(queue: &Queue) -> ChangeQueue {
    ChangeQueue {
        key: queue.head.key,
        seen: queue.head.clone(),
        order: queue.turns.iter().map(|turn| turn.run.clone()).collect(),
        new: None,
        edited: None,
        gone: Vec::new(),
        held: queue.head.queue.held,
    }
}

fn coming(queue: &Queue, run: &str) -> ChangeQueue {
    let mut change = change(queue);
    change.order.push(run_id(run));
    ChangeQueue { new: Some(queued(run)), ..change }
}

async fn changed(env: &Env, change: ChangeQueue) -> Option<QueueState> {
    env.store.change_queue(change).await.expect("changes").map(|head| head.queue)
}

pub async fn enqueue(env: &Env, key: ThreadKey, run: &str) -> Option<QueueState> {
    changed(env, coming(&read(env, key).await, run)).await
}

async fn hold(env: &Env, key: ThreadKey, held: Option<Hold>) -> Option<QueueState> {
    changed(env, ChangeQueue { held, ..change(&read(env, key).await) }).await
}

fn end(queue: &Queue, events: NewEvents) -> Closing {
    let mut closing = closing(&queue.head, Some(events));
    (closing.status, closing.error_code, closing.error_message) = (RunStatus::Finished, None, None);
    closing
}

/// The end of the active run, and the begin of the first turn.
fn going_on(queue: &Queue) -> Advance {
    Advance {
        key: queue.head.key,
        end: Some((end(queue, finished()), CloseWhen::Always)),
        seen: queue.head.queue,
        next: queue.turns.first().map(|turn| turn.run.clone()),
        dropped: Vec::new(),
        held: None,
    }
}

async fn advanced(env: &Env, advance: Advance) -> Option<Advanced> {
    env.store.advance(advance).await.expect("advances")
}

/// A thread with a run of an agent and these queued turns.
async fn busy(env: &Env, id: &str, runs: &[&str]) -> (ThreadKey, WriteFence) {
    let key = env.create(id).await.key;
    let start =
        StartRun { turn: Some(turn()), agent: Some(agent("a")), events: Some(events([1])), ..start_run(key, "first") };
    let fence = env.started(start).await.head.write_fence();
    for run in runs {
        enqueue(env, key, run).await.expect("enqueues");
    }
    (key, fence)
}

pub async fn queue_keeps_its_order_through_each_change(env: Env) {
    let (key, _) = busy(&env, "t", &["a", "b", "c"]).await;
    let queue = read(&env, key).await;
    assert_eq!(queue.head.queue, QueueState { version: 3, queued: 3, held: None });
    assert_eq!(queue.turns, ["a", "b", "c"].map(queued));
    assert_eq!(env.get("t").await.expect("is there").queue, queue.head.queue);
    let version = env.get("t").await.expect("is there").version;

    let front = ChangeQueue { order: ["c", "a", "b"].map(run_id).to_vec(), ..change(&queue) };
    changed(&env, front).await.expect("changes");
    assert_eq!(order(&env, key).await, ["c", "a", "b"]);
    let queue = read(&env, key).await;
    let edited = ChangeQueue { edited: Some((run_id("a"), "other".to_owned())), ..change(&queue) };
    changed(&env, edited).await.expect("changes");
    let queue = read(&env, key).await;
    assert_eq!(queue.turns[1].input.as_deref(), Some("other"));
    assert_eq!(queue.turns[2], queued("b"));
    let gone = ChangeQueue { order: ["c", "b"].map(run_id).to_vec(), gone: vec![run_id("a")], ..change(&queue) };
    let state = changed(&env, gone).await.expect("changes");
    assert_eq!((order(&env, key).await, state.queued), (vec!["c".to_owned(), "b".to_owned()], 2));
    let mut between = coming(&read(&env, key).await, "d");
    between.order = ["c", "d", "b"].map(run_id).to_vec();
    changed(&env, between).await.expect("changes");
    assert_eq!(order(&env, key).await, ["c", "d", "b"]);

    assert_eq!(hold(&env, key, Some(Hold::Hand)).await.and_then(|state| state.held), Some(Hold::Hand));
    assert_eq!(hold(&env, key, None).await.map(|state| (state.version, state.held)), Some((9, None)));
    assert_eq!(env.get("t").await.expect("is there").version, version + 6, "lists and feeds show each change");
    assert_eq!(env.store.queued_turns(&project(), &user("u"), 10).await.expect("counts"), 3);
    assert_eq!(env.store.queued_turns(&project(), &user("u"), 2).await.expect("counts"), 2);
    assert_eq!(env.store.queued_turns(&project(), &user("v"), 2).await.expect("counts"), 0);
}

pub async fn queue_changes_compare_the_version(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    let seen = read(&env, key).await;
    enqueue(&env, key, "b").await.expect("enqueues");
    assert_eq!(changed(&env, coming(&seen, "c")).await, None);
    assert_eq!(changed(&env, ChangeQueue { held: Some(Hold::Hand), ..change(&seen) }).await, None);
    assert!(advanced(&env, going_on(&seen)).await.is_none());
    assert_eq!(order(&env, key).await, ["a", "b"]);
    assert!(env.head(key).await.active.is_some());
    // A person alone holds an empty queue.
    let empty = env.create("empty").await.key;
    for (held, then) in [(Hold::Stop, None), (Hold::Error, None), (Hold::Hand, Some(Hold::Hand))] {
        assert_eq!(hold(&env, empty, Some(held)).await.map(|state| state.held), Some(then));
    }
}

pub async fn queue_refuses_the_id_of_a_run(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    assert_eq!(enqueue(&env, key, "first").await, None, "it is active");
    let queue = read(&env, key).await;
    assert_eq!(changed(&env, coming(&queue, "a")).await, None, "it is queued");
    advanced(&env, going_on(&queue)).await.expect("advances");
    assert_eq!(enqueue(&env, key, "first").await, None, "it has ended");
    assert_eq!(enqueue(&env, key, "a").await, None, "it has begun");
    // A run that begins since the queue was read may have the id of the turn.
    let other = env.create("other").await.key;
    let seen = read(&env, other).await;
    env.start(other, "r").await;
    assert_eq!(changed(&env, coming(&seen, "x")).await, None);
    assert!(read(&env, other).await.turns.is_empty());
}

pub async fn queue_goes_on_in_the_commit_that_ends_a_run(env: Env) {
    let (key, fence) = busy(&env, "t", &["a", "b", "c"]).await;
    let queue = read(&env, key).await;
    let drop = Advance { next: Some(run_id("b")), dropped: vec![run_id("a")], ..going_on(&queue) };
    let Advanced { committed, begun } = advanced(&env, drop).await.expect("advances");
    assert_eq!((committed.run.id.as_str(), committed.run.status), ("first", RunStatus::Finished));
    assert_eq!((committed.run.producer_seq, committed.slice.first_seq(), committed.head.tail), (2, Some(2), 2));
    let begun = begun.expect("a run");
    assert_eq!((begun.id.as_str(), begun.first_seq, begun.producer_seq, begun.driven), ("b", 3, 0, true));
    assert_eq!((begun.author, begun.asked_by), (Some(Author::agent(&agent("a"))), Some(Author::user(&user("u")))));
    assert!(begun.fence > fence.run && committed.head.fence == begun.fence && committed.head.active.is_some());
    assert_eq!(committed.head, env.head(key).await);
    assert_eq!(order(&env, key).await, ["c"]);
    let thread = env.get("t").await.expect("is there");
    assert_eq!((thread.active_run.map(|run| run.id), thread.queue.queued), (Some(run_id("b")), 1));
    let ended = env.store.run(key, &run_id("first")).await.expect("reads").expect("a run");
    assert_eq!((ended.status, ended.producer_seq), (RunStatus::Finished, 2));
    assert_eq!(env.store.run(key, &run_id("a")).await.expect("reads"), None, "a dropped turn leaves no run");
    assert_eq!(env.texts(key).await.len(), 2);

    // An error holds what is left, and nothing begins.
    let queue = read(&env, key).await;
    let failed = Advance {
        end: Some((closing(&queue.head, Some(run_error())), CloseWhen::Always)),
        next: None,
        held: Some(Hold::Error),
        ..going_on(&queue)
    };
    let Advanced { committed, begun } = advanced(&env, failed).await.expect("advances");
    assert!(begun.is_none() && committed.head.active.is_none());
    assert_eq!((committed.run.status, committed.head.queue.held), (RunStatus::Error, Some(Hold::Error)));
    assert_eq!(order(&env, key).await, ["c"]);
    assert_eq!(env.get("t").await.expect("is there").queue.held, Some(Hold::Error));
}

pub async fn queue_end_by_an_append_is_left_to_advance(env: Env) {
    let (key, fence) = busy(&env, "t", &["a"]).await;
    let append = |events| Append { key, fence, epoch: None, producer_seq: None, events };
    assert!(env.append(append(finished())).await.is_none(), "a turn is queued");
    let (other, plain) = env.running("other", "r").await;
    let both = [append(finished()), Append { key: other, fence: plain.into(), ..append(finished()) }];
    let answers = env.store.append(&both).await.expect("appends");
    assert_eq!(answers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true], "in a group, too");
    assert!(env.append(append(events([2]))).await.is_some(), "other appends are as before");
    let closing = closing(&env.head(key).await, Some(run_error()));
    let closed = env.store.close(key, closing.clone(), CloseWhen::Always).await.expect("answers");
    assert!(matches!(closed, CloseOutcome::Missed), "{closed:?}");
    assert!(env.head(key).await.active.is_some());
    let queue = read(&env, key).await;
    let due = Advance { end: Some((closing, CloseWhen::IfDue)), ..going_on(&queue) };
    assert!(advanced(&env, due.clone()).await.is_none(), "it is not due");
    env.clock.advance(LEASE);
    assert!(advanced(&env, due).await.is_some());
}

pub async fn queue_is_held_by_a_stop(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    let seen = read(&env, key).await;
    let stopped = env.store.request_stop(key, &run_id("first"), None, true).await.expect("stops");
    let StopOutcome::Asked(_, head) = stopped else { panic!("{stopped:?}") };
    assert_eq!(head.queue, QueueState { version: 2, queued: 1, held: Some(Hold::Stop) });
    assert!(advanced(&env, going_on(&seen)).await.is_none(), "an end that was decided before begins nothing");
    assert!(
        advanced(&env, Advance { next: None, held: head.queue.held, ..going_on(&read(&env, key).await) })
            .await
            .is_some()
    );
    assert_eq!(env.head(key).await.queue.held, Some(Hold::Stop), "it stays held");
    let stopped = env.store.run(key, &run_id("first")).await.expect("reads").expect("a run");
    assert!(stopped.stop_requested_at.is_some());

    // A stop that does not hold, and one of an empty queue.
    let (key, _) = busy(&env, "s", &["a"]).await;
    env.store.request_stop(key, &run_id("first"), None, false).await.expect("stops");
    assert_eq!(env.head(key).await.queue, QueueState { version: 2, queued: 1, held: None });
    let (key, _) = busy(&env, "e", &[]).await;
    env.store.request_stop(key, &run_id("first"), None, true).await.expect("stops");
    assert_eq!(env.head(key).await.queue, QueueState::default());
    assert_eq!(enqueue(&env, key, "a").await, Some(QueueState { version: 1, queued: 1, held: None }));
    env.clock.advance(STOP_GRACE);
    let queue = read(&env, key).await;
    assert!(
        advanced(&env, going_on(&queue)).await.expect("advances").begun.is_some(),
        "what is queued after a stop begins"
    );
}

pub async fn queue_is_not_overtaken_by_a_start(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    let queue = read(&env, key).await;
    let free = Advance { next: None, ..going_on(&queue) };
    advanced(&env, free).await.expect("advances");
    let started = env.store.start(start_run(key, "r")).await.expect("answers");
    assert!(matches!(started, StartOutcome::QueueMoves(_)), "{started:?}");
    let whole = StartRun { events: Some(finished()), ..start_run(key, "w") };
    assert!(matches!(env.store.start(whole).await, Ok(StartOutcome::QueueMoves(_))));
    assert!(matches!(env.store.start(start_run(key, "a")).await, Ok(StartOutcome::Queued(_))));
    let past = StartRun { past_queue: true, ..start_run(key, "p") };
    let run = env.started(past).await.head;
    env.store.close(key, closing(&run, Some(run_error())), CloseWhen::Always).await.expect("answers");
    let queue = read(&env, key).await;
    advanced(&env, Advance { next: None, ..going_on(&queue) }).await.expect("advances");
    hold(&env, key, Some(Hold::Hand)).await.expect("holds");
    assert!(matches!(env.store.start(start_run(key, "a")).await, Ok(StartOutcome::Queued(_))), "held, too");
    let whole = StartRun { events: Some(finished()), ..start_run(key, "a") };
    assert!(matches!(env.store.start(whole).await, Ok(StartOutcome::Queued(_))), "a complete run, too");
    env.start(key, "r").await;
}

pub async fn queue_moves_in_free_threads(env: Env) {
    let moving = async |env: &Env| -> Vec<String> {
        let due = env.store.moving_queues(None, 10).await.expect("reads");
        due.into_iter().map(|due| due.thread.to_string()).collect()
    };
    let (key, _) = busy(&env, "t", &["a", "b"]).await;
    busy(&env, "active", &["a"]).await;
    env.create("empty").await;
    assert_eq!(moving(&env).await, Vec::<String>::new());
    let queue = read(&env, key).await;
    advanced(&env, Advance { next: None, ..going_on(&queue) }).await.expect("advances");
    assert_eq!(moving(&env).await, ["t"]);
    assert_eq!(env.store.moving_queues(Some(key), 10).await.expect("reads"), []);
    hold(&env, key, Some(Hold::Hand)).await.expect("holds");
    assert_eq!(moving(&env).await, Vec::<String>::new());
    hold(&env, key, None).await.expect("releases");
    let queue = read(&env, key).await;
    let begin = Advance { end: None, ..going_on(&queue) };
    let Advanced { committed, begun } = advanced(&env, begin.clone()).await.expect("advances");
    assert_eq!(begun.map(|run| run.id), Some(run_id("a")));
    assert_eq!((committed.run.id, committed.slice.0.len()), (run_id("a"), 0));
    assert!(advanced(&env, begin).await.is_none(), "it begins once");
    assert_eq!(moving(&env).await, Vec::<String>::new());
}

pub async fn queue_waits_for_interrupts(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    let asks = "{\"type\":\"RUN_FINISHED\",\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[{\"id\":\"i\",\"reason\":\"x\"}]}}";
    let queue = read(&env, key).await;
    assert_eq!(queue.interrupts, None);
    let closing = end(&queue, ndjson(asks));
    let advance = Advance { end: Some((closing, CloseWhen::Always)), next: None, ..going_on(&queue) };
    advanced(&env, advance).await.expect("advances");
    assert!(read(&env, key).await.interrupts.is_some());
    assert_eq!(env.get("t").await.expect("is there").open_interrupts, 1);
    assert_eq!(env.store.moving_queues(None, 10).await.expect("reads"), [], "an interrupt is open");

    let answers =
        ndjson("{\"type\":\"RUN_STARTED\",\"input\":{\"resume\":[{\"interruptId\":\"i\",\"status\":\"resolved\"}]}}");
    let answering = StartRun { past_queue: true, events: Some(answers), ..start_run(key, "answer") };
    env.started(answering).await;
    let queue = read(&env, key).await;
    let begun = advanced(&env, going_on(&queue)).await.expect("advances").begun;
    assert_eq!(begun.map(|run| run.id), Some(run_id("a")));
    assert_eq!(read(&env, key).await.interrupts, None);
}

pub async fn queue_begins_a_turn_that_nobody_drives(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    let claim = ClaimTurns { node: NodeId(2), judges: false, own: Vec::new(), limit: 10 };
    if env.dir.is_none() {
        assert!(env.store.claim_turns(&claim).await.expect("claims").is_empty(), "a queued turn is no turn to drive");
    }
    let queue = read(&env, key).await;
    let head = advanced(&env, going_on(&queue)).await.expect("advances").committed.head;
    let turn = env.store.claim_turns(&claim).await.expect("claims").pop().expect("a turn");
    assert_eq!((turn.run.as_str(), turn.before, turn.attempt, turn.called), ("a", Before::HandedOver, 0, false));
    assert_eq!((turn.input.as_deref(), turn.agent, turn.driver), (Some("input of a"), Some(agent("a")), head.driver));
    let take = TakeTurn {
        key,
        run: turn.run,
        fence: head.write_fence(),
        tail: head.tail,
        driver: NodeId(2),
        events: Some(events([1, 2])),
        futile: 0,
        input: Some("kept".to_owned()),
    };
    let taken = env.store.take_turn(take).await.expect("takes").expect("as expected").committed;
    assert_eq!((taken.run.attempt, taken.run.producer_seq, taken.run.first_seq), (1, 2, 3));
    assert_eq!(env.store.run(key, &run_id("a")).await.expect("reads"), Some(taken.run.clone()));
    env.store.leave_turn(key, &taken.run.id, taken.head.driver).await.expect("leaves");
    let again = env.store.claim_turns(&ClaimTurns { node: NodeId(3), ..claim }).await.expect("claims").pop();
    let again = again.expect("a turn");
    assert_eq!((again.attempt, again.attempt_seq, again.input.as_deref()), (1, 5, Some("kept")));
}

pub async fn queue_goes_with_its_thread(env: Env) {
    let (key, _) = busy(&env, "t", &["a"]).await;
    assert!(env.store.delete_thread(key, None).await.expect("deletes"));
    assert!(env.store.queue(key).await.expect("reads").is_none());
    assert_eq!(env.store.queued_turns(&project(), &user("u"), 10).await.expect("counts"), 0);
    assert!(env.store.change_queue(coming(&read_new(&env, "n").await, "x")).await.expect("changes").is_some());

    // In the trash a queue is kept, and it goes with the thread.
    let (key, _) = busy(&env, "s", &["a"]).await;
    let queue = read(&env, key).await;
    let held = Advance { next: None, held: Some(Hold::Stop), ..going_on(&queue) };
    advanced(&env, held).await.expect("advances");
    env.clock.advance(std::time::Duration::from_secs(10));
    let before = env.clock.now();
    let trashed = env.store.trash(&project(), &[key], before, LEASE).await.expect("trashes");
    assert_eq!(trashed, [key]);
    assert!(env.store.queue(key).await.expect("reads").is_none());
    assert_eq!(env.store.moving_queues(None, 10).await.expect("reads").len(), 1, "the other thread's");
    assert!(env.store.discard(key, true).await.expect("discards"));
    assert_eq!(env.store.queued_turns(&project(), &user("u"), 10).await.expect("counts"), 1, "the other thread's");
}

async fn read_new(env: &Env, id: &str) -> Queue {
    let key = env.create(id).await.key;
    read(env, key).await
}

/// Whatever comes first, nothing that was queued is lost, and what begins is what was first.
pub async fn queue_ends_and_changes_race(env: Env) {
    let env = Arc::new(env);
    for round in 0..8 {
        let (key, _) = busy(&env, &format!("t{round}"), &["a", "b"]).await;
        let queue = read(&env, key).await;
        let mut tasks: JoinSet<Option<&'static str>> = JoinSet::new();
        let (one, advance) = (env.clone(), going_on(&queue));
        tasks.spawn(async move { advanced(&one, advance).await.map(|_| "end") });
        let (two, front) = (env.clone(), ChangeQueue { order: ["b", "a"].map(run_id).to_vec(), ..change(&queue) });
        tasks.spawn(async move { changed(&two, front).await.map(|_| "order") });
        let three = env.clone();
        tasks.spawn(async move {
            let stop = three.store.request_stop(key, &run_id("first"), None, true).await.expect("answers");
            matches!(stop, StopOutcome::Asked(..)).then_some("stop")
        });
        let done: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        let (ended, ordered) = (done.contains(&"end"), done.contains(&"order"));
        assert!(!(ended && ordered), "both were made from one version: {done:?}");
        let now = read(&env, key).await;
        let left: Vec<RunId> = now.turns.iter().map(|turn| turn.run.clone()).collect();
        let expected = match (ended, ordered) {
            (true, _) => vec![run_id("b")],
            (_, true) => vec![run_id("b"), run_id("a")],
            _ => vec![run_id("a"), run_id("b")],
        };
        assert_eq!((left, now.head.queue.queued as usize), (expected.clone(), expected.len()), "{done:?}");
        if !ended {
            assert!(done.contains(&"stop") && now.head.queue.held == Some(Hold::Stop), "{done:?}");
        }
    }
}
