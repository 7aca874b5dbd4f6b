//! Statements under way between a node and the database, and what each commit is judged by.

use super::{
    CANCELLED, EDITED, FREE, HELD, HOLE, JUMPED, OLD_CLOSE, ORDER, OVER, REVOKED, SAID, SETTLED, SHRUNK, Scope, State,
    TWICE,
    nodes::{Life, Stage},
    planted::Design::*,
    store::{Answer, Author, Finish, Hold, RUNS, Start, Store, Take, Turn},
};

/// A change of the queue, made from what was read of it: all items in their new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edit {
    pub queue: u8,
    pub items: [u8; RUNS],
    pub new: Option<u8>,
    pub edited: Option<u8>,
    pub gone: u8,
    pub held: Option<Hold>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    Start(Start),
    Take(Take),
    Finish(Finish),
    Edit(Edit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    pub node: u8,
    pub run: u8,
    pub statement: Statement,
    /// The sender still waits for the answer.
    pub awaited: bool,
    /// Set if it was carried out while its sender was paused.
    pub answer: Option<Answer>,
    /// The revocations that the sender knew of.
    pub knows: u8,
    /// The interrupt whose answer it follows.
    pub question: Option<u8>,
    pub generation: u8,
}

impl Scope {
    pub fn commit(&self, s: &mut State, index: usize, lost: bool) -> Option<()> {
        let mut wire = *s.wires.get(index).filter(|wire| s.database && wire.answer.is_none())?;
        let before = s.store.clone();
        let answer = match wire.statement {
            Statement::Start(start) => s.store.start(self.design, start, wire.node),
            Statement::Take(take) => s.store.take(self.design, take, wire.node),
            Statement::Finish(finish) => s.store.finish(self.design, finish, wire.node),
            Statement::Edit(edit) => self.edit(&mut s.store, edit),
        };
        s.judge(&before, &wire);
        if !wire.awaited {
            s.wires.remove(index);
        } else if lost {
            s.wires.remove(index);
            self.gives_up(s, wire);
        } else if s.nodes[usize::from(wire.node)].life == Life::Paused {
            s.wires[index].answer = Some(answer);
        } else {
            wire.answer = Some(answer);
            s.wires.remove(index);
            self.deliver(s, wire);
        }
        Some(())
    }

    /// An answer of a history that was lost means nothing to a node that has adopted another one.
    pub fn deliver(&self, s: &mut State, mut wire: Wire) {
        wire.answer = wire.answer.filter(|_| wire.generation == s.nodes[usize::from(wire.node)].generation);
        self.take_in(s, wire);
        if let Some(question) = wire.question {
            self.told(s, question, wire);
        }
    }

    /// The outcome is unknown. The statement may still be carried out, whatever its sender believes.
    pub fn abandon(&self, s: &mut State, index: usize) -> Option<()> {
        let wire = *s.wires.get(index).filter(|wire| wire.awaited && wire.answer.is_none())?;
        s.wires[index].awaited = false;
        self.gives_up(s, wire);
        Some(())
    }

    pub fn gives_up(&self, s: &mut State, wire: Wire) {
        self.deliver(s, Wire { answer: None, ..wire });
    }

    fn edit(&self, store: &mut Store, edit: Edit) -> Answer {
        let compared = edit.queue == store.head.queue || self.design == QueueUnversioned;
        let taken = edit.new.is_some_and(|new| {
            let run = store.runs[usize::from(new)].is_some() && self.design != EnqueueOverEnded;
            store.turns[usize::from(new)].is_some() || run
        });
        if !compared || taken {
            return Answer::Refused(false);
        }
        if let Some(new) = edit.new {
            store.turns[usize::from(new)] = Some(Turn { place: Some(0), ..Turn::default() });
        }
        for (run, turn) in store.turns.iter_mut().enumerate() {
            if edit.gone & (1 << run) != 0 {
                *turn = None;
            }
            let place = edit.items.iter().position(|item| usize::from(*item) == run);
            if let (Some(turn), Some(place)) = (turn, place) {
                turn.place = Some(place as u8 + 1);
                turn.input += u8::from(edit.edited == Some(run as u8));
            }
        }
        store.head.queue += 1;
        store.head.held = edit.held;
        store.recount();
        if self.design == QueueUnversioned {
            store.head.queued = edit.items.iter().filter(|item| usize::from(**item) < RUNS).count() as u8;
        }
        Answer::Exists
    }
}

impl State {
    /// What a commit must not have done, whatever the design.
    fn judge(&mut self, before: &Store, wire: &Wire) {
        let after = &self.store;
        let mut wrong = 0;
        let mut is = |bad: bool, bit: u32| wrong |= if bad { bit } else { 0 };
        is(!after.log.starts_with(&before.log), SHRUNK);
        let begun = after.head.active.filter(|run| before.head.active != Some(*run));
        if let Some(run) = begun {
            let (slot, bit) = (usize::from(run), 1 << run);
            let of_queue = match wire.statement {
                Statement::Start(start) => start.queue.is_some(),
                _ => true,
            };
            is(before.runs[slot].is_some(), TWICE);
            let items = before.items();
            if of_queue {
                let waits = |item: &u8| after.turns[usize::from(*item)].is_some();
                is(!items.contains(&run), CANCELLED);
                is(items.iter().find(|item| waits(item)) != Some(&run) && items.contains(&run), ORDER);
                is(before.head.held.is_some_and(|held| held != Hold::Interrupt), HELD);
                is(wire.knows & bit != 0, REVOKED);
                let (asked, begun) = (before.turns[slot].map(|turn| turn.input), after.runs[slot].map(|run| run.input));
                is(asked.is_some() && asked != begun, EDITED);
            } else {
                is(!items.is_empty() && before.head.held.is_none() && before.head.waiting == 0, JUMPED);
            }
            is(after.runs[slot].is_some_and(|run| run.author != Author::Key) && after.open().next().is_some(), OVER);
        }
        if let Statement::Finish(finish) = wire.statement {
            let ended = before.head.active == Some(finish.run)
                && after.runs[usize::from(finish.run)].is_some_and(|run| run.ended.is_some());
            let (head, turn) = (after.head, before.turns[usize::from(finish.run)]);
            is(ended && head.active.is_none() && head.held.is_none() && head.waiting == 0 && head.queued > 0, FREE);
            let driver = self.nodes[usize::from(wire.node)].drivers[usize::from(finish.run)];
            let ends = ended && finish.attempt > 0 && driver.stage == Stage::Ending;
            is(ends && driver.said & !after.said(finish.run, finish.attempt) != 0, HOLE);
            is(ended && finish.attempt > 0 && turn.is_some_and(|turn| turn.attempt != finish.attempt), OLD_CLOSE);
        }
        for (old, new) in before.questions.iter().zip(&after.questions) {
            if let (Some(old), Some(new)) = (old, new)
                && let (None, Some((by, said))) = (old.settled, new.settled)
            {
                let author = after.runs[usize::from(by)].map(|run| run.author);
                is(said.is_none() && author != Some(old.author), SETTLED);
                is(said.is_some() && old.answer.is_some() && said != old.answer, SAID);
            }
        }
        if let Statement::Edit(edit) = wire.statement
            && before != after
        {
            let of_person = if wire.awaited { 0 } else { edit.gone };
            self.cancelled = (self.cancelled | of_person) & !edit.new.map_or(0, |new| 1 << new);
        }
        self.wrong |= wrong;
        for run in 0..RUNS {
            let there = self.store.runs[run].is_some() || self.store.turns[run].is_some();
            self.accepted |= u8::from(there) << run;
        }
    }
}
