//! Feed of a user: the changes of the user's list of threads.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Epoch, Generation, Judgement, LogHistory, Thread, ThreadId};

/// Change of a thread, as far as a list of threads needs to know.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedChange {
    /// The thread exists. The state given is the present one, which may be newer than the change.
    Upsert(Box<Thread>),
    /// The thread was deleted.
    Delete,
}

/// Newest change of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    /// Position in the user's feed: a reader that has seen this entry continues after it.
    pub cursor: u64,
    /// Id of the thread that changed.
    pub thread_id: ThreadId,
    /// Present state of the thread, or its deletion.
    pub change: FeedChange,
}

/// Position in a feed, with the epoch under which it was given: another feed has given the same number to another change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedCursor {
    /// Epoch of the feed.
    pub epoch: Epoch,
    /// Position in the feed.
    pub position: u64,
}

impl FeedCursor {
    /// Cursor of a reader that has seen nothing, and of a feed that has no entry yet.
    pub const START: Self = Self { epoch: Epoch::NONE, position: 0 };
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.position)
    }
}

/// Newest position of a feed, and the history by which cursors into the feed are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedHead {
    /// Newest position; 0 if the feed has no entry yet.
    pub position: u64,
    /// Epoch of the feed, and the one before: as those of a log.
    pub history: LogHistory,
}

impl Default for FeedHead {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FeedHead {
    /// Head of a feed without an entry. The feed gets its epoch with the first one.
    pub const EMPTY: Self =
        Self { position: 0, history: LogHistory { epoch: Epoch::NONE, generation: Generation::FIRST, prior: None } };

    /// Cursor of a reader that has seen the complete feed.
    pub fn cursor(&self) -> FeedCursor {
        FeedCursor { epoch: self.history.epoch, position: self.position }
    }

    /// Judges a cursor, as [`LogHistory::judge`] does. A reader that has seen nothing continues in every feed.
    pub fn judge(&self, cursor: FeedCursor, current: Generation) -> Judgement {
        match cursor {
            FeedCursor::START => Judgement::Continues,
            FeedCursor { epoch, position } => self.history.judge(self.position, Some(epoch), position, current),
        }
    }

    /// Head before a change in `generation`: the first change gives the feed its epoch.
    pub fn entering(self, generation: Generation, nonce: i64) -> Self {
        let history = match self.history.epoch {
            Epoch::NONE => LogHistory { epoch: Epoch::generate(), generation, prior: None },
            _ => self.history.entering(generation, nonce, self.position),
        };
        Self { history, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_another_feed_continues_nowhere() {
        let first = FeedHead { position: 7, ..FeedHead::EMPTY.entering(Generation(1), 3) };
        let other = FeedHead { position: 9, ..FeedHead::EMPTY.entering(Generation(1), 3) };
        let judge = |head: FeedHead, cursor| head.judge(cursor, Generation(1));
        assert_eq!(judge(first, first.cursor()), Judgement::Continues);
        assert_eq!(judge(other, first.cursor()), Judgement::Replaced { common_up_to: None });
        assert_eq!(judge(FeedHead::EMPTY, first.cursor()), Judgement::Replaced { common_up_to: None });
        assert_eq!(judge(first, FeedHead::EMPTY.cursor()), Judgement::Continues, "nothing was seen");
        assert_eq!(
            judge(first, FeedCursor { position: 1, ..FeedCursor::START }),
            Judgement::Replaced { common_up_to: None }
        );

        // Two positions were given and lost; then the feed was changed in the next generation.
        let seen = FeedCursor { position: 9, ..first.cursor() };
        assert_eq!(judge(first, seen), Judgement::Ahead, "no loss explains it");
        let lost = Judgement::Replaced { common_up_to: Some(7) };
        assert_eq!(first.judge(seen, Generation(2)), lost);
        let changed = FeedHead { position: 10, ..first.entering(Generation(2), 3) };
        assert_eq!(changed.judge(seen, Generation(2)), lost);
        assert_eq!(changed.judge(first.cursor(), Generation(2)), Judgement::Rebased);
    }
}
