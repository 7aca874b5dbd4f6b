//! Two processes with one run: every interleaving of their requests, their lost answers, a stop and the end of a lease. At each
//! of them the run has one live attempt.

use std::time::Duration;

use serde_json::json;
use threadline_core::{
    AttemptId, NewEvents, ProjectId, Run, RunId, RunStatus, ThreadId,
    limits::{DEFAULT_LEASE, PAGE_BYTES, STOP_GRACE},
};
use threadline_engine::{
    AppendError, AttemptError, AttemptRequest, AttemptedRun, FinishError, HeartbeatError, OnExisting, Opening, RunAt,
    Service, StartRequest,
};
use threadline_store::{LineageCause, LineageStore as _};
use tokio::task::JoinHandle;

use crate::support::{Node, events, new_run, run_id, run_seed, settle, user};

/// Request of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Start,
    /// The process has lost the answer to its start, and sends it again.
    StartAgain,
    Say,
    Beat,
    Finish,
}

/// Something else that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Nothing,
    Stop,
    /// The lease, or the time that a stop leaves, ends.
    TimePasses,
}

const FIRST: [Step; 5] = [Step::Start, Step::Say, Step::StartAgain, Step::Beat, Step::Finish];
const SECOND: [Step; 4] = [Step::Start, Step::StartAgain, Step::Say, Step::Finish];

/// Choices of whose turn it is: 0 and 1 for the processes, 2 for the event.
fn interleavings(left: [usize; 3]) -> Vec<Vec<usize>> {
    if left.iter().sum::<usize>() == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for who in (0..3).filter(|who| left[*who] > 0) {
        let mut rest = left;
        rest[who] -= 1;
        all.extend(interleavings(rest).into_iter().map(|rest| [vec![who], rest].concat()));
    }
    all
}

struct Process {
    name: &'static str,
    mode: OnExisting,
    /// Attempt that the process holds, as far as it knows, and the producer_seq of its next event.
    holds: Option<(u64, u64)>,
    /// True once it knows that it does not produce the run, or that the run has ended.
    is_out: bool,
    said: u64,
}

struct World<'n> {
    node: &'n Node,
    thread: ThreadId,
    run: RunId,
    processes: [Process; 2],
    /// Attempts, and the process of each.
    attempts: Vec<usize>,
    /// True once a response has shown the end of the run.
    ended: bool,
}

fn opening() -> NewEvents {
    events(&[r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#])
}

impl World<'_> {
    async fn start(&mut self, who: usize) {
        let Process { name, mode, .. } = self.processes[who];
        let start = StartRequest {
            run: Some(self.run.clone()),
            attempt_id: Some(AttemptId::new(name).expect("id")),
            opening: Opening::Begun(opening()),
            ..StartRequest::default()
        };
        let request = AttemptRequest { start, on_existing: mode, tools_repeatable: false };
        let answer = self.node.service.attempts.start(&self.node.alice, &self.thread, request).await;
        let was_displaced = self.attempts.contains(&who) && self.attempts.last() != Some(&who);
        if let Err(AttemptError::RunFenced(run)) = &answer {
            assert!(was_displaced && run.attempt == self.attempts.len() as u64, "{run:?}");
            self.processes[who].is_out = true;
            return;
        }
        let AttemptedRun { started, attempt, attempt_id } = answer.expect("an answer");
        let mine = attempt_id.as_ref().map(AttemptId::as_str) == Some(name);
        assert_eq!(mine, started.run.status.is_active(), "an active run is in the hands of who started it last");
        assert!(!mine || !was_displaced, "a late start takes the run from its successor");
        if !mine {
            self.ended = true;
            self.processes[who].is_out = true;
            return;
        }
        let next = started.run.producer_seq + 1;
        match self.attempts.len() as u64 {
            known if attempt == known + 1 => self.attempts.push(who),
            known => assert_eq!((attempt, self.attempts[attempt as usize - 1]), (known, who), "a lost answer"),
        }
        self.processes[who].holds = Some((attempt, next));
    }

    /// A request of a process that holds an attempt, and whether it was accepted.
    async fn write(&mut self, who: usize, step: Step) {
        let Some((attempt, next)) = self.processes[who].holds.filter(|_| !self.processes[who].is_out) else { return };
        let (runs, alice) = (&self.node.service.runs, &self.node.alice);
        let at = RunAt { id: &self.run, attempt: Some(attempt) };
        let name = self.processes[who].name;
        let accepted = match step {
            Step::Say => {
                let line = format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"{name}{attempt}","delta":"{next}"}}"#);
                match runs.append(alice, &self.thread, at, Some(next), events(&[line])).await {
                    Ok(receipt) => {
                        self.processes[who].holds = Some((attempt, receipt.producer_seq + 1));
                        self.processes[who].said += 1;
                        true
                    }
                    Err(AppendError::RunFenced(_)) => false,
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Beat => match runs.heartbeat(alice, &self.thread, at, None).await {
                Ok(_) => true,
                Err(HeartbeatError::RunFenced(_)) => false,
                Err(error) => panic!("{error}"),
            },
            _ => match runs.finish(alice, &self.thread, at, 0).await {
                Ok(run) => {
                    assert!(!run.status.is_active());
                    self.ended = true;
                    self.processes[who].is_out = true;
                    true
                }
                Err(FinishError::RunFenced(_)) => false,
                Err(error) => panic!("{error}"),
            },
        };
        let is_newest = attempt == self.attempts.len() as u64;
        assert!(is_newest || !accepted, "{step:?} of attempt {attempt} after the begin of the next one");
        assert!(accepted || !is_newest || self.run_has_ended().await, "{step:?} of the present attempt is refused");
        self.processes[who].is_out |= !accepted;
    }

    async fn run_has_ended(&self) -> bool {
        let run = self.node.service.runs.get(&self.node.alice, &self.thread, &self.run).await.expect("run");
        !run.status.is_active() || run.stop_requested_at.is_some()
    }

    async fn happens(&self, event: Event) {
        let exists = self.node.service.runs.get(&self.node.alice, &self.thread, &self.run).await.is_ok();
        match event {
            Event::Stop if exists => {
                self.node.service.runs.stop(&self.node.alice, &self.thread, &self.run).await.expect("stops");
            }
            Event::TimePasses => self.pass().await,
            Event::Nothing | Event::Stop => {}
        }
    }

    /// Lets time go by until a run that nobody keeps has ended. Steps of a second keep thousands of interleavings short.
    async fn pass(&self) {
        let time = STOP_GRACE.max(DEFAULT_LEASE) + Duration::from_secs(3);
        self.node.pass_in_steps(time, Duration::from_secs(1)).await;
    }

    /// What remains once all is over.
    async fn check(&self) {
        let get = || self.node.service.runs.get(&self.node.alice, &self.thread, &self.run);
        if get().await.expect("run").status.is_active() {
            self.pass().await;
        }
        let run = get().await.expect("run");
        assert!(!run.status.is_active() && run.attempt == self.attempts.len() as u64, "{run:?}");
        let log = self.node.log(&self.thread).await;
        let count = |what: &str| log.iter().filter(|event| event.contains(what)).count();
        assert_eq!(log.len() as u64, run.producer_seq);
        assert_eq!(count("RUN_STARTED"), 1);
        assert_eq!(count("RUN_FINISHED") + count("RUN_ERROR"), usize::from(run.status != RunStatus::Abandoned));
        let said: u64 = self.processes.iter().map(|process| process.said).sum();
        assert_eq!(count("TEXT_MESSAGE_CHUNK") as u64, said, "each word once");
        let found = self.node.service.projections.at(&self.node.alice, &self.thread, None, None).await.expect("folds");
        let ids: Vec<&str> = found.conversation.messages().map(|message| message.id()).collect();
        let newest = self.attempts.last().map(|who| &self.processes[*who]).expect("an attempt");
        if newest.mode == OnExisting::Restart {
            let own = format!("{}{}", newest.name, run.attempt);
            assert!(ids.iter().all(|id| *id == own), "{ids:?} of attempt {own} alone");
        }
        // Loops over all threads stay short.
        self.node.service.threads.delete(&self.node.alice, &self.thread).await.expect("deletes");
    }
}

#[test]
fn a_run_has_one_live_attempt_at_every_interleaving() {
    run_seed(0, async {
        let node = Node::start();
        let mut tried = 0;
        for event in [Event::Nothing, Event::Stop, Event::TimePasses] {
            let orders = interleavings([FIRST.len(), SECOND.len(), usize::from(event != Event::Nothing)]);
            for order in orders {
                for mode in [OnExisting::Continue, OnExisting::Restart] {
                    tried += 1;
                    let thread = node.thread(&format!("t{tried}")).await;
                    let process = |name| Process { name, mode, holds: None, is_out: false, said: 0 };
                    let processes = [process("p"), process("q")];
                    let run = run_id("r");
                    let mut world = World { node: &node, thread, run, processes, attempts: Vec::new(), ended: false };
                    let mut scripts = [FIRST.iter(), SECOND.iter()];
                    for who in &order {
                        match scripts.get_mut(*who).and_then(Iterator::next) {
                            None => world.happens(event).await,
                            Some(Step::Start) => world.start(*who).await,
                            Some(Step::StartAgain) => world.start(*who).await,
                            Some(step) => world.write(*who, *step).await,
                        }
                    }
                    world.check().await;
                }
            }
        }
        assert_eq!(tried, 2 * (126 + 2 * 1260));
    });
}

#[test]
fn an_event_that_overtakes_a_take_up_is_superseded_too() {
    run_seed(0, async {
        let node = Node::start();
        for kind in ["TEXT_MESSAGE_CHUNK", "TOOL_CALL_START"] {
            let thread = node.thread(kind).await;
            let start = async |service: Service, name: &'static str, thread: ThreadId| {
                let attempt_id = Some(AttemptId::new(name).expect("id"));
                let start = StartRequest { attempt_id, opening: Opening::Begun(opening()), ..new_run("r") };
                let request = AttemptRequest { start, on_existing: OnExisting::Restart, tools_repeatable: false };
                service.attempts.start(&user("alice"), &thread, request).await
            };
            let say = async |seq: u64, kind: &str| {
                let line =
                    json!({ "type": kind, "messageId": "m", "delta": "x", "toolCallId": "c", "toolCallName": "pay" });
                let events = events(&[line.to_string()]);
                node.service.runs.append(&node.alice, &thread, &run_id("r"), Some(seq), events).await.expect("appended")
            };
            start(node.service.clone(), "p", thread.clone()).await.expect("starts");
            say(2, "TEXT_MESSAGE_CHUNK").await;
            // The second process has found the run, and the first one goes on before the log is read.
            node.store.read_gate.hold();
            let taking = tokio::spawn(start(node.service.clone(), "q", thread.clone()));
            settle().await;
            say(3, kind).await;
            node.store.read_gate.open();
            let taken = taking.await.expect("ends");
            if kind == "TOOL_CALL_START" {
                // It is judged by the log as it is in the end.
                assert!(matches!(taken, Err(AttemptError::RecoveryUnsafe { .. })), "{taken:?}");
                continue;
            }
            assert_eq!(taken.expect("takes it up").attempt, 2);
            let found = node.service.projections.at(&node.alice, &thread, None, None).await.expect("folds");
            assert_eq!(found.conversation.messages().count(), 0);
        }
    });
}

/// A long run, and the start by which another process takes it up.
async fn long(node: &Node, pages: usize) -> (ThreadId, JoinHandle<Result<AttemptedRun, AttemptError>>) {
    let thread = node.thread("t").await;
    let start = |name: &str| AttemptRequest {
        start: StartRequest {
            attempt_id: Some(AttemptId::new(name).expect("id")),
            opening: Opening::Begun(opening()),
            ..new_run("r")
        },
        on_existing: OnExisting::Continue,
        tools_repeatable: false,
    };
    node.service.attempts.start(&node.alice, &thread, start("p")).await.expect("starts");
    for n in 0..pages {
        let text = "x".repeat(PAGE_BYTES);
        let line = format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"m{n}","delta":"{text}"}}"#);
        node.service.runs.append(&node.alice, &thread, &run_id("r"), None, events(&[line])).await.expect("appended");
    }
    node.store.take_reads();
    let (service, alice, id) = (node.service.clone(), node.alice.clone(), thread.clone());
    let taking = tokio::spawn(async move { service.attempts.start(&alice, &id, start("q")).await });
    (thread, taking)
}

#[test]
fn a_take_up_reads_in_its_turn() {
    run_seed(0, async {
        let node = Node::start();
        let mut slots = Vec::new();
        for slot in 0..node.service.queue.slots() {
            let project = ProjectId::new(format!("p{slot}")).expect("id");
            slots.push(node.service.queue.begin_for(&project).await.expect("a slice"));
        }
        let (_, taking) = long(&node, 4).await;
        settle().await;
        assert_eq!(node.store.take_reads(), 0, "all slots are taken");
        drop(slots);
        assert_eq!(taking.await.expect("ends").expect("takes it up").attempt, 2);
        assert!(node.store.take_reads() >= 4);
    });
}

#[test]
fn a_take_up_that_was_overtaken_reads_only_what_is_new() {
    const PAGES: usize = 24;
    run_seed(0, async {
        let node = Node::start();
        node.store.take_gate.hold();
        let (thread, taking) = long(&node, PAGES).await;
        settle().await;
        let first = node.store.take_reads();
        assert!(first >= 2 * PAGES, "{first} reads of the log and of the conversation");
        for n in 0..3 {
            let line = format!(r#"{{"type":"TEXT_MESSAGE_CHUNK","messageId":"late{n}","delta":"x"}}"#);
            let at = RunAt { id: &run_id("r"), attempt: None };
            node.service.runs.append(&node.alice, &thread, at, None, events(&[line])).await.expect("appended");
            // The commit is refused, and the next try reads up to its own.
            node.store.read_gate.hold();
            node.store.take_gate.open();
            settle().await;
            node.store.take_gate.hold();
            node.store.read_gate.open();
            settle().await;
            let again = node.store.take_reads();
            assert!((1..=4).contains(&again), "{again} reads");
        }
        node.store.take_gate.open();
        let taken = taking.await.expect("ends").expect("takes it up");
        assert_eq!(taken.attempt, 2);
        let found = node.service.projections.at(&node.alice, &thread, None, None).await.expect("folds");
        let ids: Vec<_> = found.conversation.messages().map(|message| message.id().to_owned()).collect();
        assert_eq!(ids.len(), PAGES + 3 - 1, "all but the one that may go on: {ids:?}");
    });
}

/// The start of a process was lost with the store's newest commits, and another process has begun the run since.
#[test]
fn a_process_whose_start_was_lost_does_not_write_into_the_run_of_another() {
    run_seed(0, async {
        let node = Node::start();
        let runs = &node.service.runs;
        let before = node.thread("before").await;
        assert_eq!(node.run(&before, "r").await.run.attempt, 1);
        let lineage = node.store.adopt(LineageCause::RolledBack).await.expect("adopts");
        node.store.lineage().open(lineage);
        let after = node.thread("after").await;
        let second = node.run(&after, "r").await.run;
        let (id, say) = (run_id("r"), || events(&[r#"{"type":"X"}"#]));
        let of = |attempt| RunAt { id: &id, attempt };
        let refused = |run: &Run| assert_eq!((run.attempt, run.status), (second.attempt, RunStatus::Running));
        match runs.append(&node.alice, &after, of(Some(1)), Some(1), say()).await {
            Err(AppendError::RunFenced(run)) => refused(&run),
            other => panic!("{other:?}"),
        }
        match runs.finish(&node.alice, &after, of(Some(1)), 0).await {
            Err(FinishError::RunFenced(run)) => refused(&run),
            other => panic!("{other:?}"),
        }
        // Its own process, by the number and without it; and one whose run has survived.
        runs.append(&node.alice, &after, of(Some(second.attempt)), Some(1), say()).await.expect("appended");
        runs.append(&node.alice, &after, of(None), Some(2), say()).await.expect("appended");
        runs.append(&node.alice, &before, of(Some(1)), Some(1), say()).await.expect("appended");
        runs.release(&node.alice, &after, &id).await.expect("the first attempt");
    });
}
