//! Folds of conversations: snapshots and pages of the log, read and applied in slices of the queue, within a share of the memory.

use threadline_core::{
    LogSlice, ReadFrom, Seq, ThreadKey, json,
    limits::{
        FOLD_EVENTS, FOLD_STEP_BYTES, LONG_INPUT_BYTES, MAX_CONVERSATION_BYTES, MAX_CONVERSATION_MEMORY,
        MEMORY_FREE_BYTES, PAGE_BYTES, QUOTA_RETRY, WEIGH_BYTES, WORK_SLICE_ROWS,
    },
    projection::conversation::Conversation,
};
use threadline_store::{DynStore, Snapshot, StoreError};
use tokio::time::{Duration, Instant};

use super::held::HeldConversation;
use crate::{
    ProjectionError,
    limits::{BudgetExceeded, BudgetOwner, MemoryBudget, MemoryKind, QueuedWork, Quota, has_one_thread, in_place},
    metrics::Metrics,
};

/// Snapshots from this size on are decoded on a blocking thread, so that no other task waits for them.
const LARGE: usize = 64 * 1_024;

/// Outcome of a fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folded {
    /// All requested events are included.
    Done,
    /// The thread was deleted.
    Gone,
}

/// Conversation that is being folded: its work, and its memory.
pub(crate) struct Fold {
    pub conversation: HeldConversation,
    /// Work in the queue; `None` in the background, which does not queue.
    pub work: Option<QueuedWork>,
    /// Longest wait for memory.
    patience: Duration,
    /// Most bytes that the conversation may take.
    most: usize,
    /// Weight of the conversation when it was last weighed, from above, and of the events since.
    weight: usize,
    unweighed: usize,
    quota: Quota,
}

impl Fold {
    /// Takes memory for a conversation of this many bytes, and waits for it until then.
    async fn take(&mut self, bytes: usize, until: Instant) -> Result<(), BudgetExceeded> {
        let held = self.conversation.bytes();
        let (more, room) = (bytes.saturating_sub(held), self.most.saturating_sub(held));
        match self.conversation.memory() {
            Some(memory) if more > 0 && bytes > MEMORY_FREE_BYTES => {
                memory.take(more.next_multiple_of(FOLD_STEP_BYTES).min(room), until).await
            }
            _ => Ok(()),
        }
    }

    /// Waits for memory, without a slice.
    async fn wait(&mut self, bytes: usize) -> Result<(), ProjectionError> {
        if let Some(work) = &mut self.work {
            work.pause();
        }
        let taken = self.take(bytes, Instant::now() + self.patience).await;
        Ok(taken.map_err(|full| self.quota.refuse(full.limit, full.value as u64, QUOTA_RETRY))?)
    }

    /// Continues with a conversation of about this many bytes, which includes the next ones, and with a step over `step`
    /// bytes. Refused if the conversation would be larger than its reader's share of the memory.
    async fn go_on(&mut self, bytes: usize, step: usize) -> Result<(), ProjectionError> {
        if bytes > self.most {
            return Err(ProjectionError::ConversationTooLarge);
        }
        if self.take(bytes, Instant::now()).await.is_err() {
            self.wait(bytes).await?;
        }
        match &mut self.work {
            Some(work) => Ok(work.step(step).await?),
            None => Ok(()),
        }
    }

    /// Weighs the conversation, and gives back what was taken beyond that.
    pub fn weigh(&mut self) -> usize {
        let is_light = self.weight + self.unweighed < FOLD_STEP_BYTES;
        let weigh = || self.conversation.weight();
        (self.weight, self.unweighed) = (if is_light { weigh() } else { in_place(weigh) }, 0);
        if let Some(memory) = self.conversation.memory() {
            memory.shrink(self.weight);
        }
        self.weight
    }

    /// Memory that a page of events may add. Estimates are from above: they are replaced by closer ones where they would
    /// be too much.
    fn added(&mut self, events: &LogSlice) -> usize {
        let sum = |weight: fn(&[u8]) -> usize| events.events().map(|(_, event, _)| weight(event)).sum::<usize>();
        let more = sum(json::event_weight);
        if self.weight + self.unweighed + more <= self.most {
            return more;
        }
        self.weigh();
        more.min(in_place(|| sum(json::close_weight)))
    }

    /// Applies a page of events on a blocking thread, because a page of patches may take long. A caller that leaves does
    /// not stop that thread, so the thread keeps the permits of the slice and of the memory.
    async fn apply(&mut self, events: LogSlice) -> Result<(), StoreError> {
        let permit = self.work.as_ref().and_then(|work| {
            // Many small events take as long as many rows.
            let count = usize::try_from(events.count()).unwrap_or(usize::MAX);
            let rows = count.saturating_mul(WORK_SLICE_ROWS) / FOLD_EVENTS;
            work.done(events.bytes(), rows.max(events.0.len()));
            work.permit()
        });
        let mut conversation = std::mem::take(&mut self.conversation);
        self.conversation = aside(move || {
            let _permit = permit;
            for (_, event, _) in events.events() {
                conversation.observe(event);
            }
            conversation
        })
        .await?;
        Ok(())
    }

    /// Encodes the conversation, with memory for the text, and drops it.
    pub async fn encoded(mut self) -> Result<Vec<u8>, ProjectionError> {
        let bytes = self.weigh() + self.conversation.size();
        self.go_on(bytes.min(self.most), 0).await?;
        let mut conversation = self.conversation;
        let encode = move || {
            let text = conversation.encode();
            conversation.end();
            text
        };
        Ok(aside(encode).await?)
    }
}

/// Reads conversations from the log and its snapshots.
#[derive(Clone)]
pub(crate) struct Folder {
    pub store: DynStore,
    pub metrics: Metrics,
    /// Memory that conversations take.
    pub memory: MemoryBudget,
    pub quota: Quota,
}

impl Folder {
    /// Begins a fold in the memory of this owner.
    pub fn begin(&self, owner: &BudgetOwner, work: Option<QueuedWork>, patience: Duration) -> Fold {
        let memory = self.memory.place(MemoryKind::Fold, owner);
        let most = memory.most_at_once();
        let conversation = HeldConversation::new(memory);
        Fold { conversation, work, patience, most, weight: 0, unweighed: 0, quota: self.quota.clone() }
    }

    /// Takes the newest snapshot not beyond `at`. Returns its seq, 0 if there is none.
    pub async fn snapshot(&self, key: ThreadKey, at: Seq, fold: &mut Fold) -> Result<Seq, ProjectionError> {
        let (found, bytes) = loop {
            let Some(found) = self.store.snapshot(key, at, Conversation::VERSION).await? else { return Ok(0) };
            let bytes = weight_of(&found, fold.most);
            if bytes > fold.most {
                if let Some(work) = &fold.work {
                    work.done(found.body.len(), 1);
                }
                return Err(ProjectionError::ConversationTooLarge);
            }
            if fold.take(bytes, Instant::now()).await.is_ok() {
                break (found, bytes);
            }
            // A fold that waits for memory holds no body beyond it.
            drop(found);
            fold.wait(bytes).await?;
        };
        let Snapshot { body, seq, .. } = found;
        // A tree takes time by what it weighs, and not by its text.
        fold.go_on(bytes, bytes).await?;
        let permit = fold.work.as_ref().and_then(|work| {
            work.done(body.len(), 1);
            work.permit()
        });
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
        let Some(decoded) = decoded else {
            tracing::warn!(thread = key.0, seq, "cannot read a snapshot; folding from the first event");
            return Ok(0);
        };
        *fold.conversation = decoded;
        fold.weight = bytes;
        Ok(seq)
    }

    /// Applies the events after `since`, up to `to`.
    pub async fn fold(
        &self,
        key: ThreadKey,
        fold: &mut Fold,
        mut since: Seq,
        to: Seq,
    ) -> Result<Folded, ProjectionError> {
        while since < to {
            let Some((last, _)) = self.page(key, fold, since, to).await? else { return Ok(Folded::Gone) };
            since = last;
            let is_light = fold.unweighed <= WEIGH_BYTES;
            if !is_light
                && (fold.weigh() > MAX_CONVERSATION_MEMORY || fold.conversation.size() > MAX_CONVERSATION_BYTES)
            {
                return Err(ProjectionError::ConversationTooLarge);
            }
        }
        Ok(Folded::Done)
    }

    /// Applies the next page. Returns its last seq, and its bytes; `None` if the thread was deleted.
    pub async fn page(
        &self,
        key: ThreadKey,
        fold: &mut Fold,
        since: Seq,
        to: Seq,
    ) -> Result<Option<(Seq, usize)>, ProjectionError> {
        let expected = fold.weight + fold.unweighed + PAGE_BYTES;
        fold.go_on(expected.min(fold.most), 0).await?;
        self.metrics.store_reads.fold.inc();
        let Some(page) = self.store.page(key, ReadFrom::After(since), FOLD_EVENTS).await? else { return Ok(None) };
        let events = page.slice.between(since, to + 1);
        let Some(last) = events.last_seq() else { return Ok(None) };
        // Small events can be large trees, so memory is taken for a page before it is applied.
        let (bytes, more) = (events.bytes(), fold.added(&events));
        fold.unweighed += more;
        fold.go_on(fold.weight + fold.unweighed, more).await?;
        fold.apply(events).await?;
        Ok(Some((last, bytes)))
    }
}

/// Memory that a snapshot takes with its tree, from above. A closer look is taken at one that seems to be beyond `most`.
fn weight_of(snapshot: &Snapshot, most: usize) -> usize {
    let body = &snapshot.body;
    let weigh = || {
        let weight = json::weight(body);
        let weight = if weight + body.len() > most { weight.min(json::close_weight(body)) } else { weight };
        weight + body.len()
    };
    if body.len() < LONG_INPUT_BYTES { weigh() } else { in_place(weigh) }
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
