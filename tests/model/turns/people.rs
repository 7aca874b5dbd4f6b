//! What people do, and what fails.

use super::{
    Action, Fault, Scope, Spent, State,
    nodes::{Life, Stage, tick},
    planted::Design::*,
    store::{Finish, Hold, RUNS, Store},
    wire::{Edit, Statement, Wire},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Enqueue(u8),
    /// In front of all others; the active run is stopped then.
    Interrupt(u8),
    Cancel(u8),
    Edit(u8),
    /// The last item moves to the front.
    Move,
    Hold,
    Release,
}

impl Scope {
    /// Somebody reads the queue and wants it changed. The statement may arrive at any later time.
    pub fn change(&self, s: &mut State, node: u8, change: Change) -> Option<()> {
        let head = s.store.head;
        let mut list = s.store.items();
        let (mut new, mut gone, mut held) = (None, 0, head.held);
        match change {
            Change::Enqueue(run) | Change::Interrupt(run) => {
                let known = s.store.runs[usize::from(run)].is_some() || list.contains(&run);
                // Into a free thread it would be a start.
                if known || head.active.is_none() && (list.is_empty() || head.held.is_some()) {
                    return None;
                }
                let first = matches!(change, Change::Interrupt(_));
                list.insert(if first { 0 } else { list.len() }, run);
                new = Some(run);
            }
            Change::Cancel(run) => {
                list.contains(&run).then_some(())?;
                list.retain(|item| *item != run);
                gone = 1 << run;
            }
            Change::Move => {
                let last = list.pop().filter(|_| !list.is_empty())?;
                list.insert(0, last);
            }
            Change::Edit(run) => list.contains(&run).then_some(())?,
            Change::Hold => held = Some(Hold::Hand),
            Change::Release => held = None,
        }
        let edited = if let Change::Edit(run) = change { Some(run) } else { None };
        if new.or(edited).is_none() && gone == 0 && held == head.held && change != Change::Move {
            return None;
        }
        let mut items = [u8::MAX; RUNS];
        items[..list.len()].copy_from_slice(&list);
        let edit = Statement::Edit(Edit { queue: head.queue, items, new, edited, gone, held });
        let (awaited, answer, knows, question) = (false, None, 0, None);
        let generation = s.store.generation;
        s.wires.push(Wire { node, run: u8::MAX, statement: edit, awaited, answer, knows, question, generation });
        s.spent.changes += 1;
        Some(())
    }

    pub fn fail(&self, s: &mut State, fault: Fault) -> Option<()> {
        match fault {
            Fault::Die(node) | Fault::Drain(node) | Fault::Pause(node) => {
                let slot = usize::from(node);
                let other = s.nodes.iter().enumerate().find(|(at, _)| *at != slot && *at < usize::from(self.nodes));
                // Somebody has to be left.
                let alone = other.is_none_or(|(_, other)| other.life == Life::Dead || other.leaving);
                let me = &mut s.nodes[slot];
                if me.life != Life::Running || alone && !matches!(fault, Fault::Pause(_)) {
                    return None;
                }
                match fault {
                    Fault::Drain(_) if me.leaving => return None,
                    Fault::Drain(_) => me.leaving = true,
                    Fault::Pause(_) => me.life = Life::Paused,
                    _ => {
                        (me.life, me.drivers) = (Life::Dead, Default::default());
                        s.wires.retain(|wire| wire.node != node || wire.answer.is_none());
                        s.wires.iter_mut().filter(|wire| wire.node == node).for_each(|wire| wire.awaited = false);
                    }
                }
            }
            Fault::Panic(node, run) => {
                let me = &mut s.nodes[usize::from(node)];
                let drives = !matches!(me.drivers[usize::from(run)].stage, Stage::Unknown | Stage::Expected);
                (me.life == Life::Running && drives).then_some(())?;
                me.forget(run);
                for wire in s.wires.iter_mut().filter(|wire| (wire.node, wire.run) == (node, run)) {
                    wire.awaited = false;
                    // What a task has entered into the registry goes with the task.
                    if let Statement::Finish(Finish { next: Some(next), .. }) = wire.statement
                        && self.design != EntryOutlivesTask
                    {
                        me.expects_no_more(next);
                    }
                }
            }
            Fault::Away => s.database = s.database.then_some(false)?,
            Fault::Failover => {
                let generation = s.store.generation + 1;
                s.store = Store { generation, ..*s.replica.take()? };
                let there = |run: &usize| s.store.runs[*run].is_some() || s.store.turns[*run].is_some();
                s.accepted = (0..RUNS).filter(there).map(|run| 1 << run).sum();
                for wire in std::mem::take(&mut s.wires) {
                    if wire.answer.is_some() {
                        s.wires.push(wire);
                    } else if wire.awaited {
                        self.gives_up(s, wire);
                    }
                }
            }
            Fault::Unanswered(index) => {
                s.wires.get(index).filter(|wire| wire.awaited)?;
                self.commit(s, index, true)?;
            }
            Fault::Abandon(index) => self.abandon(s, index)?,
        }
        s.spent.faults += 1;
        Some(())
    }
}

/// All that people may do, and all that may fail: nothing of it has to happen.
pub fn actions(scope: &Scope, s: &State, actions: &mut Vec<Action>) {
    let Spent { faults, asks, stops, changes } = s.spent;
    let untouched = s.wires.is_empty() && s.accepted == 0;
    for node in 0..scope.nodes {
        // Nodes that have done nothing yet are alike.
        if asks < scope.asks && scope.works(s, node) && !s.nodes[usize::from(node)].leaving && (node == 0 || !untouched)
        {
            actions.extend((0..scope.runs.min(scope.asked)).map(|run| Action::Ask(node, run)));
        }
    }
    if changes < scope.changes && s.database {
        for run in scope.items..scope.runs {
            // So are items that nobody has seen yet.
            if s.accepted & (1 << run) != 0 || run == scope.items || s.accepted & (1 << (run - 1)) != 0 {
                actions.push(Action::Change(Change::Enqueue(run)));
                actions.extend(scope.edits.then_some(Action::Change(Change::Interrupt(run))));
                actions.extend(scope.edits.then_some(Action::Change(Change::Edit(run))));
            }
            actions.push(Action::Change(Change::Cancel(run)));
        }
        if scope.edits {
            actions.extend([Change::Move, Change::Hold, Change::Release].map(Action::Change));
        }
    }
    if let Some(run) = s.store.head.active.filter(|_| stops < scope.stops && s.database) {
        actions.extend([true, false].map(|holds| Action::Stop(run, holds)));
    }
    if scope.revokes && s.revoked == 0 {
        actions.extend((1..scope.runs).filter(|run| s.accepted & (1 << run) != 0).map(Action::Revoke));
    }
    if faults < scope.faults {
        for fault in scope.kinds {
            match fault {
                Fault::Die(_) => actions.extend((0..scope.nodes).map(|node| Action::Fail(Fault::Die(node)))),
                Fault::Drain(_) => actions.extend((0..scope.nodes).map(|node| Action::Fail(Fault::Drain(node)))),
                Fault::Pause(_) => actions.extend((0..scope.nodes).map(|node| Action::Fail(Fault::Pause(node)))),
                Fault::Panic(..) => {
                    let runs = |node| (0..scope.runs).map(move |run| Action::Fail(Fault::Panic(node, run)));
                    actions.extend((0..scope.nodes).flat_map(runs));
                }
                Fault::Failover => actions.push(Action::Fail(Fault::Failover)),
                Fault::Away => actions.push(Action::Fail(Fault::Away)),
                Fault::Unanswered(_) => {
                    actions.extend((0..s.wires.len()).map(|index| Action::Fail(Fault::Unanswered(index))));
                }
                Fault::Abandon(_) => {
                    actions.extend((0..s.wires.len()).map(|index| Action::Fail(Fault::Abandon(index))));
                }
            }
        }
    }
}

/// What time does: it heals.
pub fn pass(s: &mut State, action: Action) -> Option<()> {
    match action {
        Action::Tick => tick(s),
        Action::Back => s.database = (!s.database).then_some(true)?,
        Action::Wake(node) => {
            let node = &mut s.nodes[usize::from(node)];
            node.life = (node.life == Life::Paused).then_some(Life::Running)?;
        }
        Action::Beat(node) => {
            let node = &mut s.nodes[usize::from(node)];
            (node.fresh, node.late) = (true, false);
        }
        Action::Learn(node) => s.nodes[usize::from(node)].knows = s.revoked,
        _ => return None,
    }
    Some(())
}

impl State {
    pub fn revoke(&mut self, run: u8) {
        self.revoked |= 1 << run;
    }

    pub fn stop(&mut self, scope: &Scope, run: u8, holds: bool) -> Option<()> {
        self.spent.stops += 1;
        self.store.stop(scope.design, run, holds).then_some(())
    }
}
