//! Committed events in batches, as readers receive them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use memchr::memchr_iter;

use super::{NewEvents, RunId, Timestamp, limits::ROW_BYTES, lines};
use crate::seq::Seq;

/// Committed, contiguous events of one run that were appended at one moment. Immutable and shared by all readers.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Seq of the first event.
    pub first_seq: Seq,
    /// Seq of the last event.
    pub last_seq: Seq,
    /// Run that appended the events.
    pub run: RunId,
    /// Time of the commit, which all events of the batch share.
    pub at: Timestamp,
    /// Bytes of the events, one event a line, without a newline at the end.
    pub body: Bytes,
    encoded: OnceLock<Bytes>,
}

impl Batch {
    /// Makes a batch. `body` must hold exactly the events `first_seq..=last_seq`, one a line.
    pub fn new(first_seq: Seq, last_seq: Seq, run: RunId, at: Timestamp, body: Bytes) -> Self {
        Self { first_seq, last_seq, run, at, body, encoded: OnceLock::new() }
    }

    /// Number of events in the batch.
    pub fn count(&self) -> u64 {
        self.last_seq + 1 - self.first_seq
    }

    /// Events with their seqs, in ascending order.
    pub fn events(&self) -> impl Iterator<Item = (Seq, &[u8])> {
        (self.first_seq..).zip(lines(&self.body))
    }

    /// Part of the batch with `after < seq < before`; `None` if no event is in that range. The bytes are shared.
    pub fn between(self: &Arc<Self>, after: Seq, before: Seq) -> Option<Arc<Self>> {
        if after < self.first_seq && before > self.last_seq {
            return Some(self.clone());
        }
        let first = self.first_seq.max(after.saturating_add(1));
        let last = self.last_seq.min(before.saturating_sub(1));
        if first > last {
            return None;
        }
        let (from, to) = (first - self.first_seq, last + 1 - self.first_seq);
        let mut breaks = memchr_iter(b'\n', &self.body);
        let start = match from {
            0 => 0,
            n => breaks.nth(n as usize - 1).map_or(self.body.len(), |at| at + 1),
        };
        let end = breaks.nth((to - from) as usize - 1).unwrap_or(self.body.len());
        Some(Arc::new(Self::new(first, last, self.run.clone(), self.at, self.body.slice(start..end))))
    }

    /// Serialised form that all subscribers of one log share. The first caller makes it; later callers receive the same
    /// bytes.
    pub fn encoded(&self, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(self)).clone()
    }
}

/// Contiguous piece of a log in ascending order, possibly empty.
#[derive(Debug, Clone, Default)]
pub struct LogSlice(pub Vec<Arc<Batch>>);

impl LogSlice {
    /// Slice of events of a run that were committed together, from `first_seq` on, cut into batches as the log keeps
    /// them.
    pub fn of(events: &NewEvents, first_seq: Seq, run: &RunId, at: Timestamp) -> Self {
        let mut next = first_seq;
        let pieces = events.pieces(ROW_BYTES).into_iter().map(|(count, body)| {
            let first = next;
            next += count;
            Arc::new(Batch::new(first, next - 1, run.clone(), at, body))
        });
        Self(pieces.collect())
    }

    /// Seq of the first event; `None` if the slice is empty.
    pub fn first_seq(&self) -> Option<Seq> {
        self.0.first().map(|batch| batch.first_seq)
    }

    /// Seq of the last event; `None` if the slice is empty.
    pub fn last_seq(&self) -> Option<Seq> {
        self.0.last().map(|batch| batch.last_seq)
    }

    /// Number of events in the slice.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|batch| batch.count()).sum()
    }

    /// Size of the bodies of all batches, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|batch| batch.body.len()).sum()
    }

    /// Part of the slice with `after < seq < before`, possibly empty.
    pub fn between(&self, after: Seq, before: Seq) -> Self {
        Self(self.0.iter().filter_map(|batch| batch.between(after, before)).collect())
    }

    /// First events of the slice, up to the one with which they have this many bytes, and the rest if there is one.
    pub fn cut(self, bytes: usize) -> (Self, Option<Self>) {
        if self.bytes() <= bytes {
            return (self, None);
        }
        let mut read = 0;
        let last = self.events().find_map(|(seq, event, _)| {
            read += event.len();
            (read >= bytes).then_some(seq)
        });
        let rest = last.map(|last| self.between(last, Seq::MAX)).filter(|rest| !rest.0.is_empty());
        match (last, rest) {
            (Some(last), Some(rest)) => (self.between(0, last + 1), Some(rest)),
            _ => (self, None),
        }
    }

    /// Events of the slice in ascending order, each with its seq and its batch.
    pub fn events(&self) -> impl Iterator<Item = (Seq, &[u8], &Batch)> {
        self.0.iter().flat_map(|batch| batch.events().map(|(seq, event)| (seq, event, batch.as_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Arc<Batch> {
        let run = RunId::new("r").expect("id");
        Arc::new(Batch::new(5, 8, run, Timestamp(0), Bytes::from_static(b"{5}\n{6}\n{7}\n{8}")))
    }

    #[test]
    fn a_slice_is_cut_behind_the_event_that_reaches_the_bytes() {
        let second =
            Arc::new(Batch::new(9, 10, RunId::new("r").expect("id"), Timestamp(0), Bytes::from_static(b"{9}\n{10}")));
        let cut = |bytes: usize| {
            let (part, rest) = LogSlice(vec![batch(), second.clone()]).cut(bytes);
            let seqs = |slice: LogSlice| slice.events().map(|(seq, ..)| seq).collect::<Vec<_>>();
            (seqs(part), rest.map(seqs))
        };
        let all = vec![5, 6, 7, 8, 9, 10];
        assert_eq!(cut(0), (vec![5], Some(vec![6, 7, 8, 9, 10])), "a part has at least one event");
        assert_eq!(cut(6), (vec![5, 6], Some(vec![7, 8, 9, 10])));
        assert_eq!(cut(7), (vec![5, 6, 7], Some(vec![8, 9, 10])));
        assert_eq!(cut(12), (vec![5, 6, 7, 8], Some(vec![9, 10])));
        assert_eq!((cut(19), cut(1_000)), ((all.clone(), None), (all, None)));
    }

    #[test]
    fn a_batch_is_cut_at_events() {
        let cut = |after, before| batch().between(after, before).map(|b| (b.first_seq, b.last_seq, b.body.clone()));
        assert_eq!(cut(0, 100), Some((5, 8, Bytes::from_static(b"{5}\n{6}\n{7}\n{8}"))));
        assert_eq!(cut(5, 8), Some((6, 7, Bytes::from_static(b"{6}\n{7}"))));
        assert_eq!(cut(6, u64::MAX), Some((7, 8, Bytes::from_static(b"{7}\n{8}"))));
        assert_eq!(cut(4, 6), Some((5, 5, Bytes::from_static(b"{5}"))));
        assert_eq!(cut(8, 100), None);
        assert_eq!(cut(0, 5), None);
        assert_eq!(cut(u64::MAX, 100), None);
    }

    #[test]
    fn events_carry_their_seqs() {
        let all: Vec<_> = batch().events().map(|(seq, event)| (seq, event.to_vec())).collect();
        assert_eq!(all.first(), Some(&(5, b"{5}".to_vec())));
        assert_eq!(all.last(), Some(&(8, b"{8}".to_vec())));
    }
}
