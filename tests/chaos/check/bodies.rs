//! Under an epoch each seq has one body, whoever names it: the log, the answers to producers, readers.

use std::collections::{BTreeMap, HashMap};

use super::{Found, Log};
use crate::history::{Class, Line, Micros, Outcome, Request, What, digest, payload};

/// Claims about a thread.
#[derive(Debug)]
pub(super) struct Bodies<'a> {
    thread: &'a str,
    /// Digests by seq, by epoch.
    known: HashMap<String, Vec<Option<u32>>>,
    /// When each epoch was first named to anyone.
    named: HashMap<String, Micros>,
}

impl<'a> Bodies<'a> {
    /// Beginning with what the nodes have in the end, and with what they acknowledged.
    pub(super) fn of(
        thread: &'a str,
        log: &Log,
        runs: &BTreeMap<&str, Vec<&Request>>,
        readers: &BTreeMap<&str, Vec<&Line>>,
        found: &mut Found,
    ) -> Self {
        let mut bodies = Self { thread, known: HashMap::new(), named: HashMap::new() };
        for line in readers.values().flatten() {
            if let Line::Joined { at, epoch, .. }
            | Line::Rebased { at, epoch, .. }
            | Line::Replaced { at, epoch: Some(epoch), .. } = line
            {
                bodies.names(epoch, *at);
            }
        }
        bodies.known.insert(log.epoch.clone(), log.digests().into_iter().map(Some).collect());
        for request in runs.values().flatten() {
            let (from, count, terminal) = match request.what {
                What::Append { from, count, terminal } => (from, count, terminal),
                What::Whole { count, terminal } => (1, count, terminal),
                _ => continue,
            };
            let Outcome::Done { first, epoch: Some(epoch), .. } = &request.outcome else { continue };
            bodies.names(epoch, request.done);
            for at in 0..count {
                let payload = payload(&request.run, from + at, terminal && at + 1 == count);
                bodies.note(epoch, first + at, digest(&request.run, payload.as_bytes()), &request.run, found);
            }
        }
        bodies
    }

    fn names(&mut self, epoch: &str, at: Micros) {
        match self.named.get_mut(epoch) {
            Some(first) => *first = at.min(*first),
            None => drop(self.named.insert(epoch.to_owned(), at)),
        }
    }

    /// When an epoch was first named to anyone.
    pub(super) fn first_named(&self, epoch: &str) -> Option<Micros> {
        self.named.get(epoch).copied()
    }

    /// Takes what somebody was told; the first one is believed.
    pub(super) fn note(&mut self, epoch: &str, seq: u64, body: u32, whom: &str, found: &mut Found) {
        let Some(at) = seq.checked_sub(1) else { return };
        if !self.known.contains_key(epoch) {
            self.known.insert(epoch.to_owned(), Vec::new());
        }
        let Some(bodies) = self.known.get_mut(epoch) else { return };
        let at = at as usize;
        if bodies.len() <= at {
            bodies.resize(at + 1, None);
        }
        let known = *bodies[at].get_or_insert(body);
        if known != body {
            let what =
                format!("{}: two bodies for seq {seq} under epoch {epoch}, one of them told to {whom}", self.thread);
            found.wrong(Class::Interleaved, 1, what);
        }
    }
}
