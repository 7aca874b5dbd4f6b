//! Projections of a thread's events: messages and state, at any seq.

use std::sync::Arc;

use serde::de::IgnoredAny;
use threadline_core::{
    Epoch, Judgement, Principal, Seq, ThreadId, ThreadKey, json,
    limits::{BODY_ROOM_WAIT, INPUT_COPIES, MEMORY_FREE_BYTES, QUOTA_RETRY, TREE_COPIES},
};
use tokio::time::{Duration, Instant};

use super::{
    folding::{Fold, Folded, Folder},
    held::HeldConversation,
};
use crate::{
    ProjectionError,
    directory::{Attempt, Directory},
    limits::{BudgetOwner, BudgetPermit, FairQueue, Limited, MemoryKind, in_place},
    records::{RunNotice, ThreadRef},
    subscription::ReplacedLog,
};

/// A conversation as of a seq: applying the events after it gives the complete conversation (P3).
#[derive(Debug)]
pub struct Projected {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Newest event included in the conversation.
    pub seq: Seq,
    /// Messages and state up to `seq`.
    pub conversation: HeldConversation,
}

impl Projected {
    /// The empty conversation of a new log.
    pub fn empty(epoch: Epoch) -> Self {
        Self { epoch, seq: 0, conversation: HeldConversation::default() }
    }
}

/// A conversation that is read on, as its thread grows.
pub(crate) struct Reading {
    seq: Seq,
    fold: Fold,
}

impl Reading {
    pub fn conversation(&self) -> &HeldConversation {
        &self.fold.conversation
    }

    pub fn into_conversation(self) -> HeldConversation {
        self.fold.conversation
    }
}

/// Use cases of projections.
#[derive(Clone)]
pub struct Projections {
    pub(crate) directory: Directory,
    pub(crate) folder: Folder,
    /// Queue in which conversations are folded.
    pub(crate) queue: FairQueue,
}

impl Projections {
    /// The conversation after the event `at`, or after the newest event. Costs one snapshot and the events since.
    pub async fn at(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        at: Option<Seq>,
        epoch: Option<Epoch>,
    ) -> Result<Projected, ProjectionError> {
        let (epoch, seq, fold) = self.folded(principal, thread, at, epoch).await?;
        Ok(Projected { epoch, seq, conversation: fold.conversation })
    }

    /// Makes something of the conversation after the event `at`, or after the newest event. Of a large conversation it is
    /// made in a slice of the queue, and no other task of the thread waits for it, nor for the end of the conversation.
    pub async fn read<T>(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        at: Option<Seq>,
        epoch: Option<Epoch>,
        make: impl FnOnce(&Projected) -> T,
    ) -> Result<T, ProjectionError> {
        let (epoch, seq, Fold { conversation, mut work, .. }) = self.folded(principal, thread, at, epoch).await?;
        let mut projected = Projected { epoch, seq, conversation };
        let bytes = projected.conversation.bytes();
        if !projected.conversation.is_large() {
            return Ok(make(&projected));
        }
        if let Some(work) = &mut work {
            work.step(bytes).await?;
            work.took(bytes);
        }
        Ok(in_place(|| {
            let made = make(&projected);
            projected.conversation.end();
            made
        }))
    }

    /// Begins to read a conversation, up to the event `at`. It holds its memory, and no place in the queue.
    pub(crate) async fn reading(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        at: Seq,
        epoch: Epoch,
    ) -> Result<Reading, ProjectionError> {
        let (_, seq, mut fold) = self.folded(principal, thread, Some(at), Some(epoch)).await?;
        fold.work = None;
        Ok(Reading { seq, fold })
    }

    /// Reads a conversation on, up to the event `to`. False if the thread was deleted.
    pub(crate) async fn read_on(
        &self,
        principal: &Principal,
        key: ThreadKey,
        reading: &mut Reading,
        to: Seq,
    ) -> Result<bool, ProjectionError> {
        let Reading { seq, fold } = reading;
        if *seq >= to {
            return Ok(true);
        }
        fold.work = Some(self.queue.begin(principal).await?);
        let folded = self.folder.fold(key, fold, *seq, to).await?;
        fold.weigh();
        (fold.work, *seq) = (None, to);
        Ok(folded == Folded::Done)
    }

    /// A copy of a conversation, if the reader's share of the memory has room for it at once.
    pub(crate) async fn copy(&self, principal: &Principal, of: &HeldConversation) -> Option<HeldConversation> {
        let mut memory = self.folder.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
        if of.bytes() > 0 {
            memory.take(of.bytes(), Instant::now()).await.ok()?;
        }
        Some(of.copy(memory))
    }

    /// The fold of a conversation, with the epoch and the seq that it has reached.
    async fn folded(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        at: Option<Seq>,
        epoch: Option<Epoch>,
    ) -> Result<(Epoch, Seq, Fold), ProjectionError> {
        let project = move |thread: Arc<ThreadRef>| async move {
            let Some(head) = self.folder.store.heads(&[thread.key]).await?.pop() else {
                return Ok(Attempt::ThreadGone);
            };
            let (seq, tail) = (at.unwrap_or(head.tail), head.tail);
            // Without `at`, only the epoch is compared.
            let seen = at.unwrap_or(0);
            match head.history().judge(tail, epoch, seen, self.folder.store.lineage().generation()) {
                Judgement::Continues | Judgement::Rebased => {}
                Judgement::Replaced { common_up_to } => {
                    let replaced = ReplacedLog { epoch: Some(head.epoch), tail, common_up_to };
                    return Err(ProjectionError::LogReplaced(replaced));
                }
                Judgement::Ahead => return Err(ProjectionError::CursorAhead { epoch: Some(head.epoch), tail }),
            }
            let work = self.queue.begin(principal).await?;
            let mut fold = self.folder.begin(&BudgetOwner::of(principal), Some(work), BODY_ROOM_WAIT);
            let since = self.folder.snapshot(thread.key, seq, &mut fold).await?;
            match self.folder.fold(thread.key, &mut fold, since, seq).await? {
                Folded::Done => {
                    fold.weigh();
                    Ok(Attempt::Done((head.epoch, seq, fold)))
                }
                Folded::Gone => Ok(Attempt::ThreadGone),
            }
        };
        self.directory.with_thread(principal, thread, project).await
    }

    /// Takes memory for work over what a client has sent, of about this many bytes, and waits for it. Held until it is
    /// dropped.
    pub async fn room(&self, principal: &Principal, bytes: usize) -> Result<BudgetPermit, Limited> {
        let mut room = self.folder.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
        if bytes > MEMORY_FREE_BYTES {
            let taken = room.take(bytes.min(room.most_at_once()), Instant::now() + BODY_ROOM_WAIT).await;
            taken.map_err(|full| self.folder.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?;
        }
        Ok(room)
    }

    /// Takes memory for the tree of these events, and waits for it. `None` if it would be larger than the principal's share.
    pub async fn room_for_events(
        &self,
        principal: &Principal,
        events: impl Iterator<Item = &[u8]> + Clone,
    ) -> Result<Option<BudgetPermit>, Limited> {
        let most = self.folder.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal)).most_at_once();
        let sum = |weight: fn(&[u8]) -> usize| events.clone().map(weight).sum::<usize>();
        let weight = sum(json::event_weight);
        let weight = if weight > most { weight.min(in_place(|| sum(json::close_weight))) } else { weight };
        if weight > most { Ok(None) } else { self.room(principal, weight).await.map(Some) }
    }

    /// Takes memory for an input that is translated: its JSON text as trees, and what is built from it. Waits for the memory.
    /// `None` if it would be more than the principal's share.
    pub async fn room_for_trees(&self, principal: &Principal, text: &[u8]) -> Result<Option<BudgetPermit>, Limited> {
        let most = self.folder.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal)).most_at_once();
        let with = |weight: usize| text.len() * INPUT_COPIES + weight * TREE_COPIES;
        let bytes = with(json::weight(text));
        // The closer weight is right for valid JSON alone.
        let is_close = bytes > most && in_place(|| serde_json::from_slice::<IgnoredAny>(text)).is_ok();
        let bytes = if is_close { with(in_place(|| json::close_weight(text))) } else { bytes };
        if bytes > most { Ok(None) } else { self.room(principal, bytes).await.map(Some) }
    }

    /// The beginning of the conversation: after the first events, about `bytes` bytes of them. `None` if this
    /// incarnation of the thread was deleted. Takes the memory of the project, and does not wait for it: the node has other
    /// projects' threads to read.
    pub async fn beginning(
        &self,
        notice: &RunNotice,
        bytes: usize,
    ) -> Result<Option<HeldConversation>, ProjectionError> {
        let work = self.queue.begin_for(&notice.project).await?;
        let Some(head) = self.folder.store.heads(&[notice.key]).await?.pop() else { return Ok(None) };
        let mut fold = self.folder.begin(&BudgetOwner::keys(&notice.project), Some(work), Duration::ZERO);
        let (mut since, mut room) = (0, bytes);
        while since < head.tail && room > 0 {
            let Some((last, read)) = self.folder.page(notice.key, &mut fold, since, head.tail).await? else {
                return Ok(None);
            };
            (since, room) = (last, room.saturating_sub(read));
        }
        Ok(Some(fold.conversation))
    }
}
