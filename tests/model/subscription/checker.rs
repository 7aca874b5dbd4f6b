//! The true history of threads, and the comparison with a reader's deliveries.

use std::collections::HashMap;

use bytes::Bytes;
use threadline_core::{Epoch, Run, Seq, ThreadKey};
use threadline_engine::subscription::{Delivery, EndReason};

/// All that was ever committed.
#[derive(Default)]
pub struct Truth {
    pub logs: HashMap<ThreadKey, Log>,
}

/// One incarnation of a thread.
pub struct Log {
    pub events: Vec<Bytes>,
    pub runs: Vec<RunTruth>,
    pub gone: bool,
}

impl Log {
    pub fn tail(&self) -> Seq {
        self.events.len() as Seq
    }
}

/// A run as it was when it began, and its last seq once it has ended.
pub struct RunTruth {
    pub run: Run,
    pub last: Option<Seq>,
}

/// How often things happened, over all seeds: a model that does not get around proves nothing.
#[derive(Debug, Default, Clone)]
pub struct Stats {
    pub events: usize,
    pub caught_up: usize,
    pub fell_behind: usize,
    pub run_ended: usize,
    pub silent_run_ended: usize,
    pub closed_run_ended: usize,
    pub thread_deleted: usize,
    pub replaced: usize,
    pub ahead: usize,
    pub dropped: usize,
    pub resumed: usize,
    pub sealed: usize,
    pub far: usize,
}

impl Stats {
    fn all(&mut self) -> [&mut usize; 13] {
        [
            &mut self.events,
            &mut self.caught_up,
            &mut self.fell_behind,
            &mut self.run_ended,
            &mut self.silent_run_ended,
            &mut self.closed_run_ended,
            &mut self.thread_deleted,
            &mut self.replaced,
            &mut self.ahead,
            &mut self.dropped,
            &mut self.resumed,
            &mut self.sealed,
            &mut self.far,
        ]
    }

    pub fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        for (mine, more) in self.all().into_iter().zip(other.all()) {
            *mine += *more;
        }
    }

    pub fn assert_everything_happened(&self) {
        let mut copy = self.clone();
        assert!(copy.all().iter().all(|count| **count >= 25), "something hardly ever happened: {self:?}");
    }
}

/// The deliveries to a reader on one connection.
#[derive(Debug, Clone)]
pub struct Session {
    pub key: ThreadKey,
    pub epoch: Epoch,
    pub cursor: Seq,
    pub live: bool,
    pub ended: bool,
    /// The index of the run that it is bounded to.
    pub bound: Option<usize>,
    /// The tail before it was opened: it may not claim to have caught up below.
    pub known_tail: Seq,
}

impl Session {
    /// Takes in a delivery; says what is wrong with it.
    pub fn take(&mut self, truth: &Truth, delivery: &Delivery, stats: &mut Stats) -> Result<(), String> {
        let log = truth.logs.get(&self.key).ok_or("a thread that never was")?;
        if self.ended {
            return Err(format!("{delivery:?} after the end"));
        }
        match delivery {
            Delivery::Events(slice) => self.take_events(log, slice, stats),
            Delivery::CaughtUp(at) => {
                stats.caught_up += 1;
                let last = self.bound.and_then(|run| log.runs[run].last).unwrap_or(Seq::MAX);
                let twice = std::mem::replace(&mut self.live, true);
                match () {
                    () if *at != self.cursor => Err(format!("caught up at {at}, but the cursor is {}", self.cursor)),
                    () if twice => Err(format!("caught up twice at {at}")),
                    () if *at < self.known_tail.min(last) => {
                        Err(format!("caught up at {at}, but the tail was {} at open", self.known_tail))
                    }
                    () => Ok(()),
                }
            }
            Delivery::FellBehind(at) => {
                stats.fell_behind += 1;
                let was_live = std::mem::replace(&mut self.live, false);
                match () {
                    () if *at != self.cursor => Err(format!("fell behind at {at}, but the cursor is {}", self.cursor)),
                    () if !was_live => Err(format!("fell behind at {at} without having been live")),
                    () if *at >= log.tail() => Err(format!("fell behind at {at}, which is the tail")),
                    () => Ok(()),
                }
            }
            Delivery::Rebased { .. } => Err("rebased, but the store has lost nothing".into()),
            Delivery::Queue(_) => Err("news of a queue, but no turn was queued".into()),
            Delivery::Ended(reason) => self.take_end(log, *reason, stats),
        }
    }

    fn take_events(&mut self, log: &Log, slice: &threadline_core::LogSlice, stats: &mut Stats) -> Result<(), String> {
        if slice.0.is_empty() {
            return Err("an empty page".into());
        }
        for (seq, event, batch) in slice.events() {
            if seq != self.cursor + 1 {
                return Err(format!("seq {seq} after {}", self.cursor));
            }
            if log.events.get(seq as usize - 1).map(AsRef::as_ref) != Some(event) {
                return Err(format!("seq {seq} has other bytes than were committed"));
            }
            if let Some(run) = self.bound
                && batch.run != log.runs[run].run.id
            {
                return Err(format!("seq {seq} is of run {}", batch.run));
            }
            self.cursor = seq;
            stats.events += 1;
        }
        Ok(())
    }

    fn take_end(&mut self, log: &Log, reason: EndReason, stats: &mut Stats) -> Result<(), String> {
        self.ended = true;
        match reason {
            EndReason::ThreadDeleted => {
                stats.thread_deleted += 1;
                if log.gone { Ok(()) } else { Err("the thread is not deleted".into()) }
            }
            EndReason::LogReplaced(_) => Err("the store has lost nothing".into()),
            EndReason::LogDamaged { first_seq, .. } => Err(format!("event {first_seq} is not damaged")),
            EndReason::RunEnded => {
                stats.run_ended += 1;
                let run = self.bound.map(|run| &log.runs[run]).ok_or("not bounded, but its run ended")?;
                let last = run.last.ok_or("its run has not ended")?;
                stats.silent_run_ended += usize::from(last < run.run.first_seq);
                if self.cursor < last {
                    return Err(format!("its run ended at {last}, but the cursor is {}", self.cursor));
                }
                let terminal = log.events.get(last.saturating_sub(1) as usize);
                stats.closed_run_ended += usize::from(terminal.is_some_and(|event| event.starts_with(b"{\"code\"")));
                Ok(())
            }
        }
    }
}
