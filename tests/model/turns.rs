//! Turns of one thread, from their acceptance to their end, checked exhaustively with stateright: the recovery of driven
//! runs, the queue, and interrupts. The rules are those of docs/decisions/097-turns.md.
//!
//! What is modelled
//! - *Store*: each statement is atomic and compares columns of the head. What its sender read before may be stale by then:
//!   reading (and deciding) is a step, and the commit is another one (`wire.rs`).
//! - *Answers*: an answer may be lost after the commit, and a statement that was given up may be carried out at any later time.
//! - *Nodes*: a node dies, is paused for any time and wakes with all that it had in memory, drains, or loses a task. NODE_TTL
//!   passes at any time; each node that runs beats during it, if the database is there.
//! - *Failover*: the store goes back to what a standby had got of it, once. Each node adopts this when it comes to it.
//! - *Agents*: they log text and tool calls, and end their runs in each way. Each call is counted by run and attempt.
//! - *People*: they start, stop, queue, edit, move, cancel, hold, release, revoke, and answer; each may be late.
//!
//! Nothing has to happen except what goes on by itself (`Scope::progress`). That goes on until it can go no further, and
//! then all that was accepted has to have ended, or has to wait for a person. What goes on by itself comes to an end
//! (`endings.rs`): a decision by the store as it is, which the store then refuses, would be repeated for ever, and is a
//! fault of the design, too.
//!
//! Faults and requests are counted, and each scope (`scopes.rs`) turns on some of them; it has to reach what it is for.
//!
//! What is not: durations, appends whose answer is lost (`lease.rs`), runs of producers whose lease expires (there, too),
//! what the fold keeps of a continued attempt (`tests/agui`), several threads, and deletion.
//!
//! Negative controls: every other [`Design`] lacks one rule, and a test demands that the checker finds what this breaks.
//! Every property is broken by one of them.

mod drivers;
mod endings;
mod interrupts;
mod nodes;
mod people;
mod planted;
mod promises;
mod scopes;
mod store;
mod wire;

use stateright::{Model, Property};

use self::{
    drivers::Step,
    interrupts::Asker,
    nodes::{Life, Node},
    people::Change,
    planted::Design,
    promises::Condition,
    store::{Author, Kind, QUESTIONS, RUNS, Store},
    wire::Wire,
};

// What a commit or a step did wrong, whatever the design says about it.
const WRONGED: u32 = 1;
const SHRUNK: u32 = 1 << 1;
const TWICE: u32 = 1 << 2;
const CANCELLED: u32 = 1 << 3;
const ORDER: u32 = 1 << 4;
const HELD: u32 = 1 << 5;
const REVOKED: u32 = 1 << 6;
const JUMPED: u32 = 1 << 7;
const FREE: u32 = 1 << 8;
const OLD_CLOSE: u32 = 1 << 9;
const OLD_APPEND: u32 = 1 << 10;
const OVER: u32 = 1 << 12;
const SETTLED: u32 = 1 << 13;
const SAID: u32 = 1 << 14;
const AGAIN: u32 = 1 << 15;
const VAIN: u32 = 1 << 16;
const UNTOLD: u32 = 1 << 18;
const EDITED: u32 = 1 << 17;
const HOLE: u32 = 1 << 11;

/// The indices of `Unanswered` and `Abandon` are those of statements under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Die(u8),
    Pause(u8),
    Drain(u8),
    Panic(u8, u8),
    Away,
    /// A standby takes over that has not got the newest commits.
    Failover,
    Unanswered(usize),
    Abandon(usize),
}

/// What is part of a check, and how much of it.
#[derive(Clone, Copy, Debug)]
struct Scope {
    design: Design,
    nodes: u8,
    runs: u8,
    /// Runs up to here may be asked for by a start.
    asked: u8,
    asks: u8,
    faults: u8,
    kinds: &'static [Fault],
    /// Agents are called; otherwise a run ends as soon as it is driven.
    calls: bool,
    text: bool,
    tools: bool,
    /// `recovery` is `continue`. Calls have no results.
    continues: bool,
    /// `recovery` is `none`.
    once: bool,
    /// The first run answers interrupts of before.
    approved: bool,
    budget: u8,
    fails: bool,
    stops: u8,
    changes: u8,
    edits: bool,
    /// Runs from here on may be queued.
    items: u8,
    revokes: bool,
    /// Runs up to here may end with interrupts, so many at a time.
    interrupted: u8,
    opens: u8,
    answers: bool,
    /// The run of a start that brings answers, and those of producers outside.
    resumed: Option<u8>,
    produced: &'static [(u8, Author)],
    /// What has to come about somewhere, or the scope shows little.
    reaches: &'static [(&'static str, Condition)],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Spent {
    faults: u8,
    asks: u8,
    stops: u8,
    changes: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    store: Store,
    database: bool,
    /// What a standby has got, once that is all that it will get.
    replica: Option<Box<Store>>,
    nodes: [Node; 2],
    wires: Vec<Wire>,
    /// Calls that the agent got, by run and attempt.
    calls: [[u8; 4]; RUNS],
    askers: [Asker; QUESTIONS],
    revoked: u8,
    cancelled: u8,
    accepted: u8,
    spent: Spent,
    wrong: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Ask(u8, u8),
    Commit(usize),
    Deliver(usize),
    Scan(u8, u8),
    Promote(u8),
    Exit(u8),
    Enforce(u8),
    Adopt(u8),
    Copy,
    Drive(u8, u8, Step),
    Tick,
    Back,
    Wake(u8),
    Beat(u8),
    Learn(u8),
    Look(u8),
    Resume(u8),
    Produced(u8, Kind),
    Fail(Fault),
    Change(Change),
    Stop(u8, bool),
    Revoke(u8),
    Answer(u8),
    Direct(u8),
    Produce(u8, Author),
}

impl State {
    /// The agent is called; `told` are the attempts whose tool calls it is told of, if it continues.
    fn call(&mut self, run: u8, attempt: u8, told: Option<u8>) {
        let calls = &mut self.calls[usize::from(run)];
        calls[usize::from(attempt).min(4) - 1] += 1;
        // A process that was paused may call late; what counts is what its attempt began after.
        let mut tools = self.store.of(run).filter(|entry| entry.kind == Kind::Tool && entry.attempt < attempt);
        self.wrong |= match told {
            Some(told) if tools.any(|entry| told & 1 << entry.attempt == 0) => UNTOLD,
            None if tools.next().is_some() => AGAIN,
            _ => 0,
        };
    }

    fn append(&mut self, run: u8, node: u8, kind: Kind) -> bool {
        let driver = self.nodes[usize::from(node)].drivers[usize::from(run)];
        let turn = self.store.turns[usize::from(run)];
        let stored = self.store.append(run, driver.fence, driver.attempt, kind);
        let old = turn.is_none_or(|turn| turn.attempt != driver.attempt || turn.driver != Some(node));
        self.wrong |= if stored && old { OLD_APPEND } else { 0 };
        stored
    }
}

impl Scope {
    /// What goes on by itself. It ends, since nothing of it can be repeated without something that need not happen.
    fn progress(&self, s: &State, actions: &mut Vec<Action>) {
        for (index, wire) in s.wires.iter().enumerate() {
            let running = s.nodes[usize::from(wire.node)].life == Life::Running;
            actions.extend((s.database && wire.answer.is_none()).then_some(Action::Commit(index)));
            actions.extend((wire.answer.is_some() && running).then_some(Action::Deliver(index)));
        }
        nodes::actions(self, s, actions);
        interrupts::actions(self, s, actions);
        actions.extend((!s.database).then_some(Action::Back));
        for node in 0..self.nodes {
            actions.extend((s.nodes[usize::from(node)].life == Life::Paused).then_some(Action::Wake(node)));
        }
        actions.extend((self.faults > 0).then_some(Action::Tick));
    }

    fn choices(&self, s: &State, actions: &mut Vec<Action>) {
        people::actions(self, s, actions);
        let copies = self.kinds.contains(&Fault::Failover) && s.store.generation == 0 && s.replica.is_none();
        actions.extend(copies.then_some(Action::Copy));
        if s.database {
            let open = |slot: usize| self.answers && s.store.questions[slot].is_some_and(|q| q.settled.is_none());
            actions.extend((0..QUESTIONS).filter(|slot| open(*slot)).map(|slot| Action::Answer(slot as u8)));
            actions.extend(self.resumed.map(Action::Direct));
            actions.extend(self.productions().map(|(run, author)| Action::Produce(run, author)));
        }
    }

    fn step(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Ask(node, run) => {
                self.ask(s, node, run)?;
                s.spent.asks += 1;
            }
            Action::Commit(index) => self.commit(s, index, false)?,
            Action::Deliver(index) => {
                let wire = s.wires.remove(index);
                self.deliver(s, wire);
            }
            Action::Scan(node, run) => self.scan(s, node, run)?,
            Action::Promote(node) => self.promote(s, node)?,
            Action::Exit(node) => self.exit(s, node)?,
            Action::Adopt(node) => self.adopt(s, node)?,
            Action::Copy => s.replica = Some(Box::new(s.store.clone())),
            Action::Enforce(node) => self.enforce(s, node)?,
            Action::Drive(node, run, step) => self.drive(s, node, run, step)?,
            Action::Look(question) => self.look(s, Some(question), question % self.nodes)?,
            Action::Resume(node) => self.look(s, None, node)?,
            Action::Produced(run, kind) => self.produced(s, run, kind)?,
            Action::Fail(fault) => self.fail(s, fault)?,
            Action::Change(change) => self.change(s, 0, change)?,
            Action::Stop(run, holds) => s.stop(self, run, holds)?,
            Action::Revoke(run) => s.revoke(run),
            Action::Answer(question) => self.answer(s, question)?,
            Action::Direct(run) => self.resume(s, 1, run)?,
            Action::Produce(run, author) => self.produce(s, run, author)?,
            Action::Tick | Action::Back | Action::Wake(_) | Action::Beat(_) | Action::Learn(_) => {
                people::pass(s, action)?;
            }
        }
        Some(())
    }

    fn after(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        self.step(&mut s, action)?;
        (s != *before).then_some(s)
    }

    /// Nothing goes on by itself.
    fn rests(&self, s: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(s, &mut actions);
        actions.into_iter().all(|action| self.after(s, action).is_none())
    }
}

impl Model for Scope {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            store: Store::default(),
            database: true,
            replica: None,
            nodes: [Node::new(), Node::new()],
            wires: Vec::new(),
            calls: Default::default(),
            askers: Default::default(),
            revoked: 0,
            cancelled: 0,
            accepted: 0,
            spent: Spent::default(),
            wrong: 0,
        }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        self.progress(s, actions);
        self.choices(s, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        self.after(before, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all(self)
    }
}
