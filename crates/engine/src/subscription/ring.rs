//! The newest events of a followed thread, in memory.

use std::{collections::VecDeque, sync::Arc};

use crate::limits::{MemoryBudget, RingBytes};
use threadline_core::{
    Batch, Generation, LogSlice, Seq,
    limits::{RING_BATCHES, RING_BYTES},
};

/// Cache of the end of a log: contiguous, bounded in count and bytes. The store stays authoritative; the cache may be
/// empty.
#[derive(Debug)]
pub struct Ring {
    /// Generation of the store since the last reset: what was read in an earlier one is not taken.
    known: Generation,
    /// Generation of the batches.
    generation: Generation,
    batches: VecDeque<Arc<Batch>>,
    bytes: RingBytes,
    /// Newest seq that was in the ring before an offer, and was evicted by that offer's newer events.
    displaced: Seq,
}

/// Reason why a follower is behind the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The next events of the follower were in the ring until newer ones evicted them: the follower reads too slowly.
    Slow,
    /// The next events of the follower were never in the ring: hints of other nodes were missing, or more events came
    /// at once than fit.
    Hint,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            known: Generation(0),
            generation: Generation(0),
            batches: VecDeque::new(),
            bytes: RingBytes::default(),
            displaced: 0,
        }
    }
}

impl Ring {
    /// An empty ring, after commits of earlier generations of the store may have been lost.
    pub fn since(known: Generation, memory: MemoryBudget) -> Self {
        Self { known, bytes: RingBytes::of(memory), ..Self::default() }
    }

    fn end(&self) -> Seq {
        self.batches.back().map_or(0, |batch| batch.last_seq)
    }

    /// Adds committed batches that are the newest of their log. A newer batch that leaves a gap after the ring's end
    /// restarts the ring; an older batch is ignored.
    ///
    /// Batches of a later generation take the place of all others; those of an earlier one are ignored, and so is what was
    /// read or committed in a generation `known` of the store before the last reset.
    pub fn offer(&mut self, known: Generation, generation: Generation, slice: &LogSlice) {
        if known < self.known {
            return;
        }
        if generation != self.generation {
            if generation < self.generation {
                return;
            }
            *self = Self { generation, ..Self::since(self.known, self.bytes.memory()) };
        }
        let held = self.end();
        for batch in &slice.0 {
            let end = self.end();
            if batch.last_seq <= end {
                continue;
            }
            let Some(fresh) = batch.between(end, Seq::MAX) else { continue };
            if fresh.first_seq != end + 1 {
                self.batches.clear();
                self.bytes.remove(self.bytes.get());
            }
            self.bytes.add(fresh.body.len());
            self.batches.push_back(fresh);
        }
        // The newest batch stays even if it is larger than the ring.
        while self.batches.len() > 1
            && (self.batches.len() > RING_BATCHES || self.bytes.get() > RING_BYTES || self.bytes.must_give_way())
        {
            if let Some(oldest) = self.batches.pop_front() {
                self.bytes.remove(oldest.body.len());
                if oldest.last_seq <= held {
                    self.displaced = oldest.last_seq;
                }
            }
        }
    }

    /// Drops all but the newest batch, because the memory of the node is short.
    pub fn give_way(&mut self) {
        while self.batches.len() > 1
            && let Some(oldest) = self.batches.pop_front()
        {
            self.bytes.remove(oldest.body.len());
        }
    }

    /// All events after the cursor of a reader of this generation, if the ring reaches back that far and has any.
    pub fn after(&self, generation: Generation, cursor: Seq) -> Option<LogSlice> {
        if generation != self.generation {
            return None;
        }
        let first = self.batches.front()?.first_seq;
        if cursor + 1 < first || cursor >= self.end() {
            return None;
        }
        // Most followers want the last few batches, so the search starts at the back.
        let skip = self.batches.len() - self.batches.iter().rev().take_while(|batch| batch.last_seq > cursor).count();
        let mut slice: Vec<_> = self.batches.iter().skip(skip).cloned().collect();
        if let Some(first) = slice.first_mut() {
            *first = first.between(cursor, Seq::MAX)?;
        }
        Some(LogSlice(slice))
    }

    /// Reason why the next events after the cursor are missing though newer ones are in the ring; `None` if they are
    /// present or the ring is empty.
    pub fn has_moved_past(&self, cursor: Seq) -> Option<Behind> {
        let moved = self.batches.front().is_some_and(|batch| batch.first_seq > cursor + 1);
        moved.then_some(if cursor < self.displaced { Behind::Slow } else { Behind::Hint })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;
    use threadline_core::{RunId, Timestamp};
    use tokio::time::Instant;

    use super::*;
    use crate::limits::{BudgetOwner, MemoryKind};

    const FIRST: Generation = Generation::FIRST;

    fn slice(first: Seq, last: Seq) -> LogSlice {
        let lines: Vec<_> = (first..=last).map(|seq| format!("{{{seq}}}")).collect();
        let run = RunId::new("r").expect("id");
        LogSlice(vec![Arc::new(Batch::new(first, last, run, Timestamp(0), Bytes::from(lines.join("\n"))))])
    }

    fn seqs(ring: &Ring, cursor: Seq) -> Option<(Seq, Seq)> {
        ring.after(FIRST, cursor).map(|slice| (slice.first_seq().expect("first"), slice.last_seq().expect("last")))
    }

    #[test]
    fn a_ring_extends_and_reads_from_any_cursor_inside() {
        let mut ring = Ring::default();
        assert_eq!(seqs(&ring, 0), None);
        ring.offer(FIRST, FIRST, &slice(5, 7));
        ring.offer(FIRST, FIRST, &slice(8, 8));
        assert_eq!(seqs(&ring, 3), None);
        assert_eq!(seqs(&ring, 4), Some((5, 8)));
        assert_eq!(seqs(&ring, 6), Some((7, 8)));
        assert_eq!(seqs(&ring, 8), None);
        assert_eq!(seqs(&ring, 100), None);
        assert_eq!((ring.has_moved_past(3), ring.has_moved_past(4)), (Some(Behind::Hint), None));
    }

    #[test]
    fn overlap_is_trimmed_older_is_ignored_and_a_gap_starts_anew() {
        let mut ring = Ring::default();
        ring.offer(FIRST, FIRST, &slice(1, 4));
        ring.offer(FIRST, FIRST, &slice(3, 6));
        assert_eq!(seqs(&ring, 0), Some((1, 6)));
        ring.offer(FIRST, FIRST, &slice(2, 5));
        assert_eq!(seqs(&ring, 0), Some((1, 6)));
        ring.offer(FIRST, FIRST, &slice(9, 9));
        assert_eq!(seqs(&ring, 0), None);
        assert_eq!(seqs(&ring, 8), Some((9, 9)));
    }

    #[test]
    fn a_slow_client_differs_from_one_that_was_never_served() {
        let mut ring = Ring::default();
        let all = RING_BATCHES as u64;
        for seq in 1..=all + 10 {
            ring.offer(FIRST, FIRST, &slice(seq, seq));
        }
        assert_eq!((ring.has_moved_past(9), ring.has_moved_past(10)), (Some(Behind::Slow), None));
        // After a gap: the events in between were never in the ring.
        ring.offer(FIRST, FIRST, &slice(2 * all, 2 * all));
        assert_eq!((ring.has_moved_past(9), ring.has_moved_past(10)), (Some(Behind::Slow), Some(Behind::Hint)));
        // More events at once than fit.
        let mut ring = Ring::default();
        ring.offer(FIRST, FIRST, &slice(1, 1));
        let many = (2..=all + 20).flat_map(|seq| slice(seq, seq).0).collect();
        ring.offer(FIRST, FIRST, &LogSlice(many));
        assert_eq!((ring.has_moved_past(0), ring.has_moved_past(1)), (Some(Behind::Slow), Some(Behind::Hint)));
    }

    #[test]
    fn a_ring_is_bounded() {
        let mut ring = Ring::default();
        for seq in 1..=3 * RING_BATCHES as u64 {
            ring.offer(FIRST, FIRST, &slice(seq, seq));
        }
        assert_eq!(ring.batches.len(), RING_BATCHES);
        assert_eq!(ring.bytes.get(), ring.batches.iter().map(|batch| batch.body.len()).sum::<usize>());
    }

    #[test]
    fn a_ring_gives_way_to_what_others_hold() {
        let memory = MemoryBudget::new(1_000, 0);
        let mut ring = Ring::since(FIRST, memory.clone());
        for seq in 1..=3 {
            ring.offer(FIRST, FIRST, &slice(seq, seq));
        }
        assert_eq!((ring.batches.len(), memory.rings()), (3, ring.bytes.get()));
        let mut held = memory.place(MemoryKind::Answer, &BudgetOwner::default());
        let taken = held.take(1_000, Instant::now()).now_or_never();
        assert_eq!(taken, Some(Ok(())), "a ring takes memory from no client");
        assert!(memory.pressed().now_or_never().is_some());
        ring.give_way();
        // The newest batch stays, and the next one takes its place.
        ring.offer(FIRST, FIRST, &slice(4, 4));
        assert_eq!((ring.batches.len(), seqs(&ring, 3)), (1, Some((4, 4))));
        drop((held, ring));
        assert_eq!(memory.rings(), 0);
    }
}
