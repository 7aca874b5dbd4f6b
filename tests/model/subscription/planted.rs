//! The reader under test, and readers with a bug each, to see that the checker finds it.

use std::{collections::VecDeque, sync::Arc};

use threadline_core::{Batch, Epoch, LogSlice, ReadFrom, Run, Seq, ThreadKey};
use threadline_engine::subscription::{
    Delivery, EndReason, FollowError, ReplacedLog, Subscription, TopicRef, TopicState,
};
use threadline_store::{DynStore, LogStore, StoreError};
use tokio::sync::{broadcast, watch};

use super::world::World;

/// How a reader is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The one under test.
    Real,
    /// Reads what is there, then subscribes to what comes.
    ReadThenSubscribe,
    /// Subscribes, then reads, but takes no notice of having lagged.
    IgnoreLag,
    /// Takes the cursor for the next event to be read.
    InclusiveCursor,
    /// Believes the hints without looking at the head first.
    NoHeadAtOpen,
    /// Moves on before the delivery is handed over, so that a dropped wait loses it.
    LosesDropped,
}

/// A reader's connection.
pub enum Reader {
    Real(Box<Subscription>),
    LosesDropped(Box<Subscription>),
    Broadcast(Broadcast),
    Hints(Hints),
}

impl Reader {
    pub async fn open(
        world: &World,
        node: usize,
        key: ThreadKey,
        cursor: Seq,
        epoch: Option<Epoch>,
        run: Option<Run>,
    ) -> Result<Self, FollowError> {
        let (hub, store) = (&world.hubs[node], world.slow.clone());
        match world.options.design {
            Design::Real => Ok(Self::Real(Box::new(Subscription::open(hub, store, key, cursor, epoch, run).await?))),
            Design::LosesDropped => {
                Ok(Self::LosesDropped(Box::new(Subscription::open(hub, store, key, cursor, epoch, run).await?)))
            }
            Design::InclusiveCursor => {
                let cursor = cursor.saturating_sub(1);
                Ok(Self::Real(Box::new(Subscription::open(hub, store, key, cursor, epoch, run).await?)))
            }
            design => {
                let head = world.raw.heads(&[key]).await?.pop().ok_or(FollowError::Gone)?;
                if epoch.is_some_and(|epoch| epoch != head.epoch) {
                    return Err(FollowError::LogReplaced(ReplacedLog {
                        epoch: Some(head.epoch),
                        tail: head.tail,
                        common_up_to: None,
                    }));
                }
                if cursor > head.tail {
                    return Err(FollowError::CursorAhead { epoch: head.epoch, tail: head.tail });
                }
                if design == Design::NoHeadAtOpen {
                    let topic = hub.join(key);
                    return Ok(Self::Hints(Hints { watch: topic.watch(), topic, store, cursor, live: false }));
                }
                Ok(Self::Broadcast(Broadcast::open(world, key, cursor, design).await?))
            }
        }
    }

    pub async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        match self {
            Self::Real(subscription) => subscription.next().await,
            Self::LosesDropped(subscription) => {
                let delivery = subscription.next().await;
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                delivery
            }
            Self::Broadcast(reader) => Ok(Some(reader.next().await)),
            Self::Hints(reader) => reader.next().await,
        }
    }
}

/// Reads, and is sent what comes.
pub struct Broadcast {
    pending: VecDeque<LogSlice>,
    receiver: Option<broadcast::Receiver<Arc<Batch>>>,
    cursor: Seq,
    live: bool,
}

impl Broadcast {
    async fn open(world: &World, key: ThreadKey, cursor: Seq, design: Design) -> Result<Self, FollowError> {
        let mut reader = Self { pending: VecDeque::new(), receiver: None, cursor, live: false };
        if design == Design::IgnoreLag {
            reader.receiver = world.listen(key);
        }
        let mut at = cursor;
        while let Some(page) = world.slow.read(key, ReadFrom::After(at), usize::MAX).await? {
            let Some(last) = page.slice.last_seq() else { break };
            at = last;
            reader.pending.push_back(page.slice);
        }
        if design == Design::ReadThenSubscribe {
            reader.receiver = world.listen(key);
        }
        Ok(reader)
    }

    async fn next(&mut self) -> Delivery {
        if let Some(page) = self.pending.pop_front() {
            self.cursor = page.last_seq().unwrap_or(self.cursor);
            return Delivery::Events(page);
        }
        if !self.live {
            self.live = true;
            return Delivery::CaughtUp(self.cursor);
        }
        let Some(receiver) = &mut self.receiver else { return Delivery::Ended(EndReason::ThreadDeleted) };
        loop {
            match receiver.recv().await {
                Ok(batch) => {
                    if let Some(fresh) = batch.between(self.cursor, Seq::MAX) {
                        self.cursor = fresh.last_seq;
                        return Delivery::Events(LogSlice(vec![fresh]));
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Delivery::Ended(EndReason::ThreadDeleted),
            }
        }
    }
}

/// Follows the hints only.
pub struct Hints {
    topic: TopicRef,
    watch: watch::Receiver<TopicState>,
    store: DynStore,
    cursor: Seq,
    live: bool,
}

impl Hints {
    async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        loop {
            let state = *self.watch.borrow_and_update();
            if state.gone {
                return Ok(Some(Delivery::Ended(EndReason::ThreadDeleted)));
            }
            if self.cursor < state.tail {
                let page = self.store.read(self.topic.key(), ReadFrom::After(self.cursor), usize::MAX).await?;
                let Some(page) = page else { return Ok(Some(Delivery::Ended(EndReason::ThreadDeleted))) };
                self.cursor = page.slice.last_seq().unwrap_or(self.cursor);
                return Ok(Some(Delivery::Events(page.slice)));
            }
            if !self.live {
                self.live = true;
                return Ok(Some(Delivery::CaughtUp(self.cursor)));
            }
            self.watch.changed().await.expect("the topic is held");
        }
    }
}
