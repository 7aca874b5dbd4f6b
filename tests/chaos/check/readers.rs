//! Events that readers saw, compared with the log; and losses that readers were told of.

use std::collections::BTreeMap;

use super::{Found, Log, bodies::Bodies, losses::Losses};
use crate::history::{Class, Line, Micros};

/// Longest time from a request to the answer that lets a reader in, on a busy machine.
const LET_IN: Micros = 5_000_000;

pub(super) fn check(
    name: &str,
    readers: &BTreeMap<&str, Vec<&Line>>,
    log: &Log,
    losses: &Losses,
    bodies: &mut Bodies<'_>,
    found: &mut Found,
) {
    let own = log.digests();
    for (reader, lines) in readers {
        found.readers += 1;
        let mut view = View { name, reader, losses, epoch: None, seen: Vec::new(), asked: 0, last: 0 };
        let mut stood = None;
        for line in lines {
            match line {
                Line::Joined { asked, at, after, epoch, tail, .. } => {
                    found.joins += 1;
                    (view.asked, view.last) = (*asked, *at);
                    view.joins(*after, epoch, *tail, log, found);
                }
                Line::Read { at, first, digests, .. } => {
                    view.last = *at;
                    view.reads(*first, digests, bodies, found);
                }
                Line::Rebased { at, from, epoch, after, .. } => {
                    view.last = *at;
                    view.rebases(from, epoch, *after, found);
                }
                Line::Replaced { at, epoch, common, .. } => {
                    view.loses(*at, *common, bodies, found);
                    (view.epoch, view.last) = (epoch.clone(), *at);
                }
                Line::Stood { cursor, .. } => stood = Some(*cursor),
                _ => {}
            }
        }
        view.ends(&own, stood.is_some(), found);
        // Readers that were closed on purpose say nothing at the end.
        if stood.is_some_and(|stood| stood != log.entries.len() as u64) {
            let what = format!("{name}: {reader} stands at {stood:?} in the end, the tail is {}", log.entries.len());
            found.wrong(Class::Unfinished, 1, what);
        }
    }
}

/// An event as a reader has it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// `None` after a gap.
    digest: Option<u32>,
    at: Micros,
    /// When the connection was asked for that it came over.
    asked: Micros,
}

/// Part of a log that a reader has.
struct View<'a> {
    name: &'a str,
    reader: &'a str,
    losses: &'a Losses,
    epoch: Option<String>,
    seen: Vec<Seen>,
    /// When the connection of the moment was asked for, and when the reader was last told anything.
    asked: Micros,
    last: Micros,
}

impl View<'_> {
    fn wrong(&self, class: Class, count: u64, what: &str, found: &mut Found) {
        let what = format!("{}: {} stood at {} and {what}", self.name, self.reader, self.seen.len());
        found.wrong(class, count, what);
    }

    fn joins(&mut self, after: u64, epoch: &str, tail: u64, log: &Log, found: &mut Found) {
        if self.losses.is_empty() && epoch != log.epoch {
            self.wrong(Class::Lost, 1, &format!("was accepted at log {epoch}, this is {}", log.epoch), found);
        }
        if let Some(known) = self.epoch.as_deref().filter(|known| *known != epoch) {
            self.wrong(Class::Lost, 1, &format!("was accepted at log {epoch}, its cursor is of {known}"), found);
        }
        let (asked, heard) = (self.asked, self.asked + LET_IN);
        let is_old = self.losses.any(|failover| heard >= failover.loss.since && asked <= failover.adopted);
        let beyond = tail.saturating_sub(log.entries.len() as u64);
        if beyond > 0 && !is_old {
            self.wrong(Class::Lost, beyond, &format!("was told tail {tail}, the log ends {beyond} before"), found);
        }
        if after != self.seen.len() as u64 {
            self.wrong(Class::Lost, 1, &format!("was accepted at {after}"), found);
        }
        self.epoch = Some(epoch.to_owned());
    }

    fn reads(&mut self, first: u64, digests: &[u32], bodies: &mut Bodies<'_>, found: &mut Found) {
        let (cursor, last) = (self.seen.len() as u64, first + digests.len() as u64 - 1);
        if first > cursor + 1 {
            self.wrong(Class::Lost, first - cursor - 1, &format!("was sent {first}"), found);
        } else if first <= cursor {
            self.wrong(Class::Duplicated, cursor + 1 - first, &format!("was sent {first} to {last}"), found);
        }
        let seen = |digest| Seen { digest, at: self.last, asked: self.asked };
        self.seen.resize(first.saturating_sub(1) as usize, seen(None));
        self.seen.extend(digests.iter().map(|digest| seen(Some(*digest))));
        if let Some(epoch) = &self.epoch {
            for (seq, digest) in (first..).zip(digests) {
                bodies.note(epoch, seq, *digest, self.reader, found);
            }
        }
        found.deliveries += digests.len() as u64;
    }

    fn rebases(&mut self, from: &str, epoch: &str, after: u64, found: &mut Found) {
        found.rebased += 1;
        let known = self.epoch.replace(epoch.to_owned());
        if known.as_deref() != Some(from) || after != self.seen.len() as u64 {
            self.wrong(Class::Lost, 1, &format!("was told that it goes on from {from} after {after}"), found);
        }
        let at = self.last;
        if !self.losses.any(|failover| failover.loss.until <= at) {
            self.wrong(Class::Lost, 1, &format!("was told of another epoch {epoch}, and nothing was lost"), found);
        }
    }

    /// A reader loses only what it was given of a history that was lost: between the lag of a standby and the adoption of
    /// its history, over a connection from before.
    fn loses(&mut self, at: Micros, common: Option<u64>, bodies: &Bodies<'_>, found: &mut Found) {
        found.replaced += 1;
        let Some(common) = common else {
            // A log knows its epoch and the one before. Others are older, or were lost themselves.
            let last = self.last;
            let old = self.losses.count(|failover| last <= failover.adopted && failover.loss.until <= at) > 1;
            let named = self.epoch.as_deref().and_then(|epoch| bodies.first_named(epoch)).unwrap_or(0);
            let lost = self.losses.any(|failover| {
                let window = failover.loss.since..=failover.adopted + LET_IN;
                window.contains(&named) && failover.loss.until <= at
            });
            if !old && !lost {
                self.wrong(Class::Lost, 1, "was told that nothing is common with the log", found);
            }
            return self.seen.clear();
        };
        match self.seen.get(common as usize).copied() {
            None => self.wrong(Class::Lost, 1, &format!("was told that its events after {common} are lost"), found),
            Some(first) => {
                let fits =
                    |asked, at| self.losses.any(|failover| at >= failover.loss.since && asked <= failover.adopted);
                if !fits(first.asked, first.at) {
                    let what = format!("was told that its events after {common} are lost, which none can have been");
                    self.wrong(Class::Lost, self.seen.len() as u64 - common, &what, found);
                }
            }
        }
        self.seen.truncate(common as usize);
    }

    /// In the end its events are those of the log. A reader that left may not have been told yet of what was lost.
    fn ends(&self, own: &[u32], stood: bool, found: &mut Found) {
        let (asked, last) = (self.asked, self.last);
        let untold = self.losses.first_since(|failover| asked <= failover.adopted && failover.loss.since <= last);
        for (at, seen) in self.seen.iter().enumerate() {
            if !stood && untold.is_some_and(|since| seen.at >= since) {
                return;
            }
            match (own.get(at), seen.digest) {
                (None, _) => {
                    return self.wrong(Class::Lost, 1, &format!("the log ends at {at}"), found);
                }
                (Some(is), Some(digest)) if *is != digest => {
                    let what = format!("saw {} otherwise than the log has it", at + 1);
                    return self.wrong(Class::Interleaved, 1, &what, found);
                }
                _ => {}
            }
        }
    }
}
