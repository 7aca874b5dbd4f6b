//! What a socket has to write, as streams that are asked for one item at a time.

use std::sync::Arc;

use futures_util::{Stream, stream};

use super::frames::Tag;
use crate::{
    domain::{Batch, Fence, RunId, ThreadId, limits::FRAME_TARGET_BYTES},
    metrics::Present,
    store::StoreError,
    subscription::{Delivery, FeedDelivery, FeedSubscription, Subscription, TopicRef},
};

/// Something to be written.
pub(super) enum Item {
    /// From a thread's log; `live` once it has caught up.
    Log { tag: Arc<Tag>, live: bool, cursor: u64, delivery: Result<Delivery, StoreError> },
    /// From the feed.
    Feed(Result<FeedDelivery, StoreError>),
    /// A run that this client appends to was asked to stop.
    Stop(ThreadId, RunId),
    /// A run that this client appends to is over.
    Over(ThreadId, RunId),
}

/// The deliveries of a subscription, which is counted as long as they may come.
pub(super) fn log_items(subscription: Subscription, tag: Arc<Tag>, present: Present) -> impl Stream<Item = Item> {
    stream::unfold((subscription, tag, false, present), async |(mut subscription, tag, mut live, present)| {
        let delivery = subscription.next().await.transpose()?;
        match &delivery {
            Ok(Delivery::CaughtUp(_)) => live = true,
            Ok(Delivery::FellBehind(_)) => live = false,
            Ok(Delivery::Events(_) | Delivery::Ended(_)) | Err(_) => {}
        }
        let item = Item::Log { tag: tag.clone(), live, cursor: subscription.cursor(), delivery };
        Some((item, (subscription, tag, live, present)))
    })
}

/// The deliveries of a feed subscription; the same.
pub(super) fn feed_items(subscription: FeedSubscription, present: Present) -> impl Stream<Item = Item> {
    stream::unfold(Some((subscription, present)), async |following| {
        let (mut subscription, present) = following?;
        let delivery = subscription.next().await;
        let goes_on = !matches!(delivery, Ok(FeedDelivery::Ended));
        Some((Item::Feed(delivery), goes_on.then_some((subscription, present))))
    })
}

/// At most two items: the run is asked to stop; it is over.
pub(super) fn stop_item(topic: TopicRef, fence: Fence, thread: ThreadId, run: RunId) -> impl Stream<Item = Item> {
    let changes = topic.watch();
    // The topic is held so that its news keep coming.
    stream::unfold(Some((topic, changes, false)), move |watched| {
        let (thread, run) = (thread.clone(), run.clone());
        async move {
            let (topic, mut changes, mut told) = watched?;
            loop {
                let state = *changes.borrow_and_update();
                if state.is_over(fence) {
                    return Some((Item::Over(thread, run), None));
                }
                if state.must_stop(fence) && !std::mem::replace(&mut told, true) {
                    return Some((Item::Stop(thread, run), Some((topic, changes, told))));
                }
                if changes.changed().await.is_err() {
                    return Some((Item::Over(thread, run), None));
                }
            }
        }
    })
}

/// Consecutive batches up to about one frame.
pub(super) fn groups(batches: &[Arc<Batch>]) -> impl Iterator<Item = &[Arc<Batch>]> {
    let mut bytes = 0;
    batches.chunk_by(move |batch, _| {
        bytes += batch.body.len();
        let fits = bytes < FRAME_TARGET_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}
