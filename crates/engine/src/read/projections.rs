//! Projections of a thread's events: messages and state, at any seq.

use std::sync::Arc;

use threadline_core::{
    Epoch, Judgement, LogSlice, Principal, ReadFrom, Seq, ThreadId, ThreadKey, json,
    limits::{
        BODY_ROOM_WAIT, FOLD_EVENTS, FOLD_STEP_BYTES, MAX_CONVERSATION_BYTES, MAX_CONVERSATION_MEMORY,
        MEMORY_FREE_BYTES, PAGE_BYTES, QUOTA_RETRY, WEIGH_BYTES, WORK_SLICE_ROWS,
    },
    projection::conversation::Conversation,
};
use threadline_store::{DynStore, StoreError};
use tokio::time::Instant;

use crate::{
    ProjectionError,
    directory::{Attempt, Directory},
    limits::{
        BudgetOwner, BudgetPermit, FairQueue, Limited, MemoryBudget, MemoryKind, QueuedWork, Quota, has_one_thread,
        in_place,
    },
    metrics::Metrics,
    records::{RunNotice, ThreadRef},
    subscription::ReplacedLog,
};

/// Snapshots from this size on are decoded on a blocking thread, so that no other task waits for them.
const LARGE: usize = 64 * 1_024;

/// A conversation as of a seq: applying the events after it gives the complete conversation (P3).
#[derive(Debug, Clone)]
pub struct Projected {
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Newest event included in the conversation.
    pub seq: Seq,
    /// Messages and state up to `seq`.
    pub conversation: Conversation,
    /// Memory that the conversation holds.
    _memory: Option<Arc<BudgetPermit>>,
}

impl Projected {
    /// The empty conversation of a new log.
    pub fn empty(epoch: Epoch) -> Self {
        Self { epoch, seq: 0, conversation: Conversation::default(), _memory: None }
    }
}

/// Use cases of projections.
#[derive(Clone)]
pub struct Projections {
    pub(crate) directory: Directory,
    pub(crate) folder: Folder,
    /// Queue in which conversations are folded.
    pub(crate) queue: FairQueue,
    /// Memory that conversations take.
    pub(crate) memory: MemoryBudget,
    pub(crate) quota: Quota,
}

/// Work of a fold, and its memory.
pub(crate) struct Fold {
    work: QueuedWork,
    memory: BudgetPermit,
    quota: Quota,
}

impl Fold {
    /// Continues with a conversation of about this many bytes, which includes the next ones. Memory is waited for without
    /// a slice.
    async fn go_on(&mut self, bytes: usize) -> Result<(), Limited> {
        let more = if bytes > MEMORY_FREE_BYTES { bytes.saturating_sub(self.memory.bytes()) } else { 0 };
        if more > 0 {
            let room = self.memory.most_at_once().saturating_sub(self.memory.bytes());
            let more = more.next_multiple_of(FOLD_STEP_BYTES).min(room);
            if self.memory.take(more, Instant::now()).await.is_err() {
                self.work.pause();
                let taken = self.memory.take(more, Instant::now() + BODY_ROOM_WAIT).await;
                taken.map_err(|full| self.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?;
            }
        }
        self.work.go_on().await
    }
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
            let memory = self.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
            let mut fold = Fold { work, memory, quota: self.quota.clone() };
            let (mut conversation, since) = self.folder.snapshot(thread.key, seq, Some(&mut fold)).await?;
            match self.folder.fold(thread.key, &mut conversation, since, seq, Some(&mut fold)).await? {
                Folded::Done => {
                    fold.memory.shrink(weigh(&conversation, fold.memory.bytes()));
                    let _memory = Some(Arc::new(fold.memory));
                    Ok(Attempt::Done(Projected { epoch: head.epoch, seq, conversation, _memory }))
                }
                Folded::TooLarge => Err(ProjectionError::ConversationTooLarge),
                Folded::Gone => Ok(Attempt::ThreadGone),
            }
        };
        self.directory.with_thread(principal, thread, project).await
    }

    /// Takes memory for work over what a client has sent, of about this many bytes, and waits for it. Held until it is
    /// dropped.
    pub async fn room(&self, principal: &Principal, bytes: usize) -> Result<BudgetPermit, Limited> {
        let mut room = self.memory.place(MemoryKind::Fold, &BudgetOwner::of(principal));
        if bytes > MEMORY_FREE_BYTES {
            let taken = room.take(bytes.min(room.most_at_once()), Instant::now() + BODY_ROOM_WAIT).await;
            taken.map_err(|full| self.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?;
        }
        Ok(room)
    }

    /// The beginning of the conversation: after the first events, about `bytes` bytes of them. `None` if this
    /// incarnation of the thread was deleted.
    pub async fn beginning(&self, notice: &RunNotice, bytes: usize) -> Result<Option<Conversation>, ProjectionError> {
        let mut work = self.queue.begin_for(&notice.project).await?;
        let Some(head) = self.folder.store.heads(&[notice.key]).await?.pop() else { return Ok(None) };
        let (mut conversation, mut since, mut room) = (Conversation::default(), 0, bytes);
        while since < head.tail && room > 0 {
            work.go_on().await?;
            self.folder.metrics.store_reads.fold.inc();
            let Some(page) = self.folder.store.page(notice.key, ReadFrom::After(since), usize::MAX).await? else {
                return Ok(None);
            };
            let Some(last) = page.slice.last_seq() else { return Ok(None) };
            (since, room) = (last, room.saturating_sub(page.slice.bytes()));
            conversation = folded(conversation, page.slice, Some(&work)).await?;
        }
        Ok(Some(conversation))
    }
}

/// Outcome of a fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// All requested events are included.
    Done,
    /// The thread was deleted.
    Gone,
    /// The conversation grew beyond [`MAX_CONVERSATION_BYTES`].
    TooLarge,
}

/// Reads conversations from the log and its snapshots.
#[derive(Clone)]
pub(crate) struct Folder {
    pub store: DynStore,
    pub metrics: Metrics,
}

impl Folder {
    /// Newest snapshot not beyond `at`, with its seq; an empty conversation at seq 0 if there is none.
    pub async fn snapshot(
        &self,
        key: ThreadKey,
        at: Seq,
        work: Option<&mut Fold>,
    ) -> Result<(Conversation, Seq), ProjectionError> {
        let Some(found) = self.store.snapshot(key, at, Conversation::VERSION).await? else {
            return Ok((Conversation::default(), 0));
        };
        let body = found.body;
        let mut permit = None;
        if let Some(fold) = work {
            fold.go_on(json::weight(&body)).await?;
            fold.work.done(body.len(), 1);
            permit = fold.work.permit();
        }
        let decoded = if body.len() < LARGE {
            Conversation::decode(&body)
        } else {
            aside(move || {
                let _permit = permit;
                Conversation::decode(&body)
            })
            .await?
        };
        // A snapshot that cannot be decoded is ignored: the log is authoritative.
        match decoded {
            Some(conversation) => Ok((conversation, found.seq)),
            None => {
                tracing::warn!(thread = key.0, seq = found.seq, "cannot read a snapshot; folding from the first event");
                Ok((Conversation::default(), 0))
            }
        }
    }

    /// Applies the events after `since`, up to `to`, in slices of the queue. Background work (`None`) does not queue.
    pub async fn fold(
        &self,
        key: ThreadKey,
        conversation: &mut Conversation,
        mut since: Seq,
        to: Seq,
        mut work: Option<&mut Fold>,
    ) -> Result<Folded, ProjectionError> {
        // The memory that was taken for the snapshot is at least what the conversation weighs.
        let (mut weight, mut unweighed) = (work.as_ref().map_or(0, |fold| fold.memory.bytes()), 0);
        while since < to {
            if let Some(fold) = &mut work {
                fold.go_on(weight + unweighed + PAGE_BYTES).await?;
            }
            self.metrics.store_reads.fold.inc();
            let Some(page) = self.store.page(key, ReadFrom::After(since), FOLD_EVENTS).await? else {
                return Ok(Folded::Gone);
            };
            let slice = page.slice.between(since, to + 1);
            let Some(last) = slice.last_seq() else { return Ok(Folded::Gone) };
            since = last;
            // Small events can be large trees, so memory is taken for a page before it is applied.
            unweighed += slice.events().map(|(_, event, _)| json::event_weight(event)).sum::<usize>();
            if let Some(fold) = &mut work {
                fold.go_on(weight + unweighed).await?;
            }
            *conversation = folded(std::mem::take(conversation), slice, work.as_deref().map(|fold| &fold.work)).await?;
            if unweighed > WEIGH_BYTES {
                (weight, unweighed) = (weigh(conversation, weight + unweighed), 0);
                if weight > MAX_CONVERSATION_MEMORY || conversation.size() > MAX_CONVERSATION_BYTES {
                    return Ok(Folded::TooLarge);
                }
                if let Some(fold) = &mut work {
                    fold.memory.shrink(weight);
                }
            }
        }
        Ok(Folded::Done)
    }
}

/// Memory that a conversation takes, which is about `expected`. The walk over a large one delays no other task.
fn weigh(conversation: &Conversation, expected: usize) -> usize {
    if expected < WEIGH_BYTES { conversation.weight() } else { in_place(|| conversation.weight()) }
}

/// Applies a page of events on a blocking thread, because a page of patches may take long. A caller that leaves does not
/// stop that thread, so the thread keeps the permit of its slice.
async fn folded(
    mut conversation: Conversation,
    events: LogSlice,
    work: Option<&QueuedWork>,
) -> Result<Conversation, StoreError> {
    let permit = work.and_then(|work| {
        // Many small events take as long as many rows.
        let rows = usize::try_from(events.count()).unwrap_or(usize::MAX).saturating_mul(WORK_SLICE_ROWS) / FOLD_EVENTS;
        work.done(events.bytes(), rows.max(events.0.len()));
        work.permit()
    });
    aside(move || {
        let _permit = permit;
        for (_, event, _) in events.events() {
            conversation.observe(event);
        }
        conversation
    })
    .await
}

/// Runs long work on a blocking thread, so that other tasks are not delayed. On a runtime of one thread, which only tests
/// have, the work runs in place: the end of a blocking thread has no place in simulated time, so the order of events
/// would differ between two runs of a simulation.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    if has_one_thread() {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("a projection: {error}")))
}
