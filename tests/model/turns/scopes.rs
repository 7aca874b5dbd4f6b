//! What is checked: the design as it is, in scopes that are small in different ways.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::{
    Fault::{self, Abandon, Away, Die, Drain, Failover, Panic, Pause, Unanswered},
    Scope, State,
    nodes::{Life, Stage},
    planted::Design::*,
    store::{Author, Hold, Kind},
};

pub const SCOPE: Scope = Scope {
    design: Whole,
    nodes: 2,
    runs: 1,
    asked: 1,
    asks: 1,
    faults: 0,
    kinds: &[],
    calls: false,
    text: false,
    tools: false,
    continues: false,
    once: false,
    approved: false,
    budget: 3,
    fails: false,
    stops: 0,
    changes: 0,
    edits: false,
    items: 1,
    revokes: false,
    interrupted: 0,
    opens: 0,
    answers: false,
    resumed: None,
    produced: &[],
    reaches: &[],
};

pub const LOSSES: &[Fault] = &[Die(0), Pause(0), Panic(0, 0), Unanswered(0), Abandon(0)];

fn ended(s: &State, run: usize) -> Option<Kind> {
    s.store.runs[run].and_then(|run| run.ended)
}

pub const DRIVEN: Scope = Scope {
    asks: 2,
    faults: 2,
    kinds: LOSSES,
    calls: true,
    text: true,
    tools: true,
    reaches: &[
        ("a second attempt ends the run", |_, s| ended(s, 0) == Some(Kind::Finished) && s.calls[0][1] == 1),
        ("a third attempt calls", |_, s| s.calls[0][2] == 1),
        ("a logged tool call ends it", |_, s| ended(s, 0) == Some(Kind::Unsafe)),
        ("an attempt is superseded", |_, s| s.store.log.iter().any(|entry| entry.kind == Kind::Attempt)),
        ("an old driver calls late", |_, s| {
            s.calls[0][1] == 1
                && s.nodes.iter().any(|node| {
                    let driver = node.drivers[0];
                    driver.stage == Stage::Called && driver.attempt == 1
                })
        }),
    ],
    ..SCOPE
};

pub const CONTINUED: Scope = Scope {
    asks: 1,
    continues: true,
    reaches: &[
        ("a call is in doubt, and the next attempt ends the run", |_, s| {
            ended(s, 0) == Some(Kind::Finished) && s.store.log.iter().any(|entry| entry.told != 0)
        }),
        ("two calls are in doubt", |_, s| s.store.log.iter().any(|entry| entry.told.count_ones() == 2)),
        ("a third attempt calls", |_, s| s.calls[0][2] == 1),
    ],
    ..DRIVEN
};

pub const ONCE: Scope = Scope {
    once: true,
    tools: false,
    reaches: &[
        ("the agent is lost", |_, s| ended(s, 0) == Some(Kind::AgentLost)),
        ("a second attempt calls, as the first did not", |_, s| s.calls[0][1] == 1),
        ("the agent is lost without a call", |_, s| ended(s, 0) == Some(Kind::AgentLost) && s.calls[0] == [0; 4]),
    ],
    ..DRIVEN
};

pub const APPROVED: Scope = Scope {
    approved: true,
    once: false,
    reaches: &[("what was approved is not repeated", |_, s| ended(s, 0) == Some(Kind::Unsafe))],
    ..ONCE
};

pub const OUTAGE: Scope = Scope {
    faults: 3,
    kinds: &[Away, Pause(0)],
    calls: true,
    reaches: &[
        ("a run is taken over", |_, s| s.store.turns[0].is_some_and(|turn| turn.attempt == 2)),
        ("all beats are late", |_, s| s.nodes.iter().all(|node| !node.fresh && node.life == Life::Running)),
    ],
    ..SCOPE
};

pub const FAILED_OVER: Scope = Scope {
    asks: 2,
    faults: 2,
    kinds: &[Failover, Pause(0)],
    calls: true,
    text: true,
    reaches: &[
        ("a driver goes on", |_, s| {
            s.store.generation == 1 && s.store.of(0).filter(|entry| entry.attempt == 1).count() == 3
        }),
        ("a driver has to stop, and another attempt ends", |_, s| {
            s.store.generation == 1
                && s.calls[0][0] == 1
                && s.store.of(0).any(|e| e.attempt == 2 && e.kind == Kind::Finished)
        }),
        ("a run begins again that was lost", |_, s| s.store.generation == 1 && s.calls[0][0] == 2),
    ],
    ..SCOPE
};

pub const DRAINED: Scope = Scope {
    faults: 2,
    kinds: &[Drain(0), Die(0), Pause(0), Unanswered(0)],
    calls: true,
    text: true,
    stops: 1,
    reaches: &[
        ("the next node goes on", |_, s| {
            s.store.turns[0].is_some_and(|turn| turn.driver == Some(1) && turn.attempt == 2)
        }),
        ("a run ends on a node that leaves", |_, s| ended(s, 0) == Some(Kind::Finished) && s.nodes[0].leaving),
        ("a closer ends a run that was stopped", |_, s| {
            s.store.log.iter().any(|entry| entry.kind == Kind::Stopped && entry.attempt == 0)
        }),
    ],
    ..SCOPE
};

pub const DOOMED: Scope = Scope {
    faults: 4,
    kinds: &[Panic(0, 0), Die(0)],
    calls: true,
    reaches: &[("it is given up", |_, s| ended(s, 0) == Some(Kind::Exhausted))],
    ..SCOPE
};

pub const QUEUE: Scope = Scope {
    nodes: 1,
    runs: 3,
    asks: 1,
    changes: 3,
    edits: true,
    stops: 1,
    fails: true,
    reaches: &[
        ("three runs in their order", |m, s| (0..3).all(|run| ended(s, run) == Some(Kind::Finished)) && m.rests(s)),
        ("the last comes first", |_, s| ended(s, 2).is_some() && s.store.turns[1].is_some()),
        ("a stop holds", |_, s| s.store.head.held == Some(Hold::Stop) && s.store.head.active.is_none()),
        ("a stop is enforced, and the next begins", |_, s| {
            s.store.head.active == Some(1) && s.store.log.iter().any(|e| e.kind == Kind::Stopped && e.attempt == 0)
        }),
        ("an error holds", |_, s| s.store.head.held == Some(Hold::Error)),
        ("a held queue is released", |_, s| ended(s, 0) == Some(Kind::Failed) && s.store.head.active == Some(1)),
        ("a change comes after the end", |_, s| {
            s.store.head.active.is_none() && s.store.head.queued > 0 && s.store.head.held.is_none()
        }),
    ],
    ..SCOPE
};

pub const QUEUE_LOST: Scope = Scope {
    nodes: 2,
    runs: 2,
    asked: 2,
    asks: 2,
    faults: 1,
    kinds: &[Die(0), Unanswered(0), Abandon(0), Panic(0, 0)],
    changes: 1,
    edits: false,
    fails: false,
    stops: 1,
    reaches: &[("the next is begun, and its driver does not hear of it", |_, s| {
        ended(s, 1).is_some() && s.store.of(1).any(|entry| entry.attempt == 2)
    })],
    ..QUEUE
};

pub const QUEUE_KILLED: Scope = Scope {
    asked: 1,
    asks: 1,
    stops: 0,
    faults: 2,
    kinds: LOSSES,
    reaches: &[("the ender dies, and another drives the next", |_, s| {
        s.nodes[0].life == Life::Dead && s.store.of(1).any(|entry| entry.attempt == 2 && entry.kind == Kind::Finished)
    })],
    ..QUEUE_LOST
};

pub const BESIDE: Scope = Scope {
    nodes: 2,
    changes: 2,
    edits: false,
    stops: 0,
    fails: false,
    produced: &[(2, Author::Key)],
    reaches: &[
        ("a producer begins in a free thread", |_, s| ended(s, 2) == Some(Kind::Finished) && s.accepted == 5),
        ("the end of a producer begins the next", |_, s| ended(s, 2).is_some() && s.store.head.active == Some(1)),
    ],
    ..QUEUE
};

pub const REVOKED: Scope = Scope {
    nodes: 2,
    runs: 3,
    changes: 2,
    edits: false,
    stops: 0,
    fails: true,
    revokes: true,
    reaches: &[
        ("the first is dropped, the second begins", |_, s| {
            s.revoked == 2 && s.store.turns[1].is_none() && s.store.runs[1].is_none() && s.store.head.active == Some(2)
        }),
        ("all that is queued is dropped", |_, s| {
            s.revoked == 2
                && s.accepted == 3
                && s.store.head.active.is_none()
                && s.store.runs[1].is_none()
                && s.store.head.queued == 0
        }),
    ],
    ..QUEUE
};

pub const ASKED: Scope = Scope {
    runs: 3,
    faults: 1,
    kinds: LOSSES,
    interrupted: 1,
    opens: 2,
    answers: true,
    resumed: Some(2),
    reaches: &[
        ("two answers begin one run", |_, s| {
            s.store.runs[1].is_some() && s.store.questions.iter().flatten().all(|q| q.answer == Some(1))
        }),
        ("a client answers with its own run", |_, s| ended(s, 2) == Some(Kind::Finished)),
    ],
    ..SCOPE
};

pub const ASKED_AGAIN: Scope = Scope {
    runs: 3,
    kinds: LOSSES,
    faults: 1,
    interrupted: 2,
    opens: 1,
    answers: true,
    reaches: &[("two answers, two runs", |_, s| ended(s, 2) == Some(Kind::Finished))],
    ..SCOPE
};

pub const PRODUCED: Scope = Scope {
    runs: 4,
    interrupted: 2,
    opens: 1,
    produced: &[(1, Author::Key), (2, Author::Key), (3, Author::User)],
    reaches: &[
        ("a producer settles what it asked", |_, s| {
            ended(s, 2).is_some()
                && s.store
                    .questions
                    .iter()
                    .flatten()
                    .any(|q| q.author == Author::Key && q.settled.is_some_and(|(by, _)| by == 2))
        }),
        ("a producer settles nothing of others", |_, s| ended(s, 2).is_some() && s.store.head.waiting > 0),
    ],
    ..SCOPE
};

pub const ANSWERED_BESIDE: Scope = Scope {
    runs: 3,
    interrupted: 1,
    opens: 1,
    answers: true,
    produced: &[(2, Author::Key)],
    reaches: &[
        ("the answer waits for a producer", |_, s| {
            s.store.head.active == Some(2) && s.store.open().any(|q| q.answer == Some(1))
        }),
        ("the answer comes after a producer", |_, s| ended(s, 2).is_some() && ended(s, 1) == Some(Kind::Finished)),
    ],
    ..SCOPE
};

pub const QUEUED_ASKED: Scope = Scope {
    nodes: 1,
    runs: 4,
    items: 2,
    changes: 2,
    edits: true,
    interrupted: 1,
    opens: 1,
    answers: true,
    reaches: &[("the answer is followed by the queue", |_, s| {
        ended(s, 1).is_some() && ended(s, 2) == Some(Kind::Finished)
    })],
    ..SCOPE
};

fn holds(scope: Scope, least: usize) {
    let begun = Instant::now();
    let checker = scope.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states, {} deep, in {:?}", checker.max_depth(), begun.elapsed());
    checker.assert_properties();
    assert!(states >= least, "a scope that explores {states} states shows nothing");
}

macro_rules! holds {
    ($($test:ident: $scope:expr, $least:literal;)*) => { $(#[test] fn $test() { holds($scope, $least); })* };
}

holds! {
    a_question_is_driven_to_its_end: DRIVEN, 100_000;
    an_agent_that_continues_knows_of_calls_in_doubt: CONTINUED, 80_000;
    what_may_be_called_once_is_called_once: ONCE, 20_000;
    an_approved_call_is_not_repeated: APPROVED, 20_000;
    an_outage_takes_no_run_from_a_live_node: OUTAGE, 8_000;
    a_loss_of_commits_leaves_one_driver: FAILED_OVER, 100_000;
    a_node_that_leaves_hands_over: DRAINED, 50_000;
    a_question_that_fails_again_and_again_ends: DOOMED, 1_800;
    items_begin_in_the_order_last_committed: QUEUE, 70_000;
    a_queue_survives_lost_answers: QUEUE_LOST, 60_000;
    a_queue_survives_its_nodes: QUEUE_KILLED, 80_000;
    no_producer_jumps_the_queue: BESIDE, 2_000;
    revoked_items_are_dropped: REVOKED, 10_000;
    answers_begin_one_run: ASKED, 20_000;
    an_answer_belongs_to_its_interrupt: ASKED_AGAIN, 80_000;
    an_answer_waits_for_no_producer_for_ever: ANSWERED_BESIDE, 250;
    producers_settle_their_own_interrupts: PRODUCED, 1_900;
    an_answer_comes_before_the_queue: QUEUED_ASKED, 900;
}
