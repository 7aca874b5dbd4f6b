//! Answers to interrupts, the run that they begin, and runs of producers outside of the server.

use super::{
    Action, Scope, State,
    nodes::{Life, ends},
    planted::Design::*,
    store::{Answer, Author, Finish, Kind, QUESTIONS, RUNS, Start},
    wire::{Statement, Wire},
};

/// How far the request has come that answers an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Asker {
    #[default]
    Idle,
    /// The answer is committed. Whether others are missing is read afterwards.
    Looks,
    /// The start is under way.
    Starts,
    /// Told that others are missing, that nobody will say more, or which run it is.
    Done,
    Told(u8),
    /// A conflict, though its answer was taken.
    Failed,
}

/// Answers of the inbox say 1, those that a start brings say 2.
const INBOX: u8 = 1;
const BROUGHT: u8 = 2;

impl Scope {
    fn resume_id(&self, s: &State, of: u8) -> Option<u8> {
        if self.design != RandomResumeId {
            return Some(of + 1);
        }
        let used = |run: u8| s.wires.iter().any(|wire| wire.run == run) || s.store.runs[usize::from(run)].is_some();
        (1..RUNS as u8).find(|run| !used(*run))
    }

    pub fn answer(&self, s: &mut State, question: u8) -> Option<()> {
        let slot = usize::from(question);
        let open = s.store.questions[slot].as_mut().filter(|q| q.answer.is_none() && q.settled.is_none())?;
        open.answer = Some(INBOX);
        s.askers[slot] = Asker::Looks;
        Some(())
    }

    /// Reads what is missing; if nothing is, begins the run.
    pub fn look(&self, s: &mut State, question: Option<u8>, node: u8) -> Option<()> {
        let head = s.store.head;
        if let Some(slot) = question.map(usize::from)
            && let Some((by, _)) = s.store.questions[slot]?.settled
        {
            s.askers[slot] = Asker::Told(by);
            return Some(());
        }
        let of = s.store.open().next()?.run;
        if s.store.open().any(|question| question.answer.is_none()) {
            s.askers[usize::from(question?)] = Asker::Done;
            return Some(());
        }
        // The start would be refused; the promoter comes back to it.
        if head.active.is_some() || s.nodes[usize::from(node)].leaving {
            s.askers[usize::from(question?)] = Asker::Done;
            return Some(());
        }
        let run = self.resume_id(s, of)?;
        let waiting = Some(head.waiting);
        let (resumes, author) = (Some(of), Author::Agent);
        let start = Start { run, author, resumes, brings: None, queue: None, input: 0, waiting, at: None };
        self.send(s, node, run, Statement::Start(start))?;
        if let Some(slot) = question {
            s.wires.last_mut()?.question = Some(slot);
            s.askers[usize::from(slot)] = Asker::Starts;
        }
        Some(())
    }

    pub fn told(&self, s: &mut State, question: u8, wire: Wire) {
        s.askers[usize::from(question)] = match wire.answer {
            Some(Answer::Begun(_) | Answer::Exists) => Asker::Told(wire.run),
            Some(_) if self.design == RandomResumeId => Asker::Failed,
            Some(_) => Asker::Looks,
            // The client repeats its answer, which is the same, and reads on.
            None => Asker::Looks,
        };
    }

    /// A client's start with answers of its own to everything that is open.
    pub fn resume(&self, s: &mut State, node: u8, run: u8) -> Option<()> {
        let head = s.store.head;
        let of = s.store.open().next()?.run;
        let new = s.store.runs[usize::from(run)].is_none();
        (new && head.active.is_none() && s.store.open().all(|question| question.answer.is_none())).then_some(())?;
        let brings = (self.design == ResumeBringsAnswers).then_some(BROUGHT);
        if brings.is_none() {
            // The same statement as that of the inbox: the first answer wins.
            s.store
                .questions
                .iter_mut()
                .flatten()
                .filter(|q| q.settled.is_none())
                .for_each(|q| q.answer = Some(BROUGHT));
        }
        let (at, waiting, resumes) = (Some(head.tail), Some(head.waiting), Some(of));
        let start = Start { run, author: Author::Agent, resumes, brings, queue: None, input: 0, waiting, at };
        self.send(s, node, run, Statement::Start(start))
    }

    /// What producers may begin, each with an id of its own choice.
    pub fn productions(&self) -> impl Iterator<Item = (u8, Author)> {
        let derived = (self.design == IdsInOneSpace).then_some((1, Author::Key));
        self.produced.iter().copied().chain(derived)
    }

    /// A producer outside of the server begins a run: a key whatever is open, a user only if nothing is.
    pub fn produce(&self, s: &mut State, run: u8, author: Author) -> Option<()> {
        let (head, slot) = (s.store.head, usize::from(run));
        let user = author == Author::User;
        let refused = head.active.is_some() || user && head.waiting > 0;
        if refused || s.store.runs[slot].is_some() {
            return None;
        }
        let waiting = user.then_some(0);
        let start = Start { run, author, resumes: None, brings: None, queue: None, input: 0, waiting, at: None };
        self.send(s, 1, run, Statement::Start(start))
    }

    pub fn produced(&self, s: &mut State, run: u8, kind: Kind) -> Option<()> {
        let author = s.store.runs[usize::from(run)]?.author;
        let head = s.store.head;
        let active = head.active == Some(run) && author != Author::Agent;
        (active && (kind == Kind::Finished || run < self.interrupted)).then_some(())?;
        let opens = if kind == Kind::Interrupted { self.opens } else { 0 };
        let finish = self.plan(s, 1, Finish { opens, ..ends(run, head.fence, 0, kind) });
        self.send(s, 1, run, Statement::Finish(finish))
    }
}

/// What follows from what was answered and begun.
pub fn actions(scope: &Scope, s: &State, actions: &mut Vec<Action>) {
    for question in 0..QUESTIONS as u8 {
        let node = question % scope.nodes;
        let works = s.nodes[usize::from(node)].life == Life::Running && s.database;
        actions.extend((works && s.askers[usize::from(question)] == Asker::Looks).then_some(Action::Look(question)));
    }
    let answered = s.store.head.waiting > 0 && s.store.open().all(|question| question.answer.is_some());
    if answered && s.database && s.store.head.active.is_none() {
        let nodes = (0..scope.nodes).filter(|node| s.nodes[usize::from(*node)].life == Life::Running);
        actions.extend(nodes.map(Action::Resume));
    }
    if let Some(run) = s.store.head.active.filter(|_| s.database) {
        actions.extend([Kind::Finished, Kind::Interrupted].map(|kind| Action::Produced(run, kind)));
    }
}
