//! What nodes do: they send statements, drive runs, look for turns that nobody drives, and judge each other.

use super::{
    Action, Scope, State, VAIN, WRONGED,
    drivers::STEPS,
    planted::Design::*,
    store::{Answer, Author, Finish, Hold, Kind, RUNS, Start, Store, Take},
    wire::{Edit, Statement, Wire},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Life {
    #[default]
    Running,
    Paused,
    Dead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    #[default]
    Unknown,
    /// A statement that makes this node the driver is under way.
    Expected,
    Ready,
    Marked,
    Called,
    Ending,
}

/// What a node knows of a run that it drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Driver {
    pub stage: Stage,
    pub attempt: u8,
    pub fence: u8,
    /// What it appended and was acknowledged, as bits.
    pub said: u8,
    /// Attempts whose tool calls its agent is told of, as bits.
    pub told: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    pub life: Life,
    pub leaving: bool,
    /// Its newest beat is younger than NODE_TTL.
    pub fresh: bool,
    /// Its own beats came in time for one whole NODE_TTL.
    pub in_time: bool,
    /// It was paused for so long that others may take it for lost.
    pub late: bool,
    pub knows: u8,
    /// The history that it has adopted.
    pub generation: u8,
    pub drivers: [Driver; RUNS],
}

impl Node {
    pub fn new() -> Self {
        Node { fresh: true, in_time: true, ..Node::default() }
    }

    pub fn forget(&mut self, run: u8) {
        self.drivers[usize::from(run)] = Driver::default();
    }

    fn drives(&mut self, run: u8, stage: Stage, attempt: u8, fence: u8) {
        self.drivers[usize::from(run)] = Driver { stage, attempt, fence, said: 0, told: 0 };
    }

    fn expects(&mut self, run: u8) {
        if self.drivers[usize::from(run)].stage == Stage::Unknown {
            self.drives(run, Stage::Expected, 0, 0);
        }
    }

    pub fn expects_no_more(&mut self, run: u8) {
        if self.drivers[usize::from(run)].stage == Stage::Expected {
            self.forget(run);
        }
    }
}

/// NODE_TTL passes: each running node beats, if the database lets it.
pub fn tick(s: &mut State) {
    for node in &mut s.nodes {
        let runs = node.life == Life::Running && node.generation == s.store.generation;
        let beats = s.database && runs;
        (node.fresh, node.in_time) = (beats, beats);
        node.late = !runs || node.late && !beats;
    }
}

impl Scope {
    pub fn works(&self, s: &State, node: u8) -> bool {
        let me = &s.nodes[usize::from(node)];
        s.database && me.life == Life::Running && me.generation == s.store.generation
    }

    /// A node finds that commits were lost, and compares each run that it drives.
    pub fn adopt(&self, s: &mut State, node: u8) -> Option<()> {
        let (me, store) = (&mut s.nodes[usize::from(node)], &s.store);
        (me.generation != store.generation).then(|| me.generation = store.generation)?;
        for (run, driver) in me.drivers.iter_mut().enumerate() {
            let same = store.head.active == Some(run as u8) && store.head.fence == driver.fence;
            let all = driver.said & !store.said(run as u8, driver.attempt) == 0;
            if !(same && all || self.design == ContinueUncompared) {
                *driver = Driver::default();
            }
        }
        Some(())
    }

    /// A client's start comes to a node, for the first time or again.
    pub fn ask(&self, s: &mut State, node: u8, run: u8) -> Option<()> {
        if s.store.runs[usize::from(run)].is_some() || s.store.head.active.is_some() {
            return None;
        }
        let (at, waiting) = (Some(s.store.head.tail), Some(0));
        let start =
            Start { run, author: Author::Agent, resumes: None, brings: None, queue: None, input: 0, waiting, at };
        self.send(s, node, run, Statement::Start(start))
    }

    /// The registry is entered before the statement is sent.
    pub fn send(&self, s: &mut State, node: u8, run: u8, statement: Statement) -> Option<()> {
        if s.wires.iter().any(|wire| wire.awaited && wire.node == node && wire.run == run) {
            return None;
        }
        s.wrong |= if self.is_vain(s, node, statement) { VAIN } else { 0 };
        let sender = &mut s.nodes[usize::from(node)];
        match statement {
            Statement::Start(Start { author: Author::Agent, .. }) | Statement::Take(_) => sender.expects(run),
            Statement::Finish(Finish { next: Some(next), .. }) => sender.expects(next),
            _ => {}
        }
        let knows = sender.knows;
        let generation = s.store.generation;
        s.wires.push(Wire { node, run, statement, awaited: true, answer: None, knows, question: None, generation });
        Some(())
    }

    /// A statement that is refused though nothing has changed since it was made would be made and refused for ever.
    /// Clients' starts and drivers that were displaced do not look first.
    fn is_vain(&self, s: &State, node: u8, statement: Statement) -> bool {
        let mut store = s.store.clone();
        let answer = match statement {
            Statement::Start(start) if start.queue.is_some() || start.resumes.is_some() => {
                store.start(self.design, start, node)
            }
            Statement::Finish(finish) if finish.fence == store.head.fence && store.head.active.is_some() => {
                store.finish(self.design, finish, node)
            }
            Statement::Take(take) => store.take(self.design, take, node),
            _ => return false,
        };
        matches!(answer, Answer::Refused(_) | Answer::Exists)
    }

    /// An answer reaches the node that waits for it.
    pub fn take_in(&self, s: &mut State, wire: Wire) {
        let node = &mut s.nodes[usize::from(wire.node)];
        match (wire.statement, wire.answer) {
            (Statement::Start(start), Some(Answer::Begun(fence))) if start.author == Author::Agent => {
                node.drives(wire.run, Stage::Ready, 1, fence);
            }
            (Statement::Take(take), Some(Answer::Taken { fence, called })) => {
                // What it overwrote says whether the agent was called after all.
                if called {
                    node.forget(wire.run);
                } else {
                    node.drives(wire.run, Stage::Ready, take.attempt, fence);
                    node.drivers[usize::from(wire.run)].told = take.told;
                }
            }
            (Statement::Finish(finish), Some(Answer::Ended(next))) => {
                if finish.attempt > 0 {
                    node.forget(wire.run);
                }
                if let (Some(run), Some(fence)) = (finish.next, next) {
                    node.drives(run, Stage::Ready, 1, fence);
                }
                finish.next.into_iter().for_each(|run| node.expects_no_more(run));
            }
            (Statement::Finish(finish), answer) => {
                finish.next.into_iter().for_each(|run| node.expects_no_more(run));
                let driver = &mut node.drivers[usize::from(wire.run)];
                if finish.attempt > 0 && answer == Some(Answer::Refused(true)) {
                    *driver = Driver::default();
                } else if driver.stage == Stage::Ending {
                    driver.stage = Stage::Called;
                }
            }
            _ => node.expects_no_more(wire.run),
        }
    }

    /// A node looks at an active turn, and finds that it should take it over or close it.
    pub fn scan(&self, s: &mut State, node: u8, run: u8) -> Option<()> {
        let (me, head) = (&s.nodes[usize::from(node)], s.store.head);
        let turn = s.store.turns[usize::from(run)].filter(|turn| turn.place.is_none() && head.active == Some(run))?;
        if me.leaving || me.drivers[usize::from(run)].stage != Stage::Unknown || self.design == DriveIfCreated {
            return None;
        }
        let mut lost = true;
        match turn.driver {
            None if s.store.runs[usize::from(run)]?.author != Author::Agent => return None,
            None => lost = false,
            Some(driver) if driver == node => (self.design != NoOwnScan).then_some(())?,
            Some(driver) => {
                let other = &s.nodes[usize::from(driver)];
                let dead = !other.fresh || other.leaving && self.design == LeavingIsDead;
                if !dead || !(me.in_time || self.design == JudgeAfterOutage) {
                    return None;
                }
                s.wrong |= if other.life == Life::Running && !other.late { WRONGED } else { 0 };
            }
        }
        let logged = s
            .store
            .of(run)
            .any(|entry| entry.attempt == turn.attempt && entry.kind != Kind::Started && entry.kind != Kind::Attempt);
        let tool = s.store.of(run).any(|entry| entry.kind == Kind::Tool);
        // A continued attempt keeps its texts, and no call without a result.
        let kept = if self.continues { s.store.said(run, turn.attempt) & 1 != 0 } else { logged };
        let futile = if lost && !kept { turn.futile + 1 } else { 0 };
        let approved = self.approved || s.store.runs[usize::from(run)]?.resumes.is_some();
        let end = if head.stop {
            Some(Kind::Stopped)
        } else if self.once && (turn.called || logged) {
            Some(Kind::AgentLost)
        } else if approved && (turn.called || logged) && self.design != RetryApproved
            || tool && !self.continues && self.design != RetryBlind
        {
            Some(Kind::Unsafe)
        } else if futile >= self.budget && self.design != NoBudget {
            Some(Kind::Exhausted)
        } else {
            None
        };
        let (fence, tail) = (head.fence, head.tail);
        let statement = match end {
            Some(kind) => {
                Statement::Finish(self.plan(s, node, Finish { tail: Some(tail), ..ends(run, fence, 0, kind) }))
            }
            None => {
                let attempt = turn.attempt + 1;
                let told = if self.continues { self.in_doubt(&s.store, run, turn.attempt) } else { 0 };
                Statement::Take(Take { run, fence, tail, attempt, futile, supersedes: logged, told })
            }
        };
        self.send(s, node, run, statement)
    }

    /// Attempts whose tool calls are in doubt: those that the newest takeover names, and the lost one.
    fn in_doubt(&self, store: &Store, run: u8, lost: u8) -> u8 {
        let named = store.of(run).rev().find(|entry| entry.kind == Kind::Attempt).map_or(0, |entry| entry.told);
        let own = if store.said(run, lost) & 2 == 0 { 0 } else { 1 << lost };
        if self.design == ContinueForgets { own } else { named | own }
    }

    /// What begins next, and what is dropped since it may not begin any more.
    fn advance(&self, store: &Store, knows: u8) -> (Option<u8>, u8) {
        let knows = if self.design == BeginRevoked { 0 } else { knows };
        let items = store.items();
        let next = items.iter().copied().find(|item| knows & (1 << item) == 0);
        let drops = items.iter().take_while(|item| Some(**item) != next).map(|item| 1 << item).sum();
        (next, drops)
    }

    /// Completes the end of a run by what is read of the queue.
    pub fn plan(&self, s: &State, node: u8, mut finish: Finish) -> Finish {
        let (head, store) = (s.store.head, &s.store);
        (finish.queue, finish.queued, finish.held) = (head.queue, head.queued, head.held);
        match finish.kind {
            Kind::Failed | Kind::AgentLost | Kind::Unsafe | Kind::Exhausted => {
                finish.held = Some(finish.held.unwrap_or(Hold::Error));
            }
            Kind::Interrupted if self.design == InterruptHolds => finish.held = Some(Hold::Interrupt),
            _ if store.runs[usize::from(finish.run)].is_some_and(|run| run.resumes.is_some()) => {
                finish.held = finish.held.filter(|held| *held != Hold::Interrupt);
            }
            _ => {}
        }
        if finish.held.is_none() && head.waiting == 0 && finish.opens == 0 {
            (finish.next, finish.drops) = self.advance(store, s.nodes[usize::from(node)].knows);
            let turn = finish.next.and_then(|next| store.turns[usize::from(next)]);
            finish.input = turn.map_or(0, |turn| turn.input);
        }
        finish
    }

    /// The loop that begins what is queued in a free thread.
    pub fn promote(&self, s: &mut State, node: u8) -> Option<()> {
        let head = s.store.head;
        let me = &s.nodes[usize::from(node)];
        if me.leaving || head.active.is_some() || head.held.is_some() || head.waiting > 0 || head.queued == 0 {
            return None;
        }
        let (next, drops) = self.advance(&s.store, me.knows);
        match next {
            Some(run) => {
                let input = s.store.turns[usize::from(run)]?.input;
                let (queue, waiting) = (Some((head.queue, drops)), Some(0));
                let start =
                    Start { run, author: Author::Agent, resumes: None, brings: None, queue, input, waiting, at: None };
                self.send(s, node, run, Statement::Start(start))
            }
            None => {
                let first = s.store.items()[0];
                let edit = Edit {
                    queue: head.queue,
                    items: [u8::MAX; RUNS],
                    new: None,
                    edited: None,
                    gone: drops,
                    held: None,
                };
                self.send(s, node, first, Statement::Edit(edit))
            }
        }
    }

    /// A stop that waited for too long is enforced, whoever drives the run.
    pub fn enforce(&self, s: &mut State, node: u8) -> Option<()> {
        let head = s.store.head;
        let (run, tail) = (head.active.filter(|_| head.stop)?, Some(head.tail));
        let finish = self.plan(s, node, Finish { tail, ..ends(run, head.fence, 0, Kind::Stopped) });
        let closes = s.wires.iter().any(|wire| matches!(wire.statement, Statement::Finish(Finish { attempt: 0, .. })));
        (!closes).then(|| self.send(s, node, run, Statement::Finish(finish)))?
    }

    /// A node that leaves ends once it drives nothing and waits for nothing.
    pub fn exit(&self, s: &mut State, node: u8) -> Option<()> {
        let waits = s.wires.iter().any(|wire| wire.awaited && wire.node == node);
        let me = &mut s.nodes[usize::from(node)];
        let idle = me.drivers.iter().all(|driver| driver.stage == Stage::Unknown);
        (me.leaving && idle && !waits).then(|| me.life = Life::Dead)
    }
}

pub fn ends(run: u8, fence: u8, attempt: u8, kind: Kind) -> Finish {
    let (queue, queued, held, next, drops) = (0, 0, None, None, 0);
    Finish { run, fence, tail: None, attempt, kind, opens: 0, queue, queued, held, next, input: 0, drops }
}

/// All that nodes may do by themselves.
pub fn actions(scope: &Scope, s: &State, actions: &mut Vec<Action>) {
    for node in (0..scope.nodes).filter(|node| s.nodes[usize::from(*node)].life == Life::Running) {
        let (me, works) = (&s.nodes[usize::from(node)], scope.works(s, node));
        actions.extend((me.generation != s.store.generation).then_some(Action::Adopt(node)));
        for run in 0..scope.runs {
            if me.drivers[usize::from(run)].stage != Stage::Unknown {
                actions.extend(STEPS.map(|step| Action::Drive(node, run, step)));
            } else if works && s.store.head.active == Some(run) {
                actions.push(Action::Scan(node, run));
            }
        }
        if works && s.store.head.active.is_none() && s.store.head.queued > 0 {
            actions.push(Action::Promote(node));
        }
        actions.extend((works && !me.fresh).then_some(Action::Beat(node)));
        actions.extend((me.knows != s.revoked).then_some(Action::Learn(node)));
        actions.extend(me.leaving.then_some(Action::Exit(node)));
        actions.extend((works && s.store.head.stop).then_some(Action::Enforce(node)));
    }
}
