//! Lineage of a store: the generations of its history, and the judgement of cursors that come from an earlier one.
//!
//! A failover, a restore or a copy can lose commits at the end of a store's history. From then on the history continues
//! in a new generation. A log that is written in it gets another epoch and keeps the tail that it had before: everything
//! up to that tail is common to both histories, and only what was beyond it can differ. So each cursor is judged by
//! itself, and no list of the lost events is needed.

use std::fmt;

use crate::{DriverFence, Epoch, Fence, limits::ATTEMPTS_OF_A_GENERATION, seq::Seq};

/// Number of a generation of a store's history, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub i64);

impl Generation {
    /// Generation of a store that has never lost a commit.
    pub const FIRST: Self = Self(1);

    /// Lowest fence of a run that starts in this generation, less one: no fence is given in two generations.
    pub fn fence_floor(self) -> i64 {
        (self.0 - 1) << FENCE_BITS
    }

    /// Fence of the first driver of a run with this fence that starts in this generation, or of the first attempt at it. The pair of
    /// a run's fence and its driver's is given once.
    pub fn driver_fence(self, run: Fence, driven: bool) -> DriverFence {
        if driven { DriverFence(self.fence_floor() + 1) } else { DriverFence::of_attempt(run.first_attempt()) }
    }

    /// Number of the attempt after this one at a producer's run. An attempt that the store has lost had a number of an earlier
    /// generation, so no number is given to two processes.
    pub fn next_attempt(self, attempt: u64) -> u64 {
        (attempt + 1).max(attempts_before(self.0 - 1) + 2)
    }

    /// Lowest thread key in this generation, less one: no key is given in two generations.
    pub fn key_floor(self) -> i64 {
        (self.0 - 1) << KEY_BITS
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bits of a fence below its generation.
const FENCE_BITS: u32 = 32;
/// Mask of these bits.
const FENCES_OF_A_GENERATION: i64 = (1 << FENCE_BITS) - 1;

/// Attempts that generations before this many may have numbered.
fn attempts_before(generations: i64) -> u64 {
    generations.max(0).unsigned_abs() * ATTEMPTS_OF_A_GENERATION
}

impl Fence {
    /// Number of the run among those that its thread had in the run's generation, from 1.
    pub fn ordinal(self) -> i64 {
        self.0 & FENCES_OF_A_GENERATION
    }

    /// Number of the first attempt at the producer's run with this fence: 1 if the run began in the first generation. Another start
    /// of the same run, which the store has lost, had a number of an earlier generation.
    pub fn first_attempt(self) -> u64 {
        attempts_before(self.0 >> FENCE_BITS) + 1
    }
}

/// Bits of a thread key below its generation.
const KEY_BITS: u32 = 40;

/// Epoch that a log had before its present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorEpoch {
    /// Epoch of the log before the change.
    pub epoch: Epoch,
    /// Tail of the log when its epoch changed: the events up to it are the same in both epochs.
    pub tail: Seq,
}

/// The history of one log, by which cursors into it are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHistory {
    /// Epoch of the log.
    pub epoch: Epoch,
    /// Generation in which the log was last written.
    pub generation: Generation,
    /// Previous epoch; `None` if the log never had another one.
    pub prior: Option<PriorEpoch>,
}

/// Judgement of a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The events after the cursor follow.
    Continues,
    /// The cursor comes from the previous epoch, and has seen only what both have in common: it continues under the
    /// present epoch.
    Rebased,
    /// The cursor has seen events that the log does not contain.
    Replaced {
        /// Seq up to which the reader's events are those of the log; `None` if nothing is known to be common.
        common_up_to: Option<Seq>,
    },
    /// The cursor is beyond the tail, and no loss explains it.
    Ahead,
}

impl LogHistory {
    /// Judges a cursor: the epoch it was given under, if the reader names it, and the seq of the last event seen. `tail`
    /// is the log's tail and `current` the generation of the store, both as of now.
    pub fn judge(&self, tail: Seq, epoch: Option<Epoch>, seq: Seq, current: Generation) -> Judgement {
        match (epoch, self.prior) {
            (None, _) if seq <= tail => Judgement::Continues,
            (None, _) => Judgement::Ahead,
            (Some(epoch), _) if epoch == self.epoch => match () {
                () if seq <= tail => Judgement::Continues,
                // The log was not written since the loss, so it still has its epoch.
                () if self.generation < current => Judgement::Replaced { common_up_to: Some(tail) },
                () => Judgement::Ahead,
            },
            (Some(epoch), Some(prior)) if epoch == prior.epoch => match seq <= prior.tail {
                true => Judgement::Rebased,
                false => Judgement::Replaced { common_up_to: Some(prior.tail) },
            },
            (Some(_), _) => Judgement::Replaced { common_up_to: None },
        }
    }

    /// History of the log from its first write in `generation` on, made from the one before. `tail` is the tail before
    /// that write. Nothing changes for a log that was written in the generation already.
    pub fn entering(self, generation: Generation, nonce: i64, tail: Seq) -> Self {
        if self.generation == generation {
            return self;
        }
        let prior = Some(PriorEpoch { epoch: self.epoch, tail });
        Self { epoch: Epoch::from_i64(self.epoch.to_i64() ^ nonce), generation, prior }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: i64 = 0x1234_5678;

    #[test]
    fn a_cursor_is_judged_by_what_both_histories_have_in_common() {
        let (first, other) = (Epoch::generate(), Epoch::generate());
        let old = LogHistory { epoch: first, generation: Generation(1), prior: None };
        let judge = |log: LogHistory, tail, epoch, seq| log.judge(tail, epoch, seq, Generation(2));

        // The log had 8 events, 3 of them were lost, and nothing was written since.
        assert_eq!(judge(old, 5, Some(first), 5), Judgement::Continues);
        assert_eq!(judge(old, 5, Some(first), 6), Judgement::Replaced { common_up_to: Some(5) });
        assert_eq!(old.judge(5, Some(first), 6, Generation(1)), Judgement::Ahead, "no loss explains it");
        assert_eq!(judge(old, 5, Some(other), 0), Judgement::Replaced { common_up_to: None });
        assert_eq!(judge(old, 5, None, 5), Judgement::Continues);
        assert_eq!(judge(old, 5, None, 6), Judgement::Ahead);

        // Then 7 events were written.
        let new = old.entering(Generation(2), NONCE, 5);
        assert_ne!(new.epoch, first);
        assert_eq!(judge(new, 12, Some(first), 5), Judgement::Rebased);
        assert_eq!(judge(new, 12, Some(first), 6), Judgement::Replaced { common_up_to: Some(5) });
        assert_eq!(judge(new, 12, Some(new.epoch), 12), Judgement::Continues);
        assert_eq!(judge(new, 12, Some(new.epoch), 13), Judgement::Ahead);
        assert_eq!(new.entering(Generation(2), NONCE, 12), new, "one write enters the generation");

        // Two generations later the first epoch is forgotten.
        let newest = new.entering(Generation(3), NONCE << 8, 12);
        let judged = newest.judge(12, Some(first), 1, Generation(3));
        assert_eq!(judged, Judgement::Replaced { common_up_to: None });
    }

    #[test]
    fn no_attempt_is_given_in_two_generations() {
        let (first, second) = (Fence(3), Fence(Generation(2).fence_floor() + 3));
        let floor = ATTEMPTS_OF_A_GENERATION;
        assert_eq!([first, second].map(Fence::first_attempt), [1, floor + 1]);
        assert_eq!([1, 2, 7].map(|attempt| Generation(1).next_attempt(attempt)), [2, 3, 8]);
        assert_eq!(
            [1, 900, floor + 1, floor + 2].map(|attempt| Generation(2).next_attempt(attempt)),
            [floor + 2, floor + 2, floor + 2, floor + 3]
        );
        assert_eq!([1, 2, 3].map(DriverFence::of_attempt), [DriverFence::NONE, DriverFence(-1), DriverFence(-2)]);
        let fences = [first, second].map(|run| Generation(2).driver_fence(run, false));
        assert_eq!(fences, [1, floor + 1].map(DriverFence::of_attempt));
    }

    #[test]
    fn no_fence_and_no_key_is_given_in_two_generations() {
        assert_eq!((Generation::FIRST.fence_floor(), Generation::FIRST.key_floor()), (0, 0));
        assert_eq!(Generation(2).fence_floor(), 1 << 32);
        assert_eq!(Generation(3).key_floor(), 2 << 40);
    }
}
