//! Output of a socket, as streams from which one item is taken at a time.

use std::sync::Arc;

use futures_util::{Stream, stream};
use threadline_core::{Batch, FeedCursor, Fence, RunId, ThreadId, limits::FRAME_TARGET_BYTES};
use threadline_engine::{
    StoreError,
    metrics::GaugeGuard,
    subscription::{Delivery, FeedDelivery, FeedSubscription, Subscription, TopicRef},
};

use crate::api::socket::frames::FrameTag;

/// Item that a socket writes.
pub(super) enum Item {
    /// Delivery of a thread's log; `live` once the subscription has caught up.
    Log { tag: Arc<FrameTag>, live: bool, cursor: u64, delivery: Result<Delivery, StoreError> },
    /// Delivery of the feed.
    Feed { cursor: FeedCursor, delivery: Result<FeedDelivery, StoreError> },
    /// A stop was requested of a run that this client appends to.
    Stop(ThreadId, RunId),
    /// A run that this client appends to has ended.
    Over(ThreadId, RunId),
}

/// Deliveries of a subscription, which is counted as long as deliveries may follow.
pub(super) fn log_items(
    subscription: Subscription,
    tag: Arc<FrameTag>,
    present: GaugeGuard,
) -> impl Stream<Item = Item> {
    stream::unfold((subscription, tag, false, present), async |(mut subscription, tag, mut live, present)| {
        let delivery = subscription.next().await.transpose()?;
        match &delivery {
            Ok(Delivery::CaughtUp(_)) => live = true,
            Ok(Delivery::FellBehind(_)) => live = false,
            Ok(Delivery::Events(_) | Delivery::Rebased { .. } | Delivery::Queue(_) | Delivery::Ended(_)) | Err(_) => {}
        }
        let tag = match delivery {
            Ok(Delivery::Rebased { epoch, .. }) => Arc::new(FrameTag::new(tag.thread.clone(), epoch)),
            _ => tag,
        };
        let item = Item::Log { tag: tag.clone(), live, cursor: subscription.cursor(), delivery };
        Some((item, (subscription, tag, live, present)))
    })
}

/// Deliveries of a feed subscription, counted in the same way.
pub(super) fn feed_items(subscription: FeedSubscription, present: GaugeGuard) -> impl Stream<Item = Item> {
    stream::unfold(Some((subscription, present)), async |following| {
        let (mut subscription, present) = following?;
        let delivery = subscription.next().await;
        let goes_on = !matches!(delivery, Ok(FeedDelivery::Ended(_)));
        let cursor = subscription.cursor();
        Some((Item::Feed { cursor, delivery }, goes_on.then_some((subscription, present))))
    })
}

/// At most two items: the request to stop the run, and the end of the run.
pub(super) fn stop_item(topic: TopicRef, fence: Fence, thread: ThreadId, run: RunId) -> impl Stream<Item = Item> {
    let changes = topic.watch();
    // The topic is held so that its changes continue to arrive.
    stream::unfold(Some((topic, changes, false)), move |watched| {
        let (thread, run) = (thread.clone(), run.clone());
        async move {
            let (topic, mut changes, mut told) = watched?;
            loop {
                let state = *changes.borrow_and_update();
                if state.has_ended(fence) {
                    return Some((Item::Over(thread, run), None));
                }
                if state.stop_requested(fence) && !std::mem::replace(&mut told, true) {
                    return Some((Item::Stop(thread, run), Some((topic, changes, told))));
                }
                if changes.changed().await.is_err() {
                    return Some((Item::Over(thread, run), None));
                }
            }
        }
    })
}

/// Groups of consecutive batches, each of up to about one frame.
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
