//! Branches of conversations in the line of a thread.

use serde::{Deserialize, Serialize};
use threadline_core::{Branch, Epoch, Family, ForkedFrom, Seq, ThreadId};

/// Place of a thread among the branches of its conversation.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BranchFacts {
    family: Option<Epoch>,
    listed: bool,
    forked_from: Option<ForkFacts>,
}

/// Origin of a fork.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForkFacts {
    thread_id: ThreadId,
    epoch: Epoch,
    seq: Seq,
}

impl BranchFacts {
    /// Facts of a branch; `None` of a thread that has none and is no fork.
    pub fn of(branch: Branch) -> Option<Self> {
        let Branch { family, listed, forked_from } = branch;
        if family.is_none() && forked_from.is_none() {
            return None;
        }
        let forked_from =
            forked_from.map(|ForkedFrom { thread: thread_id, epoch, seq }| ForkFacts { thread_id, epoch, seq });
        Some(Self { family: family.map(|family| Epoch::from_i64(family.0)), listed, forked_from })
    }

    /// True if it names an event after the end of the log.
    pub fn is_beyond(&self, tail: Seq) -> bool {
        self.forked_from.as_ref().is_some_and(|from| from.seq > tail)
    }

    /// Branch with these facts.
    pub fn branch(self) -> Branch {
        let from = |ForkFacts { thread_id: thread, epoch, seq }| ForkedFrom { thread, epoch, seq };
        Branch {
            family: self.family.map(|family| Family(family.to_i64())),
            // A thread without a family is in the list whatever its file says.
            listed: self.listed || self.family.is_none(),
            forked_from: self.forked_from.map(from),
        }
    }
}
