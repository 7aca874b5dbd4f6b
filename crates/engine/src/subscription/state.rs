//! State of a thread for which followers wake.

use threadline_core::{DriverFence, Fence, Generation, LogHistory, QueueState, Seq, WriteFence};
use threadline_store::Head;

use crate::cluster::bus::ThreadNews;

/// The part of a head that followers wait for. Within a generation the state moves in one direction only, in whatever
/// order changes arrive; a later generation replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicState {
    /// Generation of the store in which this was read or committed. Changes of an earlier one have no effect.
    pub known: Generation,
    /// Generation of the head; 0 before the first read of the head, and after a reset.
    pub generation: Generation,
    /// History of the log; `None` before the first read of the head, after a reset, and in a hint.
    pub history: Option<LogHistory>,
    /// Number of times that the store has lost commits while the topic was followed.
    pub resets: u64,
    /// Seq of the newest event known to be committed.
    pub tail: Seq,
    /// Fence of the newest run known.
    pub fence: Fence,
    /// Newest driver known of that run.
    pub driver: DriverFence,
    /// True while that run is active.
    pub active: bool,
    /// True if a stop of that run was requested.
    pub stop_requested: bool,
    /// True if the thread was deleted, or lost.
    pub gone: bool,
    /// True if the thread was lost: the first read after a loss of commits did not find it.
    pub lost: bool,
    /// Newest state known of the queue.
    pub queue: QueueState,
}

impl TopicState {
    /// State before the first read of the head.
    pub const UNKNOWN: Self = Self {
        known: Generation(0),
        generation: Generation(0),
        history: None,
        resets: 0,
        tail: 0,
        fence: Fence(-1),
        driver: DriverFence::NONE,
        active: true,
        stop_requested: false,
        gone: false,
        lost: false,
        queue: QueueState { version: 0, queued: 0, held: None },
    };

    /// State of a thread that was deleted, whatever the store has lost since.
    pub const GONE: Self = Self { known: Generation(i64::MAX), gone: true, ..Self::UNKNOWN };

    /// State after a commit, which enters the generation of its store.
    pub fn committed(head: &Head) -> Self {
        Self::read(head, head.generation)
    }

    /// State of a head that was read in this generation of the store.
    pub fn read(head: &Head, known: Generation) -> Self {
        Self {
            known,
            generation: head.generation,
            history: Some(head.history()),
            resets: 0,
            tail: head.tail,
            fence: head.fence,
            driver: head.driver,
            active: head.active.is_some(),
            stop_requested: head.active.as_ref().is_some_and(|active| active.stop_requested_at.is_some()),
            gone: false,
            lost: false,
            queue: head.queue,
        }
    }

    /// State of a thread that was not found in this generation of the store.
    pub fn absent(known: Generation) -> Self {
        Self { known, ..Self::GONE }
    }

    /// Merges a change; true if the state changes. Stale and repeated changes have no effect.
    pub fn merge(&mut self, news: &Self) -> bool {
        if news.known < self.known {
            return false;
        }
        let before = *self;
        // The report of a deletion comes from no read of the store. A thread that was read since the loss was kept.
        let was_read = news.known != Self::GONE.known;
        self.lost |= news.gone && was_read && !self.gone && self.history.is_none() && self.resets > 0;
        self.gone |= news.gone;
        if news.generation != self.generation {
            if news.generation > self.generation {
                // An append reads no queue.
                let queue = if news.queue.version > 0 { news.queue } else { self.queue };
                *self =
                    Self { known: self.known, gone: self.gone, lost: self.lost, resets: self.resets, queue, ..*news };
            }
            return *self != before;
        }
        self.history = self.history.or(news.history);
        self.tail = self.tail.max(news.tail);
        if news.queue.version > self.queue.version {
            self.queue = news.queue;
        }
        if news.fence > self.fence {
            (self.fence, self.driver) = (news.fence, news.driver);
            (self.active, self.stop_requested) = (news.active, news.stop_requested);
        } else if news.fence == self.fence {
            self.driver = self.driver.max(news.driver);
            self.active &= news.active;
            self.stop_requested |= news.stop_requested;
        }
        *self != before
    }

    /// Forgets everything: in this generation of the store, commits may be missing.
    pub(super) fn reset(&mut self, known: Generation) {
        *self = Self { known, resets: self.resets + 1, ..Self::UNKNOWN };
    }

    /// True if the run with this fence is known to have ended.
    pub fn has_ended(&self, fence: Fence) -> bool {
        self.gone || self.fence > fence || (self.fence == fence && !self.active)
    }

    /// True if the run is known to have another driver than the one with these fences.
    pub fn is_displaced(&self, fence: WriteFence) -> bool {
        self.fence == fence.run && self.driver > fence.driver
    }

    /// True if a stop of the run with this fence is known to be requested.
    pub fn stop_requested(&self, fence: Fence) -> bool {
        self.fence == fence && self.stop_requested
    }
}

impl From<&ThreadNews> for TopicState {
    fn from(news: &ThreadNews) -> Self {
        let ThreadNews { generation, tail, fence, active, stop_requested, gone, queue } = *news;
        let known = if gone { Self::GONE.known } else { generation };
        let driver = DriverFence::NONE;
        let (history, resets, lost) = (None, 0, false);
        Self { known, generation, history, resets, tail, fence, driver, active, stop_requested, gone, lost, queue }
    }
}

impl From<&TopicState> for ThreadNews {
    fn from(state: &TopicState) -> Self {
        let TopicState { generation, tail, fence, active, stop_requested, gone, queue, .. } = *state;
        Self { generation, tail, fence, active, stop_requested, gone, queue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_in_any_order_lead_to_the_same_state() {
        let state = |tail, fence, active, stop_requested| TopicState {
            known: Generation(0),
            generation: Generation(1),
            history: None,
            resets: 0,
            tail,
            fence: Fence(fence),
            driver: DriverFence::NONE,
            active,
            stop_requested,
            gone: false,
            lost: false,
            queue: QueueState { version: tail, queued: tail, held: None },
        };
        let news = [
            state(0, 1, true, false),
            state(5, 1, true, true),
            state(9, 1, false, true),
            state(9, 2, true, false),
            state(12, 2, false, false),
        ];
        // Every rotation of the changes, each one merged twice.
        for start in 0..news.len() {
            let mut known = TopicState::UNKNOWN;
            for index in 0..2 * news.len() {
                known.merge(&news[(start + index * 3) % news.len()]);
            }
            assert_eq!(known, news[4]);
        }
        let mut known = news[4];
        assert!(!known.merge(&news[2]), "stale news are no news");
        assert!(known.has_ended(Fence(1)) && known.has_ended(Fence(2)) && !known.has_ended(Fence(3)));

        // A later generation replaces the state, also with a lower tail; what comes late from the older one is ignored.
        let later = TopicState { generation: Generation(2), ..state(7, 1 << 32, true, false) };
        assert!(known.merge(&later) && known == later);
        assert!(!known.merge(&news[4]) && known == later);
        assert!(known.merge(&TopicState::GONE) && known.gone);
        known.reset(Generation(2));
        let forgotten = TopicState { known: Generation(2), resets: 1, ..TopicState::UNKNOWN };
        assert_eq!(known, forgotten);
        assert!(
            !known.merge(&news[4]) && known == forgotten,
            "an answer of the store's earlier history comes too late"
        );
        let read = TopicState { known: Generation(2), ..news[3] };
        assert!(known.merge(&read) && known.tail == 9, "a log that was not written since keeps its generation");
        assert!(!known.merge(&news[4]) && known.tail == 9, "a lost tail does not come back");
    }

    #[test]
    fn a_thread_that_a_loss_took_is_not_a_deleted_one() {
        let new = Generation(2);
        let history = LogHistory { epoch: threadline_core::Epoch::generate(), generation: Generation(1), prior: None };
        let read = TopicState { known: new, generation: Generation(1), history: Some(history), ..TopicState::UNKNOWN };
        let after = |news: &[TopicState]| {
            let mut state = TopicState::UNKNOWN;
            state.reset(new);
            for news in news {
                state.merge(news);
            }
            (state.gone, state.lost)
        };
        let absent = TopicState::absent(new);
        assert_eq!(after(&[absent]), (true, true));
        assert_eq!(after(&[absent, TopicState::GONE]), (true, true));
        assert_eq!(after(&[read, absent]), (true, false), "deleted after the loss");
        assert_eq!(after(&[TopicState::GONE, absent]), (true, false), "the report of its deletion came first");
        assert_eq!(after(&[TopicState::absent(Generation(1))]), (false, false), "read before the loss");
        let mut never_reset = TopicState::UNKNOWN;
        assert!(never_reset.merge(&absent) && never_reset.gone && !never_reset.lost);
    }
}
