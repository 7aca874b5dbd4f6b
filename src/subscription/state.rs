//! What followers of a thread are woken for.

use crate::{
    bus::ThreadNews,
    domain::{Fence, Seq},
    store::Head,
};

/// The part of a head that followers wait for. It moves in one direction only, whatever order news arrive in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicState {
    /// Seq of the newest event known to be committed.
    pub tail: Seq,
    /// Fence of the newest run known.
    pub fence: Fence,
    /// Whether that run is active.
    pub active: bool,
    /// Whether that run was asked to stop.
    pub stop_requested: bool,
    /// The thread was deleted.
    pub gone: bool,
}

impl TopicState {
    /// Nothing known yet.
    pub const UNKNOWN: Self = Self { tail: 0, fence: Fence(-1), active: true, stop_requested: false, gone: false };

    /// The thread was deleted.
    pub const GONE: Self = Self { gone: true, ..Self::UNKNOWN };

    /// Takes in news; true if anything is new. Stale and repeated news change nothing.
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

    /// Whether the run with this fence is known to have ended.
    pub fn is_over(&self, fence: Fence) -> bool {
        self.gone || self.fence > fence || (self.fence == fence && !self.active)
    }

    /// Whether the run with this fence is known to be asked to stop.
    pub fn must_stop(&self, fence: Fence) -> bool {
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
        // Every rotation of the news, each one told twice.
        for start in 0..news.len() {
            let mut known = TopicState::UNKNOWN;
            for index in 0..2 * news.len() {
                known.merge(&news[(start + index * 3) % news.len()]);
            }
            assert_eq!(known, news[4]);
        }
        let mut known = news[4];
        assert!(!known.merge(&news[2]), "stale news are no news");
        assert!(known.is_over(Fence(1)) && known.is_over(Fence(2)) && !known.is_over(Fence(3)));
    }
}
