//! The calls of agents: no attempt is called twice, a run that may be called once is, and no effect happens twice.

use std::collections::{BTreeMap, HashSet};

use super::{Found, losses::Losses};
use crate::history::{Class, Line, Micros};

/// The calls and effects of one run.
#[derive(Default)]
struct Calls<'a> {
    /// Attempt and `recovery` of each call.
    calls: Vec<(u64, &'a str)>,
    effects: u64,
    /// Times of the first line and of the last one.
    first: Option<Micros>,
    last: Micros,
}

impl Calls<'_> {
    fn saw(&mut self, at: Micros) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(at);
    }
}

pub(super) fn check(lines: &[Line], losses: &Losses, found: &mut Found) {
    let mut runs: BTreeMap<(&str, &str), Calls<'_>> = BTreeMap::new();
    for line in lines {
        match line {
            Line::Called { at, thread, run, attempt, recovery } => {
                let calls = runs.entry((thread, run)).or_default();
                calls.saw(*at);
                calls.calls.push((*attempt, recovery));
            }
            Line::Effect { at, thread, run, .. } => {
                let calls = runs.entry((thread, run)).or_default();
                calls.saw(*at);
                calls.effects += 1;
            }
            _ => {}
        }
    }
    for ((thread, run), calls) in runs {
        found.called += 1;
        found.again += u64::from(calls.calls.len() > 1);
        found.effects += calls.effects;
        // A failover loses the note that the agent was called, and the call that was in the log.
        let first = calls.first.unwrap_or_default();
        if losses.any(|failover| failover.loss.since <= calls.last && first <= failover.adopted) {
            continue;
        }
        let attempts: HashSet<u64> = calls.calls.iter().map(|(attempt, _)| *attempt).collect();
        if attempts.len() < calls.calls.len() || attempts.contains(&0) {
            let what = format!("{thread}: run {run}: an attempt was called twice: {:?}", calls.calls);
            found.wrong(Class::Duplicated, 1, what);
        }
        if calls.calls.len() > 1 && calls.calls.iter().any(|(_, recovery)| *recovery == "none") {
            let what = format!("{thread}: run {run} may be called once, and was called {} times", calls.calls.len());
            found.wrong(Class::Duplicated, 1, what);
        }
        if calls.effects > 1 {
            let what = format!("{thread}: run {run}: its effect happened {} times: {:?}", calls.effects, calls.calls);
            found.wrong(Class::Duplicated, calls.effects - 1, what);
        }
    }
}
