//! What has to hold in every state.

use stateright::Property;

use super::{
    AGAIN, CANCELLED, EDITED, FREE, HELD, HOLE, JUMPED, OLD_APPEND, OLD_CLOSE, ORDER, OVER, REVOKED, SAID, SETTLED,
    SHRUNK, Scope, State, TWICE, UNTOLD, VAIN, WRONGED,
    interrupts::Asker,
    store::{Author, Hold, Kind},
};

pub type Condition = fn(&Scope, &State) -> bool;

macro_rules! never {
    ($($name:literal: $bit:ident,)*) => { [$(($name, |_, s| s.wrong & $bit == 0)),*] };
}

const NEVER: [(&str, Condition); 19] = never! {
    "no live node loses a run as the store was away": WRONGED,
    "the log only grows": SHRUNK,
    "an item begins once": TWICE,
    "an item begins as it was last edited": EDITED,
    "no item begins that was cancelled": CANCELLED,
    "items begin in the order last committed": ORDER,
    "no item begins in a held queue": HELD,
    "no item begins for a key that is known to be revoked": REVOKED,
    "no start jumps a queue that moves": JUMPED,
    "an end leaves no queue that moves behind": FREE,
    "a run that ends has all that was acknowledged to its driver": HOLE,
    "no old driver ends a run": OLD_CLOSE,
    "nothing of an attempt after the next one began": OLD_APPEND,
    "no run begins over an open interrupt": OVER,
    "an interrupt is open until its answer": SETTLED,
    "the first answer is the one that the agent gets": SAID,
    "no attempt calls that began after a logged tool call": AGAIN,
    "an agent that continues knows of each call in doubt": UNTOLD,
    "what a node decides by the store as it is gets through": VAIN,
};

const ALWAYS: [(&str, Condition); 10] = [
    ("nothing accepted is swallowed", |m, s| accepted(m, s).all(|run| at(s, run) != Where::Nowhere)),
    // The state in which nothing goes on by itself is looked for only if something is left to be done.
    ("what is accepted ends", |m, s| {
        let left = |run| matches!(at(s, run), Where::Active | Where::Queued(true) | Where::Nowhere);
        !accepted(m, s).any(left) || !m.rests(s)
    }),
    ("one terminal each, and nothing after it", |m, s| {
        let terminal = |kind| !matches!(kind, Kind::Started | Kind::Text | Kind::Tool | Kind::Attempt);
        let after = |run| s.store.of(run).skip_while(|entry| !terminal(entry.kind)).count();
        (0..m.runs)
            .all(|run| after(run) == usize::from(s.store.runs[usize::from(run)].is_some_and(|r| r.ended.is_some())))
    }),
    ("the rows of a run stand under its record, and together", |m, s| {
        let record = |run: u8| s.store.runs[usize::from(run)].map(|run| run.record);
        let pieces = |run| s.store.log.chunk_by(|a, b| a.run == b.run).filter(|piece| piece[0].run == run).count();
        s.store.log.iter().all(|entry| record(entry.run) == Some(entry.record))
            && (0..m.runs).all(|run| pieces(run) <= 1)
    }),
    ("the fold shows one attempt", |m, s| {
        let of = |run| s.store.of(run).rev().take_while(|entry| entry.kind != Kind::Attempt);
        let shown =
            |run| of(run).filter(|entry| matches!(entry.kind, Kind::Text | Kind::Tool)).map(|entry| entry.attempt);
        m.continues || (0..m.runs).all(|run| shown(run).min() == shown(run).max())
    }),
    ("nobody but the driver writes to a driven run", |_, s| {
        let Some(run) = s.store.head.active else { return true };
        let Some(known) = s.store.runs[usize::from(run)].filter(|run| run.author == Author::Agent) else { return true };
        !s.store.clone().append(run, known.record, 0, Kind::Text)
    }),
    ("what may be called once is called once", |m, s| {
        let approved = |run: u8| m.approved || s.store.runs[usize::from(run)].is_some_and(|run| run.resumes.is_some());
        let calls = |run: u8| s.calls[usize::from(run)].iter().sum::<u8>();
        (0..m.runs).all(|run| calls(run) <= 1 || !(m.once || approved(run)))
    }),
    ("attempts that come to nothing are counted", |m, s| {
        s.store.turns.iter().flatten().all(|turn| turn.futile < m.budget)
    }),
    ("a hold of a stop or an error holds something", |_, s| {
        let head = s.store.head;
        head.queued > 0 || !matches!(head.held, Some(Hold::Stop | Hold::Error))
    }),
    ("one run answers, and whoever answered is told of it", |m, s| {
        let runs = |of| s.store.runs.iter().flatten().filter(move |run| run.resumes == Some(of)).count();
        let told = |slot: usize| match (s.askers[slot], s.store.questions[slot]) {
            (Asker::Told(by), Some(question)) => question.settled.map(|(by, _)| by) == Some(by),
            (asker, _) => asker != Asker::Failed,
        };
        (0..m.runs).all(|of| runs(of) <= 1) && (0..s.askers.len()).all(told)
    }),
];

const COUNTED: [(&str, Condition); 2] = [
    ("as many interrupts wait as the head says", |_, s| s.store.open().count() == usize::from(s.store.head.waiting)),
    ("as many items are queued as the head says", |_, s| s.store.items().len() == usize::from(s.store.head.queued)),
];

#[derive(PartialEq, Eq)]
enum Where {
    Ended,
    Active,
    /// `true`: it should begin without anybody doing anything.
    Queued(bool),
    Gone,
    Nowhere,
}

fn accepted(m: &Scope, s: &State) -> impl Iterator<Item = u8> {
    let accepted = s.accepted;
    (0..m.runs).filter(move |run| accepted & (1 << run) != 0)
}

fn at(s: &State, run: u8) -> Where {
    let (slot, bit, head) = (usize::from(run), 1 << run, s.store.head);
    // Answered interrupts are a reason to go on.
    let waits = head.waiting > 0 && s.store.open().any(|question| question.answer.is_none());
    match (s.store.runs[slot], s.store.turns[slot]) {
        (_, Some(turn)) if turn.place.is_some() => Where::Queued(head.held.is_none() && !waits),
        (Some(known), _) if known.ended.is_some() => Where::Ended,
        (Some(_), Some(_)) if head.active == Some(run) => Where::Active,
        (None, None) if (s.cancelled | s.revoked) & bit != 0 => Where::Gone,
        _ => Where::Nowhere,
    }
}

pub fn all(scope: &Scope) -> Vec<Property<Scope>> {
    let conditions = NEVER.iter().chain(&ALWAYS).chain(&COUNTED);
    let always = conditions.map(|(name, condition)| Property::<Scope>::always(name, *condition));
    always.chain(scope.reaches.iter().map(|(name, condition)| Property::sometimes(name, *condition))).collect()
}
