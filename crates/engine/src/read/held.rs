//! Conversations in memory, with what they take of it.

use std::ops::{Deref, DerefMut};

use threadline_core::{
    limits::{FOLD_STEP_BYTES, LONG_INPUT_BYTES},
    projection::conversation::Conversation,
};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::limits::{BudgetPermit, in_place};

/// A conversation, with the memory that it takes of its reader's share. The permit lives as long as the values.
///
/// Dropping a large tree takes as long as building it, so that is done on a blocking thread.
#[derive(Debug, Default)]
pub struct HeldConversation {
    conversation: Conversation,
    /// Permit for what the conversation weighs; `None` for an empty one.
    memory: Option<BudgetPermit>,
}

impl HeldConversation {
    pub(super) fn new(memory: BudgetPermit) -> Self {
        Self { conversation: Conversation::default(), memory: Some(memory) }
    }

    /// A copy, which takes this memory.
    pub(super) fn copy(&self, memory: BudgetPermit) -> Self {
        Self { conversation: self.process(Conversation::clone), memory: Some(memory) }
    }

    pub(super) fn memory(&mut self) -> Option<&mut BudgetPermit> {
        self.memory.as_mut()
    }

    /// Bytes that the permit has: about what the conversation weighs, 0 for a small one.
    pub fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, BudgetPermit::bytes)
    }

    /// Does work over the whole conversation. The other tasks of the thread do not wait for work over a large one.
    pub fn process<T>(&self, work: impl FnOnce(&Conversation) -> T) -> T {
        if self.is_large() { in_place(|| work(&self.conversation)) } else { work(&self.conversation) }
    }

    /// Does work that changes the conversation, like [`Self::process`].
    pub fn change<T>(&mut self, work: impl FnOnce(&mut Conversation) -> T) -> T {
        if self.is_large() { in_place(|| work(&mut self.conversation)) } else { work(&mut self.conversation) }
    }

    /// True if another conversation of this size fits beside it into the share of its owner.
    pub fn leaves_room(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| 2 * memory.bytes() <= memory.most())
    }

    pub(super) fn is_large(&self) -> bool {
        self.bytes() >= LONG_INPUT_BYTES
    }

    /// Drops the conversation on this thread.
    pub(super) fn end(&mut self) {
        self.conversation = Conversation::default();
        self.memory = None;
    }
}

impl Deref for HeldConversation {
    type Target = Conversation;
    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

impl DerefMut for HeldConversation {
    fn deref_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }
}

impl Drop for HeldConversation {
    fn drop(&mut self) {
        if self.bytes() < FOLD_STEP_BYTES {
            return;
        }
        if let Ok(runtime) = Handle::try_current()
            && runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
        {
            let mut large = std::mem::take(self);
            runtime.spawn_blocking(move || large.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use threadline_core::{Principal, ProjectId};
    use tokio::{runtime, task::yield_now, time::Instant};

    use super::*;
    use crate::limits::{BudgetOwner, MemoryBudget, MemoryKind};

    #[test]
    fn a_large_conversation_ends_on_a_blocking_thread() {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build().expect("a runtime");
        let (release, held) = mpsc::channel::<()>();
        let occupied = runtime.spawn_blocking(move || held.recv().is_err());
        runtime.block_on(async {
            let budget = MemoryBudget::default();
            let owner = BudgetOwner::of(&Principal::project(ProjectId::new("p").expect("an id")));
            for (bytes, stays) in [(FOLD_STEP_BYTES - 1, false), (FOLD_STEP_BYTES, true)] {
                let mut memory = budget.place(MemoryKind::Fold, &owner);
                memory.take(bytes, Instant::now()).await.expect("free");
                drop(HeldConversation::new(memory));
                // The only blocking thread is occupied, so what it is to drop stays.
                assert_eq!(budget.free() < budget.size(), stays, "{bytes}");
            }
            drop(release);
            assert!(occupied.await.expect("no panic"));
            while budget.free() < budget.size() {
                yield_now().await;
            }
        });
    }
}
