//! Acknowledged events of a run, kept in case the server loses them: a failover or a restore may lose the newest commits.

use std::collections::VecDeque;

use threadline_core::NewEvents;

/// Bytes of acknowledged events that a producer keeps, the newest ones.
const SENT_BYTES: usize = 4 * 1_024 * 1_024;

/// The newest acknowledged events of one producer, in batches without gaps.
#[derive(Debug, Default)]
pub(super) struct Sent {
    batches: VecDeque<Batch>,
    bytes: usize,
}

#[derive(Debug)]
struct Batch {
    /// Number of the first event.
    from: u64,
    events: NewEvents,
}

impl Batch {
    /// Number of the event after the last one.
    fn end(&self) -> u64 {
        self.from + self.events.count() as u64
    }
}

impl Sent {
    /// Keeps a batch that follows the last one, and drops the oldest ones beyond the limit.
    pub(super) fn add(&mut self, from: u64, events: NewEvents) {
        self.bytes += events.body().len();
        self.batches.push_back(Batch { from, events });
        while self.bytes > SENT_BYTES {
            let Some(dropped) = self.batches.pop_front() else { break };
            self.bytes -= dropped.events.body().len();
        }
    }

    /// Number of the first event that is kept; `None` if none is.
    pub(super) fn first(&self) -> Option<u64> {
        self.batches.front().map(|batch| batch.from)
    }

    /// Events from this number to the end of the batch that they were sent in; `None` if they are not kept.
    pub(super) fn from(&self, number: u64) -> Option<NewEvents> {
        let batch = self.batches.iter().find(|batch| (batch.from..batch.end()).contains(&number))?;
        batch.events.skip((number - batch.from) as usize)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn batch(count: usize, bytes: usize) -> NewEvents {
        NewEvents::from_values(&vec![json!({ "type": "X", "text": "x".repeat(bytes) }); count])
    }

    #[test]
    fn the_newest_events_are_kept_up_to_the_limit() {
        let mut sent = Sent::default();
        assert_eq!(sent.first(), None);
        sent.add(3, batch(4, 1));
        sent.add(7, batch(2, 1));
        assert_eq!(sent.first(), Some(3));
        assert_eq!([3, 6, 7, 8].map(|number| sent.from(number).map(|events| events.count())), [4, 1, 2, 1].map(Some));
        assert!(sent.from(2).is_none() && sent.from(9).is_none());

        for index in 0..10 {
            sent.add(9 + index, batch(1, SENT_BYTES / 8));
        }
        assert_eq!(sent.first(), Some(12), "seven of them fit");
        assert!(sent.bytes <= SENT_BYTES && sent.from(18).is_some());
        sent.add(19, batch(1, SENT_BYTES));
        assert_eq!((sent.first(), sent.bytes), (None, 0));
    }
}
