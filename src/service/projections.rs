//! What a thread's events amount to: messages and state, at any seq.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::{RunNotice, ServiceError, context::Context};
use crate::{
    domain::{
        Epoch, LogSlice, Principal, Seq, ThreadId, ThreadKey,
        limits::{MAX_CONVERSATION_BYTES, WEIGH_BYTES},
    },
    projection::conversation::Conversation,
    store::{ReadFrom, StoreError},
};

/// A snapshot of this size is read aside, so that nothing else waits for it.
const LARGE: usize = 64 * 1_024;

/// A conversation as of a seq: events after it, applied to this, give the whole (P3).
#[derive(Debug, Clone)]
pub struct Projected {
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// The newest event that is in it.
    pub seq: Seq,
    /// Messages and state.
    pub conversation: Conversation,
}

/// The use cases of projections.
#[derive(Clone)]
pub struct Projections {
    pub(super) context: Context,
}

impl Projections {
    /// The conversation after the event `at`, or after the newest one. Costs one snapshot and the events since.
    pub async fn at(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        at: Option<Seq>,
        epoch: Option<Epoch>,
    ) -> Result<Projected, ServiceError> {
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            let Some(head) = self.context.store.heads(&[thread.key]).await?.pop() else { continue };
            if epoch.is_some_and(|epoch| epoch != head.epoch) {
                return Err(ServiceError::LogReplaced { epoch: head.epoch, tail: head.tail });
            }
            let seq = at.unwrap_or(head.tail);
            if seq > head.tail {
                return Err(ServiceError::CursorAhead { epoch: Some(head.epoch), tail: head.tail });
            }
            // Each one may be large.
            let place = self.context.folds.clone().acquire_owned().await.ok().map(Arc::new);
            let (mut conversation, since) = snapshot(&self.context, thread.key, seq).await?;
            match fold(&self.context, thread.key, &mut conversation, since, seq, &place).await? {
                Folded::Done => return Ok(Projected { epoch: head.epoch, seq, conversation }),
                Folded::TooLarge => return Err(ServiceError::ConversationTooLarge),
                Folded::Gone => {}
            }
        }
    }

    /// The conversation as it began: after the first events, about so many bytes of them. `None` if this incarnation of the
    /// thread is gone.
    pub async fn beginning(&self, notice: &RunNotice, bytes: usize) -> Result<Option<Conversation>, ServiceError> {
        let place = self.context.folds.clone().acquire_owned().await.ok().map(Arc::new);
        let Some(head) = self.context.store.heads(&[notice.key]).await?.pop() else { return Ok(None) };
        let (mut conversation, mut since, mut room) = (Conversation::default(), 0, bytes);
        while since < head.tail && room > 0 {
            self.context.metrics.store_reads.fold.inc();
            let Some(page) = self.context.store.read(notice.key, ReadFrom::After(since), usize::MAX).await? else {
                return Ok(None);
            };
            let Some(last) = page.slice.last_seq() else { return Ok(None) };
            (since, room) = (last, room.saturating_sub(page.slice.bytes()));
            conversation = folded(conversation, page.slice, &place).await?;
        }
        Ok(Some(conversation))
    }
}

/// The newest snapshot that is not beyond `at`, and its seq; an empty conversation if there is none.
pub(super) async fn snapshot(context: &Context, key: ThreadKey, at: Seq) -> Result<(Conversation, Seq), StoreError> {
    let Some(found) = context.store.snapshot(key, at, Conversation::VERSION).await? else {
        return Ok((Conversation::default(), 0));
    };
    let body = found.body;
    let decoded = if body.len() < LARGE {
        Conversation::decode(&body)
    } else {
        aside(move || Conversation::decode(&body)).await?
    };
    // One that cannot be read is as good as none: the log is the truth.
    match decoded {
        Some(conversation) => Ok((conversation, found.seq)),
        None => {
            tracing::warn!(thread = key.0, seq = found.seq, "a snapshot cannot be read; folding from the first event");
            Ok((Conversation::default(), 0))
        }
    }
}

/// How a fold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folded {
    /// All of the events are in it.
    Done,
    /// The thread is gone.
    Gone,
    /// It grew beyond [`MAX_CONVERSATION_BYTES`].
    TooLarge,
}

/// Takes in the events after `since`, up to `to`. A page of patches may be much work, so pages are folded aside; who
/// leaves meanwhile cannot take that back, so the work holds on to its `place`.
pub(super) async fn fold(
    context: &Context,
    key: ThreadKey,
    conversation: &mut Conversation,
    mut since: Seq,
    to: Seq,
    place: &Option<Arc<OwnedSemaphorePermit>>,
) -> Result<Folded, StoreError> {
    let mut unweighed = 0;
    while since < to {
        context.metrics.store_reads.fold.inc();
        let Some(page) = context.store.read(key, ReadFrom::After(since), usize::MAX).await? else {
            return Ok(Folded::Gone);
        };
        let slice = page.slice.between(since, to + 1);
        let Some(last) = slice.last_seq() else { return Ok(Folded::Gone) };
        since = last;
        unweighed += slice.bytes();
        *conversation = folded(std::mem::take(conversation), slice, place).await?;
        if unweighed > WEIGH_BYTES {
            unweighed = 0;
            if conversation.weight() > MAX_CONVERSATION_BYTES {
                return Ok(Folded::TooLarge);
            }
        }
    }
    Ok(Folded::Done)
}

/// Takes in some events, aside.
async fn folded(
    mut conversation: Conversation,
    events: LogSlice,
    place: &Option<Arc<OwnedSemaphorePermit>>,
) -> Result<Conversation, StoreError> {
    let place = place.clone();
    aside(move || {
        let _place = place;
        for (_, event, _) in events.events() {
            conversation.observe(event);
        }
        conversation
    })
    .await
}

/// Does something that takes long where it is in nobody's way.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Unavailable(format!("a projection: {error}")))
}
