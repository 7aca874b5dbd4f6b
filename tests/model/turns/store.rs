//! The rows of one thread, and the statements that change them: each is atomic, and compares columns of the head only.

use super::planted::Design::{self, *};

pub const RUNS: usize = 4;
pub const QUESTIONS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    Stop,
    Error,
    Hand,
    /// Only where an interrupt holds by a state of its own.
    Interrupt,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    pub fence: u8,
    pub tail: u8,
    pub active: Option<u8>,
    /// The fence of the newest attempt or driver, and the record of its run; valid only while it is the head's.
    pub taken: Option<(u8, u8)>,
    pub queue: u8,
    pub queued: u8,
    pub held: Option<Hold>,
    pub waiting: u8,
    pub stop: bool,
}

impl Head {
    /// The fence that rows of the log and runs are written with.
    pub fn record(&self) -> u8 {
        match self.taken {
            Some((fence, record)) if fence == self.fence => record,
            _ => self.fence,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    Agent,
    Key,
    User,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub record: u8,
    pub author: Author,
    pub ended: Option<Kind>,
    /// The run whose interrupts it answers.
    pub resumes: Option<u8>,
    pub input: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    pub place: Option<u8>,
    pub driver: Option<u8>,
    pub fence: u8,
    pub attempt: u8,
    pub futile: u8,
    pub called: bool,
    /// What the item asks, as a number that grows with each edit.
    pub input: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Started,
    Text,
    Tool,
    /// A takeover: what earlier attempts of the run wrote is superseded.
    Attempt,
    Finished,
    Interrupted,
    Failed,
    Stopped,
    AgentLost,
    Unsafe,
    Exhausted,
}

/// `attempt` is that of the process that wrote the row, which no column of the log says; closers have none. `told` are, of a
/// takeover that continues, the attempts whose tool calls are in doubt, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub run: u8,
    pub record: u8,
    pub attempt: u8,
    pub kind: Kind,
    pub told: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub run: u8,
    pub author: Author,
    pub answer: Option<u8>,
    /// The run that settled it, and the answer that this run gives to the agent.
    pub settled: Option<(u8, Option<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    pub run: u8,
    pub author: Author,
    pub resumes: Option<u8>,
    /// Answers that the request brings itself; the true design records them first.
    pub brings: Option<u8>,
    /// Version of the queue, if a queued turn is begun, and the items that are dropped.
    pub queue: Option<(u8, u8)>,
    pub input: u8,
    pub waiting: Option<u8>,
    pub at: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Take {
    pub run: u8,
    pub fence: u8,
    pub tail: u8,
    pub attempt: u8,
    pub futile: u8,
    pub supersedes: bool,
    /// Attempts whose tool calls are in doubt, as bits, if the agent continues.
    pub told: u8,
}

/// The end of a run by its driver (`attempt`) or by a closer (0), and the begin of the next turn in the same commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finish {
    pub run: u8,
    pub fence: u8,
    pub tail: Option<u8>,
    pub attempt: u8,
    pub kind: Kind,
    pub opens: u8,
    pub queue: u8,
    pub queued: u8,
    pub held: Option<Hold>,
    pub next: Option<u8>,
    pub input: u8,
    pub drops: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Begun(u8),
    Exists,
    Taken {
        fence: u8,
        called: bool,
    },
    /// The fence of the next run, if one was begun.
    Ended(Option<u8>),
    /// The head was not as expected; `true`: because the writer's fence is not the head's any more.
    Refused(bool),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    /// Of the store's history; another one begins when commits are lost.
    pub generation: u8,
    pub head: Head,
    pub runs: [Option<Run>; RUNS],
    pub turns: [Option<Turn>; RUNS],
    pub log: Vec<Entry>,
    pub questions: [Option<Question>; QUESTIONS],
}

impl Store {
    pub fn start(&mut self, design: Design, start: Start, node: u8) -> Answer {
        let (head, run) = (self.head, usize::from(start.run));
        // The primary keys of runs and turns.
        if self.runs[run].is_some() && design != StartTwice {
            return Answer::Exists;
        }
        let moves = head.held.is_none() && (head.waiting == 0 || design == InterruptHolds);
        let in_turn = match start.queue {
            Some((seen, _)) => seen == head.queue || design == QueueUnversioned,
            None => self.turns[run].is_none() && (head.queued == 0 || !moves || design == StartJumps),
        };
        let compared = design != CheckOutsideHead || start.author != Author::User;
        let waiting = start.waiting.is_none_or(|waiting| waiting == head.waiting) || !compared;
        if head.active.is_some()
            || !in_turn
            || !waiting
            || start.at.is_some_and(|at| at != head.tail && design != StartTwice)
        {
            return Answer::Refused(false);
        }
        if let Some((_, drops)) = start.queue {
            self.leave(start.run, drops);
        }
        if let Some(of) = start.resumes {
            for question in self.questions.iter_mut().flatten().filter(|q| q.settled.is_none() && q.run == of) {
                question.settled = Some((start.run, start.brings.or(question.answer)));
            }
            if design != SettleUncounted {
                self.count_waiting();
            }
        }
        let begun = Run { record: 0, author: start.author, ended: None, resumes: start.resumes, input: start.input };
        Answer::Begun(self.begin(design, start.run, begun, node))
    }

    pub fn append(&mut self, run: u8, fence: u8, attempt: u8, kind: Kind) -> bool {
        let held = self.head.active.is_some() && self.head.fence == fence;
        if held {
            self.write(run, attempt, kind);
        }
        held
    }

    pub fn take(&mut self, design: Design, take: Take, node: u8) -> Answer {
        let head = self.head;
        let same = head.active.is_some() && head.fence == take.fence && head.tail == take.tail;
        if !same || head.stop {
            return Answer::Refused(head.fence != take.fence);
        }
        let next = self.next_fence(design);
        let record = if design == TakeForgetsRecord { next } else { head.record() };
        self.head.fence = if design == TakeKeepsFence { head.fence } else { next };
        self.head.taken = Some((self.head.fence, record));
        if design == TakeRemoves {
            self.log.retain(|entry| entry.run != take.run || entry.kind == Kind::Started);
        }
        if take.supersedes && design != NoSupersede {
            self.write(take.run, take.attempt, Kind::Attempt);
            self.log.last_mut().expect("was written").told = take.told;
        }
        let fence = self.head.fence;
        let Some(turn) = &mut self.turns[usize::from(take.run)] else { return Answer::Refused(true) };
        let called = turn.called && !matches!(design, TakeClearsCalled | RetryApproved);
        *turn = Turn { driver: Some(node), fence, attempt: take.attempt, futile: take.futile, called, ..*turn };
        Answer::Taken { fence, called }
    }

    /// The commit before a call that may happen once. Row by row, it and a takeover have an order.
    pub fn mark(&mut self, run: u8, fence: u8) -> bool {
        let turn = self.turns[usize::from(run)].as_mut().filter(|turn| turn.place.is_none() && turn.fence == fence);
        turn.map(|turn| turn.called = true).is_some()
    }

    pub fn finish(&mut self, design: Design, finish: Finish, node: u8) -> Answer {
        let head = self.head;
        if head.active.is_none() || head.fence != finish.fence || finish.tail.is_some_and(|tail| tail != head.tail) {
            return Answer::Refused(head.active.is_none() || head.fence != finish.fence);
        }
        // WIDE ends a run if nothing is queued, any other end compares the version.
        let in_turn = if finish.queued == 0 { head.queued == 0 } else { head.queue == finish.queue };
        if !in_turn && !matches!(design, QueueUnversioned | NextInSecondCommit) {
            return Answer::Refused(false);
        }
        let run = usize::from(finish.run);
        self.write(finish.run, finish.attempt, finish.kind);
        if let Some(run) = &mut self.runs[run] {
            run.ended = Some(finish.kind);
        }
        self.turns[run] = None;
        let author = self.runs[run].map_or(Author::Agent, |run| run.author);
        for _ in 0..finish.opens {
            let free = self.questions.iter_mut().find(|question| question.is_none());
            *free.expect("room") = Some(Question { run: finish.run, author, answer: None, settled: None });
        }
        if finish.kind == Kind::Finished && author != Author::Agent {
            let own = |q: &Question| q.author == author || design == FinishSettles;
            for question in self.questions.iter_mut().flatten().filter(|q| q.settled.is_none() && own(q)) {
                question.settled = Some((finish.run, None));
            }
        }
        self.count_waiting();
        (self.head.active, self.head.stop) = (None, false);
        if finish.held != self.head.held && finish.queued > 0 {
            self.head.held = finish.held;
            self.head.queue += 1;
        }
        if finish.queued > 0 && design != NextInSecondCommit && (finish.next.is_some() || finish.drops != 0) {
            self.leave(finish.next.unwrap_or(u8::MAX), finish.drops);
        }
        let next = finish.next.filter(|_| design != NextInSecondCommit);
        Answer::Ended(next.map(|next| {
            let begun = Run { record: 0, author: Author::Agent, ended: None, resumes: None, input: finish.input };
            self.begin(design, next, begun, node)
        }))
    }

    /// A stop names its run. It holds what is queued, and so it changes the version of the queue.
    pub fn stop(&mut self, design: Design, run: u8, holds: bool) -> bool {
        if self.head.active != Some(run) || self.head.stop {
            return false;
        }
        self.head.stop = true;
        if holds && (self.head.queued > 0 || design == HoldOutlivesQueue) {
            self.head.held = Some(Hold::Stop);
            self.head.queue += u8::from(design != StopKeepsVersion);
        }
        if holds && design == StopClears {
            self.turns.iter_mut().filter(|turn| turn.is_some_and(|turn| turn.place.is_some())).for_each(|t| *t = None);
            self.recount();
        }
        true
    }

    /// The queue in its order.
    pub fn items(&self) -> Vec<u8> {
        let place = |run: &u8| self.turns[usize::from(*run)].and_then(|turn| turn.place);
        let mut items: Vec<u8> = (0..RUNS as u8).filter(|run| place(run).is_some()).collect();
        items.sort_by_key(|run| place(run));
        items
    }

    pub fn open(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().flatten().filter(|question| question.settled.is_none())
    }

    /// What an attempt has logged, as bits.
    pub fn said(&self, run: u8, attempt: u8) -> u8 {
        let of = self.of(run).filter(|entry| entry.attempt == attempt);
        of.map(|entry| u8::from(entry.kind == Kind::Text) | u8::from(entry.kind == Kind::Tool) << 1)
            .fold(0, |a, b| a | b)
    }

    pub fn of(&self, run: u8) -> impl DoubleEndedIterator<Item = &Entry> {
        self.log.iter().filter(move |entry| entry.run == run)
    }

    // What follows are parts of statements.

    fn write(&mut self, run: u8, attempt: u8, kind: Kind) {
        self.log.push(Entry { run, record: self.head.record(), attempt, kind, told: 0 });
        self.head.tail += 1;
    }

    /// The generation is in the upper bits, so that no fence of a lost history comes back.
    fn next_fence(&self, design: Design) -> u8 {
        let least = if design == FencesRepeat { 0 } else { self.generation << 4 };
        self.head.fence.max(least) + 1
    }

    fn begin(&mut self, design: Design, run: u8, begun: Run, node: u8) -> u8 {
        let (record, driven) = (self.next_fence(design), begun.author == Author::Agent);
        let fence = record + u8::from(driven && design != DriverShowsRecord);
        (self.head.fence, self.head.taken) = (fence, driven.then_some((fence, record)));
        (self.head.active, self.head.stop) = (Some(run), false);
        self.runs[usize::from(run)] = Some(Run { record, ..begun });
        let driver = driven.then_some(node);
        self.turns[usize::from(run)] = Some(Turn { driver, fence, attempt: 1, ..Turn::default() });
        self.write(run, 1, Kind::Started);
        fence
    }

    /// One item becomes a run, and others go. A hold that has nothing to hold ends.
    fn leave(&mut self, run: u8, drops: u8) {
        for item in 0..RUNS as u8 {
            let queued = self.turns[usize::from(item)].is_some_and(|turn| turn.place.is_some());
            if queued && (item == run || drops & (1 << item) != 0) {
                self.turns[usize::from(item)] = None;
            }
        }
        self.head.queue += 1;
        self.recount();
    }

    pub fn recount(&mut self) {
        self.head.queued = self.items().len() as u8;
        if self.head.queued == 0 && matches!(self.head.held, Some(Hold::Stop | Hold::Error)) {
            self.head.held = None;
        }
    }

    fn count_waiting(&mut self) {
        self.head.waiting = self.open().count() as u8;
    }
}
