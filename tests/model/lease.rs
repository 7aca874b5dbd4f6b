//! The lease protocol of one thread, checked exhaustively with stateright: head row, log and run records (the store),
//! the lock in front of it (the gate), producers, starts that take over, and reapers.
//!
//! What is modelled
//! - *Store*: `start`, `append`, `close` are one atomic statement each. Between two of them anything else may happen.
//! - *Gate*: its key may vanish at any time. A start passes the gate first and the store later, or dies in between.
//! - *Network*: a request may arrive late, again or out of order, whatever has become of its run. So come retries after
//!   a lost answer (the ambiguous commit), and a paused holder that never noticed that it lost its lease.
//! - *Crash*: is not an action. Properties are judged in every state and no actor is ever forced to act, so a crashed
//!   actor is one that never acts again. The rest of a crash (a key, half a start, pending requests, a lease) stays in
//!   the state. A producer that begins again with the same run id only repeats requests.
//! - *Time*: a lease may expire at any time, a healthy holder's too, and is renewed as long as no other run took over.
//! - *Closing*: a read of (fence, tail), up to which open messages are folded, and later the statement that closes by
//!   what was read. Reapers do it, and starts that find an expired lease; two such reads may be under way at once.
//! - *Stop*: when it has waited long enough, it fences the run, which then may be closed whatever its lease.
//!
//! Faults are not counted; only runs and their events are bounded, in two scopes that are small in different ways.
//!
//! What is not: durations (that a reaper comes in time; that a closer gets through which keeps missing because its run
//! keeps appending), `finishing` (here a lock that is released early is a lease that expired early), other bytes under a
//! stored producer_seq, batches, a finished run appended whole, delete, readers, and whether the SQL is this atomic.
//!
//! Negative controls: every other [`Design`] lacks one rule, and a test demands that the checker finds what this breaks.
//! Every property is broken by one of them: one that nothing can break would check nothing.

use std::time::Instant;

use stateright::{Checker, Model, Property};

const MAX_RUNS: usize = 3;

/// The design as it is, or without one of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    Whole,
    NoFenceCheck,           // an append does not compare the fence
    FenceFromGate,          // the fence is counted in the gate, and lost with it
    FenceOutlivesRun,       // an append compares the fence only, and the end of a run does not change it
    NoDuplicateCheck,       // the statement of an append does not compare producer_seq
    FenceBeforeDuplicate,   // the fence is compared first, so a stored event, sent again, may be refused
    AckUnchecked,           // an append that changed no row is answered with success
    TerminalWithoutRelease, // the lease is released after the terminal event, and a crash comes in between
    CloseWithoutTailCheck,  // a closer does not compare the tail that it folded up to
    CloseWithoutLeaseCheck, // a closer does not look again whether the lease has run out
    ReaperReadsGate,        // a reaper closes only what the gate still names
    GateDecides,            // the winner of the gate does not have to pass the store
    StartTwice,             // a start does not know its own retry
    KeyOfEndedRunOnly,      // the key of a run that has ended is taken over, but not that of one which never began
}
use Design::*;

/// A closer's entries have no producer_seq, and the last of them is terminal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    seq: u8,
    run: usize,
    fence: u8, // the one that its writer showed
    producer_seq: Option<u8>,
    terminal: bool,
}

/// What is kept of a run for ever. While it is active, its producer_seq is in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    fence: u8,
    first_seq: u8,
    producer_seq: u8,
    ended: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Head {
    tail: u8,
    fence: u8,
    active: Option<usize>,
    producer_seq: u8,
    lease_live: bool,
    stopping: bool,
}

/// The fence and the tail that a closer read.
type Seen = (u8, u8);

enum Start {
    Runs,
    Refused,
    ReadAgain,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Store {
    head: Head,
    log: Vec<Entry>,
    records: [Option<Record>; MAX_RUNS],
}

impl Store {
    fn start(&mut self, design: Design, run: usize, token: u8, seen: Option<Seen>) -> Start {
        if self.records[run].is_some() && design != StartTwice {
            return Start::Runs;
        }
        if self.head.active.is_some() && design != GateDecides {
            if !self.closable() {
                return Start::Refused;
            }
            if !seen.is_some_and(|seen| self.close(design, seen)) {
                return Start::ReadAgain;
            }
        }
        let tail = self.head.tail;
        let fence = if design == FenceFromGate { token } else { self.head.fence + 1 };
        self.records[run] = Some(Record { fence, first_seq: tail + 1, producer_seq: 0, ended: false });
        self.head = Head { tail, fence, active: Some(run), lease_live: true, ..Head::default() };
        Start::Runs
    }

    /// The seq that is acknowledged; `None` if the append is refused.
    fn append(&mut self, design: Design, run: usize, n: u8, last: u8) -> Option<u8> {
        let record = self.records[run]?;
        let ack = record.first_seq + n - 1;
        // By whether the run is over, not by its fence: a stop changes the fence while the record is not yet written.
        // And without the closer's entries: a stale event would be treated as a stored one.
        let stored = if record.ended { record.producer_seq } else { self.head.producer_seq };
        let may_write = match design {
            NoFenceCheck => true,
            FenceOutlivesRun => self.head.fence == record.fence,
            _ => self.holds_lease(run),
        };
        if n <= stored && design != NoDuplicateCheck && (may_write || design != FenceBeforeDuplicate) {
            return Some(ack);
        }
        if !may_write {
            return (design == AckUnchecked).then_some(ack);
        }
        if n > self.head.producer_seq + 1 {
            return None;
        }
        let seq = self.head.tail + 1;
        self.log.push(Entry { seq, run, fence: record.fence, producer_seq: Some(n), terminal: n == last });
        (self.head.tail, self.head.producer_seq) = (seq, n);
        self.head.lease_live = self.head.active.is_some();
        if n == last && design != TerminalWithoutRelease {
            self.end(run);
        }
        Some(seq)
    }

    /// Whether it closed. Its entries follow what was folded; the head counts them from where it stands.
    fn close(&mut self, design: Design, (fence, tail): Seen) -> bool {
        let Some(run) = self.head.active else { return false };
        let same_tail = self.head.tail == tail || design == CloseWithoutTailCheck;
        let in_time = self.closable() || design == CloseWithoutLeaseCheck;
        if self.head.fence != fence || !same_tail || !in_time {
            return false;
        }
        // A run that never sent an event leaves no trace in the log, unless it was stopped and its end is awaited.
        if self.head.stopping || self.records[run].is_some_and(|record| tail >= record.first_seq) {
            let entry = |seq, terminal| Entry { seq, run, fence, producer_seq: None, terminal };
            self.log.extend([entry(tail + 1, false), entry(tail + 2, true)]);
            self.head.tail += 2;
        }
        self.end(run);
        true
    }

    // What follows are parts of statements.

    /// Compares the fence and whether there is an active run, but not the run's id: this has to be enough.
    fn holds_lease(&self, run: usize) -> bool {
        self.head.active.is_some() && self.records[run].is_some_and(|record| record.fence == self.head.fence)
    }

    fn closable(&self) -> bool {
        self.head.active.is_some() && (self.head.stopping || !self.head.lease_live)
    }

    fn end(&mut self, run: usize) {
        let Head { tail, fence, producer_seq, .. } = self.head;
        if let Some(record) = &mut self.records[run] {
            (record.producer_seq, record.ended) = (producer_seq, true);
        }
        self.head = Head { tail, fence, producer_seq, ..Head::default() };
    }

    fn seen(&self) -> Seen {
        (self.head.fence, self.head.tail)
    }

    fn of(&self, run: usize) -> impl Iterator<Item = &Entry> {
        self.log.iter().filter(move |entry| entry.run == run)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    store: Store,
    key: Option<usize>,               // the run that the gate's key names
    counter: u8,                      // the gate's; FenceFromGate only
    starting: [Option<u8>; MAX_RUNS], // past the gate and not yet at the store, with the counter as it was
    reads: [Option<Seen>; 2],         // of closers that have not closed yet
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Knock(usize),                // a start, sent first or again, comes to the gate
    Start(usize, Option<usize>), // past the gate it comes to the store, maybe with a read of what it has to close
    Append(usize, u8),           // the event with this producer_seq comes to the store, for the first time or again
    Renew(usize),                // a heartbeat
    Stop,                        // the run did not end in time: it is fenced, so that it cannot outrun its closer
    Expire,                      // the lease runs out
    LoseKey,                     // the gate's key vanishes, by FLUSHALL, restart, expiry or a tidy owner
    Read,                        // a reaper, or a start that found an expired lease, reads the head
    Reap(usize),                 // a reaper closes by its read
}

struct Thread {
    design: Design,
    runs: usize,
    last: u8, // producer_seq of a run's terminal event
    reads: usize,
    stops: bool,
}

impl Thread {
    /// A start at the gate: a key that another run holds by right is a 409, any other is taken over.
    fn knock(&self, s: &mut State, run: usize) {
        let by_right = |other: usize| match self.design {
            KeyOfEndedRunOnly => !s.store.records[other].is_some_and(|record| record.ended),
            _ => s.store.head.active == Some(other) && !s.store.closable(),
        };
        if !s.key.is_some_and(|other| other != run && by_right(other)) {
            s.key = Some(run);
            s.counter += u8::from(self.design == FenceFromGate);
            s.starting[run] = Some(s.counter);
        }
    }

    fn start(&self, s: &mut State, run: usize, seen: Option<Seen>) {
        let Some(token) = s.starting[run] else { return };
        match s.store.start(self.design, run, token, seen) {
            Start::ReadAgain => return,
            Start::Refused if s.key == Some(run) => s.key = None,
            Start::Refused | Start::Runs => {}
        }
        s.starting[run] = None;
    }

    fn reap(&self, s: &mut State, seen: Seen) -> bool {
        (self.design != ReaperReadsGate || s.key == s.store.head.active) && s.store.close(self.design, seen)
    }

    // What would come of it, if this came next? The properties ask.

    fn closes(&self, s: &State, seen: &Seen) -> bool {
        s.store.clone().close(self.design, *seen)
    }

    fn appends(&self, s: &State, run: usize, n: u8) -> (Option<u8>, Store) {
        let mut store = s.store.clone();
        (store.append(self.design, run, n, self.last), store)
    }
}

impl Model for Thread {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        let reads = || (0..self.reads).filter(|read| s.reads[*read].is_some());
        for run in 0..self.runs {
            if s.starting[run].is_some() {
                actions.push(Action::Start(run, None));
                actions.extend(reads().map(|read| Action::Start(run, Some(read))));
            } else if run == 0 || s.starting[run - 1].is_some() || s.store.records[run - 1].is_some() {
                // Runs that have done nothing yet are alike, so it is enough that the first of them comes forward.
                actions.push(Action::Knock(run));
            }
            if s.store.records[run].is_some() {
                actions.push(Action::Renew(run));
                actions.extend((1..=self.last).map(|n| Action::Append(run, n)));
            }
        }
        actions.extend(self.stops.then_some(Action::Stop));
        actions.extend([Action::Expire, Action::LoseKey, Action::Read]);
        actions.extend(reads().map(Action::Reap));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        match action {
            Action::Knock(run) => self.knock(&mut s, run),
            Action::Start(run, read) => {
                let seen = read.and_then(|read| s.reads[read].take());
                self.start(&mut s, run, seen);
            }
            Action::Append(run, n) => _ = s.store.append(self.design, run, n, self.last),
            Action::Renew(run) => s.store.head.lease_live |= s.store.holds_lease(run),
            Action::Stop => {
                s.store.head.active.filter(|_| !s.store.head.stopping)?;
                (s.store.head.fence, s.store.head.stopping) = (s.store.head.fence + 1, true);
            }
            Action::Expire => s.store.head.lease_live = false,
            Action::LoseKey => (s.key, s.counter) = (None, 0),
            Action::Read => {
                let free = s.reads[..self.reads].iter_mut().find(|read| read.is_none())?;
                *free = s.store.closable().then(|| s.store.seen());
            }
            Action::Reap(read) => {
                let seen = s.reads[read].take()?;
                self.reap(&mut s, seen);
            }
        }
        // Which of two readers read what makes no difference.
        s.reads[..self.reads].sort();
        (s != *before).then_some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let (always, sometimes) = (Property::<Self>::always, Property::<Self>::sometimes);
        vec![
            always("dense", |_, s| s.store.log.iter().map(|entry| entry.seq).eq(1..=s.store.head.tail)),
            always("fences rise", |_, s| s.store.log.is_sorted_by_key(|entry| entry.fence)),
            always("runs stand together", |m, s| {
                let pieces = || s.store.log.chunk_by(|a, b| a.run == b.run);
                (0..m.runs).all(|run| pieces().filter(|piece| piece[0].run == run).count() <= 1)
            }),
            always("nothing after the end", |m, s| {
                (0..m.runs).all(|run| s.store.of(run).skip_while(|entry| !entry.terminal).count() <= 1)
            }),
            always("one end each", |m, s| {
                let ends = |run| s.store.of(run).filter(|entry| entry.terminal).count();
                let continues = |run| s.store.head.active == Some(run) || s.store.of(run).next().is_none();
                (0..m.runs).all(|run| continues(run) || ends(run) == 1)
            }),
            always("one active", |m, s| {
                let open = |run: usize| s.store.records[run].is_some_and(|record| !record.ended);
                (0..m.runs).all(|run| open(run) == (s.store.head.active == Some(run)))
            }),
            always("stored once", |m, s| {
                let times = |run, n| s.store.of(run).filter(|entry| entry.producer_seq == Some(n)).count();
                (0..m.runs).all(|run| (1..=m.last).all(|n| times(run, n) <= 1))
            }),
            always("acknowledged is stored", |m, s| {
                let honest = |run, n| match m.appends(s, run, n) {
                    (Some(seq), after) => after.of(run).any(|e| e.seq == seq && e.producer_seq == Some(n)),
                    (None, after) => after == s.store,
                };
                (0..m.runs).all(|run| (1..=m.last).all(|n| honest(run, n)))
            }),
            always("same answer again", |m, s| {
                let again = |entry: &Entry, n| m.appends(s, entry.run, n) == (Some(entry.seq), s.store.clone());
                s.store.log.iter().all(|entry| entry.producer_seq.is_none_or(|n| again(entry, n)))
            }),
            always("a live lease is safe", |m, s| {
                s.store.closable() || s.reads.iter().flatten().all(|seen| !m.closes(s, seen))
            }),
            // Should all fall silent now: the lease runs out, and a single pass of a reaper is enough.
            always("a reaper can end it", |m, s| {
                let mut s = s.clone();
                s.store.head.lease_live = false;
                let seen = s.store.seen();
                s.store.head.active.is_none() || m.reap(&mut s, seen)
            }),
            always("no false 409", |m, s| {
                let gets_in = |run| {
                    let mut s = s.clone();
                    let seen = s.store.seen();
                    m.knock(&mut s, run);
                    m.start(&mut s, run, Some(seen));
                    s.store.head.active == Some(run)
                };
                let is_free = s.store.head.active.is_none() || s.store.closable();
                !is_free || (0..m.runs).all(|run| s.store.records[run].is_some() || gets_in(run))
            }),
            sometimes("all runs finish by themselves", |m, s| {
                (0..m.runs).all(|run| s.store.of(run).any(|entry| entry.producer_seq == Some(m.last)))
            }),
            sometimes("a closer misses, as the run went on", |m, s| {
                s.store.closable() && s.reads.iter().flatten().any(|seen| !m.closes(s, seen))
            }),
            sometimes("a start closes its predecessor", |m, s| {
                let starting = s.starting.iter().any(Option::is_some);
                starting && s.reads.iter().flatten().any(|seen| m.closes(s, seen))
            }),
            sometimes("a run leaves no trace", |m, s| {
                (0..m.runs).any(|run| s.store.records[run].is_some_and(|r| r.ended) && s.store.of(run).next().is_none())
            }),
            sometimes("a stale writer is refused under its successor", |m, s| {
                let stale = s.store.log.iter().filter(|e| s.store.head.active.is_some_and(|active| active != e.run));
                stale.map(|entry| entry.run).any(|run| (1..=m.last).any(|n| m.appends(s, run, n).0.is_none()))
            }),
        ]
    }
}

fn holds(thread: Thread) {
    let begun = Instant::now();
    let checker = thread.checker().spawn_bfs().join();
    checker.assert_properties();
    println!("holds in all {} states, checked in {:?}", checker.unique_state_count(), begun.elapsed());
}

#[test]
fn two_runs_with_stops_and_two_closers() {
    holds(Thread { design: Whole, runs: 2, last: 3, reads: 2, stops: true });
}

#[test]
fn three_runs() {
    holds(Thread { design: Whole, runs: 3, last: 2, reads: 1, stops: false });
}

/// Searches level by level, so that the trace it prints is a shortest one.
fn breaks(design: Design, property: &'static str) {
    for depth in 2..=12 {
        let thread = Thread { design, runs: 2, last: 3, reads: 1, stops: false };
        let checker = thread.checker().target_max_depth(depth).spawn_bfs().join();
        if let Some(path) = checker.discovery(property) {
            let (states, trace) = (checker.unique_state_count(), path.into_actions());
            return println!("{design:?} breaks \"{property}\": {trace:?}, in {states} states");
        }
    }
    panic!("{design:?} was not found to break \"{property}\"");
}

macro_rules! controls {
    ($($test:ident: $design:ident breaks $property:literal;)*) => { $(#[test] fn $test() { breaks($design, $property); })* };
}

controls! {
    without_fence_check: NoFenceCheck breaks "runs stand together";
    with_a_fence_from_the_gate: FenceFromGate breaks "runs stand together";
    with_a_fence_from_a_gate_that_forgets_nothing: FenceFromGate breaks "fences rise";
    with_a_fence_that_outlives_its_run: FenceOutlivesRun breaks "nothing after the end";
    without_duplicate_check: NoDuplicateCheck breaks "stored once";
    with_the_fence_before_the_duplicate_check: FenceBeforeDuplicate breaks "same answer again";
    with_unchecked_acknowledgements: AckUnchecked breaks "acknowledged is stored";
    with_terminal_and_release_apart: TerminalWithoutRelease breaks "one end each";
    without_tail_check_in_closing: CloseWithoutTailCheck breaks "dense";
    without_lease_check_in_closing: CloseWithoutLeaseCheck breaks "a live lease is safe";
    with_a_reaper_that_reads_the_gate: ReaperReadsGate breaks "a reaper can end it";
    with_a_gate_that_decides: GateDecides breaks "one active";
    with_starts_that_do_not_know_their_retry: StartTwice breaks "stored once";
    with_keys_of_ended_runs_only: KeyOfEndedRunOnly breaks "no false 409";
}
