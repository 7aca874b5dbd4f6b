//! Forks of a thread, checked exhaustively with stateright: *a child reads the prefix of its parent as it was, for ever, and what
//! no thread reads is removed.*
//!
//! What is modelled
//! - *Log*: rows of a thread, each with events from its first seq on; sealing puts some into one row. A thread reads the
//!   rows of each owner up to a seq, and its own ones after that; folds begin with a snapshot.
//! - *Fork*: a statement that reads its parent, and inserts the child later. Meanwhile anything else may happen that the
//!   lock of the parent's head (`FOR KEY SHARE`) lets happen.
//! - *Delete*: at once, or by way of the trash, from which a thread may come back.
//! - *Purge*: a statement that reads who needs the rows of a deleted thread, and removes the others. What is read is still so
//!   when they are removed, if the deleted thread's row was locked before. Several nodes purge at once.
//!
//! Nothing has to happen but forks and purges that were begun, and purges of what is deleted. When nothing of these is
//! left to do, nothing is stored that no thread reads.
//!
//! What is not: runs (they are stored and removed like rows), closers of a run that a fork cuts, several families, and
//! the lock order. Which member of a family is listed is a model of its own (`listed.rs`).
//!
//! Negative controls: every other [`Design`] lacks one rule, and a test demands that the checker finds what this breaks.

mod listed;
mod store;

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use self::store::{Forking, Life, Purging, Store, THREADS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    Whole,
    PurgeIgnoresForks,    // a purge removes all rows of a deleted thread
    PurgeKeepsRows,       // a purge keeps a row as a whole of which a child reads a part
    PurgeLeavesSnapshots, // a purge keeps the snapshots of a thread whose rows it keeps
    PurgeReadsFirst,      // a purge reads who needs the rows, and locks the deleted thread later
    OwnersSleep,          // the end of a child's purge says nothing to the owners that were kept for it
    LooseEnds,            // the end of a child's purge leaves the child's ancestry behind
    ForkWithoutKeyShare,  // a fork does not lock the head of its parent
    ForkOfDeleted,        // a fork does not look whether its parent still has a head
    SnapshotBeyondBase,   // a fold of a child begins with any snapshot of an owner
    SealMovesUnderBase,   // sealing a child begins at its first seq
    PageUncut,            // a page has whole rows, also those that reach beyond what is shared
    AncestryOfParentOnly, // a child's ancestry is its parent, and not who its parent reads from
    AncestryUncut,        // a child's ancestry has its parent's seqs, also those beyond its own base
    TrashIsDeleted,       // what is in the trash counts as no reader
}
use Design::*;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    store: Store,
    forking: Option<Forking>,
    /// Of several nodes, each of another thread.
    purging: Vec<Purging>,
    /// What each thread has read since it is there.
    truth: [Vec<u8>; THREADS],
    appends: u8,
    trashed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Append(usize),
    Seal(usize),
    Snapshot(usize),
    Fork(usize, u8),
    Forked,
    Delete(usize),
    Trash(usize),
    Restore(usize),
    Expire(usize),
    Purge(usize),
    Purged(usize),
}

struct Family {
    design: Design,
    threads: usize,
    appends: u8,
    snapshots: bool,
    seals: bool,
    trash: bool,
}

impl Family {
    fn progress(&self, s: &State, actions: &mut Vec<Action>) {
        actions.extend(s.forking.is_some().then_some(Action::Forked));
        actions.extend((0..s.purging.len()).map(Action::Purged));
        actions.extend((0..self.threads).map(Action::Purge));
    }

    /// Deleting and trashing change the key of the head, which the lock of a fork forbids.
    fn is_locked(&self, s: &State, thread: usize) -> bool {
        self.design != ForkWithoutKeyShare && s.forking.as_ref().is_some_and(|forking| forking.parent == thread)
    }

    fn step(&self, s: &mut State, action: Action) -> Option<()> {
        let (design, store) = (self.design, &mut s.store);
        match action {
            Action::Append(thread) => {
                (store.threads[thread].life == Life::Live).then_some(())?;
                s.appends += 1;
                // Each event is another one.
                store.append(thread, 10 + s.appends);
                s.truth[thread].push(10 + s.appends);
            }
            Action::Seal(thread) => store.seal(design, thread)?,
            Action::Snapshot(thread) => store.snapshot(thread, &s.truth[thread])?,
            Action::Fork(parent, base) => {
                (s.forking.is_none() && store.threads[self.threads - 1].life == Life::None).then_some(())?;
                let shared = s.truth[parent][..usize::from(base)].to_vec();
                s.forking = Some(store.fork(design, parent, base, shared)?);
            }
            Action::Forked => {
                let forking = s.forking.take()?;
                let child = store.forked(&forking);
                s.truth[child] = forking.shared;
            }
            Action::Delete(thread) | Action::Trash(thread) => {
                (store.threads[thread].life == Life::Live && !self.is_locked(s, thread)).then_some(())?;
                let trash = matches!(action, Action::Trash(_));
                s.store.threads[thread].life = if trash { Life::Trash } else { Life::Deleted };
                s.trashed |= trash;
            }
            Action::Restore(thread) | Action::Expire(thread) => {
                (store.threads[thread].life == Life::Trash).then_some(())?;
                let back = matches!(action, Action::Restore(_));
                store.threads[thread].life = if back { Life::Live } else { Life::Deleted };
            }
            Action::Purge(thread) => {
                let begun = s.purging.iter().any(|purging| purging.thread == thread);
                (!begun && store.threads[thread].life == Life::Deleted).then_some(())?;
                s.purging.push(store.purge(design, thread));
                s.purging.sort_by_key(|purging| purging.thread);
            }
            Action::Purged(index) => {
                let purging = s.purging.remove(index);
                // Under the lock, what was read is what is there.
                let purging = if design == PurgeReadsFirst { purging } else { store.purge(design, purging.thread) };
                store.purged(design, purging);
            }
        }
        Some(())
    }

    fn rests(&self, s: &State) -> bool {
        let mut actions = Vec::new();
        self.progress(s, &mut actions);
        actions.into_iter().all(|action| self.next_state(s, action).is_none())
    }
}

impl Model for Family {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut truth: [Vec<u8>; THREADS] = Default::default();
        truth[0] = vec![1, 2];
        vec![State {
            store: Store::new(&truth[0]),
            forking: None,
            purging: Vec::new(),
            truth,
            appends: 0,
            trashed: false,
        }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        self.progress(s, actions);
        for thread in 0..self.threads {
            let (life, tail) = (s.store.threads[thread].life, s.store.threads[thread].tail);
            if life == Life::Live {
                actions.extend((s.appends < self.appends).then_some(Action::Append(thread)));
                actions.extend(self.seals.then_some(Action::Seal(thread)));
                actions.extend(self.snapshots.then_some(Action::Snapshot(thread)));
                actions.push(Action::Delete(thread));
                actions.extend((self.trash && !s.trashed).then_some(Action::Trash(thread)));
            }
            if life == Life::Live || self.design == ForkOfDeleted && life == Life::Deleted {
                actions.extend((0..=tail).map(|base| Action::Fork(thread, base)));
            }
            if life == Life::Trash {
                actions.extend([Action::Restore(thread), Action::Expire(thread)]);
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        self.step(&mut s, action)?;
        (s != *before).then_some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let (always, sometimes) = (Property::<Self>::always, Property::<Self>::sometimes);
        let mut properties = vec![
            always("a thread reads what it has read, for ever", |m, s| {
                (0..m.threads)
                    .filter(|thread| s.store.is_readable(*thread))
                    .all(|thread| s.store.read(m.design, thread).as_ref() == Some(&s.truth[thread]))
            }),
            always("a fold shows what its thread reads", |m, s| {
                (0..m.threads)
                    .filter(|thread| s.store.is_readable(*thread))
                    .all(|thread| s.store.fold(m.design, thread).as_ref() == Some(&s.truth[thread]))
            }),
            always("what no thread reads is removed", |m, s| !m.rests(s) || !s.store.has_garbage()),
            sometimes("a grandchild reads what two deleted threads wrote", |_, s| {
                let kept = |thread: usize| s.store.threads[thread].life == Life::Kept;
                kept(0) && kept(1) && s.store.threads[2].life == Life::Live
            }),
            sometimes("a family is gone", |m, s| {
                m.rests(s) && s.store.threads[..m.threads].iter().all(|t| t.life == Life::Gone)
            }),
            sometimes("a parent keeps less than it kept", |_, s| {
                let kept = |thread: usize| s.store.threads[thread].life == Life::Kept;
                kept(0) && s.store.rows_of(0).count() == 1 && s.store.threads[1].life == Life::Gone
            }),
        ];
        if self.seals {
            properties.push(sometimes("a child reads a part of a segment", |_, s| {
                s.store.threads[1].forks.first().is_some_and(|(owner, upto)| {
                    *owner == 0 && s.store.rows_of(0).any(|row| row.first <= *upto && row.last() > *upto)
                })
            }));
        }
        if self.trash {
            properties.push(sometimes("a child comes back from the trash after its parent was deleted", |_, s| {
                s.trashed && s.store.threads[0].life == Life::Kept && s.store.threads[1].life == Life::Live
            }));
        }
        properties
    }
}

fn holds(family: Family, least: usize) {
    let begun = Instant::now();
    let checker = family.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{states} states, {} deep, in {:?}", checker.max_depth(), begun.elapsed());
    checker.assert_properties();
    assert!(states >= least, "a scope that explores {states} states shows nothing");
}

#[test]
fn children_read_their_parents_segments_and_snapshots() {
    holds(Family { design: Whole, threads: 3, appends: 1, snapshots: true, seals: true, trash: true }, 100_000);
}

#[test]
fn children_outlive_a_parent_that_is_deleted_or_comes_back() {
    holds(Family { design: Whole, threads: 3, appends: 2, snapshots: false, seals: true, trash: true }, 80_000);
}

#[test]
fn what_four_threads_read_is_kept_and_nothing_else() {
    holds(Family { design: Whole, threads: 4, appends: 1, snapshots: false, seals: false, trash: false }, 60_000);
}

/// Searches level by level, so that the trace it prints is a shortest one.
fn breaks(design: Design, property: &'static str) {
    for depth in 2..=12 {
        let family = Family { design, threads: 3, appends: 1, snapshots: true, seals: true, trash: true };
        let search = family.checker().target_max_depth(depth).finish_when(HasDiscoveries::AnyOf([property].into()));
        let checker = search.spawn_bfs().join();
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
    with_a_purge_that_ignores_forks: PurgeIgnoresForks breaks "a thread reads what it has read, for ever";
    with_a_purge_that_keeps_whole_rows: PurgeKeepsRows breaks "what no thread reads is removed";
    with_a_purge_that_leaves_snapshots: PurgeLeavesSnapshots breaks "what no thread reads is removed";
    with_a_purge_that_reads_before_it_locks: PurgeReadsFirst breaks "what no thread reads is removed";
    with_owners_that_hear_nothing: OwnersSleep breaks "what no thread reads is removed";
    with_an_ancestry_that_stays: LooseEnds breaks "what no thread reads is removed";
    with_a_fork_that_locks_nothing: ForkWithoutKeyShare breaks "a thread reads what it has read, for ever";
    with_a_fork_of_a_deleted_thread: ForkOfDeleted breaks "a thread reads what it has read, for ever";
    with_a_snapshot_beyond_the_base: SnapshotBeyondBase breaks "a fold shows what its thread reads";
    with_sealing_under_the_base: SealMovesUnderBase breaks "a thread reads what it has read, for ever";
    with_pages_of_whole_rows: PageUncut breaks "a thread reads what it has read, for ever";
    with_an_ancestry_of_the_parent_alone: AncestryOfParentOnly breaks "a thread reads what it has read, for ever";
    with_an_ancestry_beyond_the_base: AncestryUncut breaks "a thread reads what it has read, for ever";
    with_a_trash_that_reads_nothing: TrashIsDeleted breaks "a thread reads what it has read, for ever";
}
