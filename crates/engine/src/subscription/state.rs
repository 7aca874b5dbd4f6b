//! State of a thread for which followers wake.

use threadline_core::{Fence, Seq};
use threadline_store::Head;

use crate::cluster::bus::ThreadNews;

/// The part of a head that followers wait for. The state moves in one direction only, in whatever order changes arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicState {
    /// Seq of the newest event known to be committed.
    pub tail: Seq,
    /// Fence of the newest run known.
    pub fence: Fence,
    /// True while that run is active.
    pub active: bool,
    /// True if a stop of that run was requested.
    pub stop_requested: bool,
    /// True if the thread was deleted.
    pub gone: bool,
}

impl TopicState {
    /// State before the first read of the head.
    pub const UNKNOWN: Self = Self { tail: 0, fence: Fence(-1), active: true, stop_requested: false, gone: false };

    /// State of a deleted thread.
    pub const GONE: Self = Self { gone: true, ..Self::UNKNOWN };

    /// Merges a change; true if the state changes. Stale and repeated changes have no effect.
    pub fn merge(&mut self, news: &Self) -> bool {
        let before = *self;
        self.tail = self.tail.max(news.tail);
        self.gone |= news.gone;
        if news.fence > self.fence {
            (self.fence, self.active, self.stop_requested) = (news.fence, news.active, news.stop_requested);
        } else if news.fence == self.fence {
            self.active &= news.active;
            self.stop_requested |= news.stop_requested;
        }
        *self != before
    }

    /// True if the run with this fence is known to have ended.
    pub fn has_ended(&self, fence: Fence) -> bool {
        self.gone || self.fence > fence || (self.fence == fence && !self.active)
    }

    /// True if a stop of the run with this fence is known to be requested.
    pub fn stop_requested(&self, fence: Fence) -> bool {
        self.fence == fence && self.stop_requested
    }
}

impl From<&Head> for TopicState {
    fn from(head: &Head) -> Self {
        Self {
            tail: head.tail,
            fence: head.fence,
            active: head.active.is_some(),
            stop_requested: head.active.as_ref().is_some_and(|active| active.stop_requested_at.is_some()),
            gone: false,
        }
    }
}

impl From<&ThreadNews> for TopicState {
    fn from(news: &ThreadNews) -> Self {
        let ThreadNews { tail, fence, active, stop_requested, gone } = *news;
        Self { tail, fence, active, stop_requested, gone }
    }
}

impl From<&TopicState> for ThreadNews {
    fn from(state: &TopicState) -> Self {
        let TopicState { tail, fence, active, stop_requested, gone } = *state;
        Self { tail, fence, active, stop_requested, gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_in_any_order_lead_to_the_same_state() {
        let state = |tail, fence, active, stop_requested| TopicState {
            tail,
            fence: Fence(fence),
            active,
            stop_requested,
            gone: false,
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
    }
}
