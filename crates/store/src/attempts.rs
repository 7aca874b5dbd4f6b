//! Attempts at runs of producers. A process that takes a run up displaces the one before it by the number of its attempt,
//! which the head has in place of the fence of a driver ([`DriverFence::of_attempt`](threadline_core::DriverFence::of_attempt)).

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    AttemptId, Generation, IdError, NewEvents, RunId, Seq, ThreadKey, WriteFence, limits::MAX_DISPLACED_ATTEMPTS,
};

use crate::{error::StoreResult, runs::Committed};

/// Turn of an active run of a producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerTurn {
    /// Number of the present attempt, from 1.
    pub attempt: u64,
    /// Id of the present attempt, if its process has named one.
    pub attempt_id: Option<AttemptId>,
    /// Ids of the attempts before.
    pub displaced: Displaced,
    /// Seq after the events that the run began with; 0 if it is not known.
    pub opened: Seq,
}

/// Ids of attempts at an active run that were displaced, the newest last: the late repetition of such a start must not displace the
/// attempt that has followed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Displaced(Vec<AttemptId>);

impl Displaced {
    /// The ids once `next` is displaced, too. Of more than [`MAX_DISPLACED_ATTEMPTS`] the oldest is forgotten.
    #[must_use]
    pub fn with(mut self, next: Option<AttemptId>) -> Self {
        self.0.extend(next);
        let over = self.0.len().saturating_sub(MAX_DISPLACED_ATTEMPTS);
        self.0.drain(..over);
        self
    }

    /// True if this attempt was displaced.
    pub fn has(&self, id: &AttemptId) -> bool {
        self.0.contains(id)
    }

    /// Text that the databases keep: an id a line, since no id holds a control character. `None` without ids.
    pub(crate) fn to_text(&self) -> Option<String> {
        let ids: Vec<&str> = self.0.iter().map(AttemptId::as_str).collect();
        (!ids.is_empty()).then(|| ids.join("\n"))
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, IdError> {
        text.split('\n').map(AttemptId::new).collect::<Result<_, _>>().map(Self)
    }
}

/// The next attempt at a run of a producer.
#[derive(Debug, Clone)]
pub struct TakeUp {
    /// Key of the thread.
    pub key: ThreadKey,
    /// Id of the run, which must be active, without a requested stop.
    pub run: RunId,
    /// Fences that the head must have.
    pub fence: WriteFence,
    /// Tail that the head must have.
    pub tail: Seq,
    /// Generation that the store must have: the number of the attempt is new in it.
    pub generation: Generation,
    /// Number of the attempt.
    pub attempt: u64,
    /// Id of the attempt.
    pub attempt_id: AttemptId,
    /// Ids of the attempts before, with that of the one that is displaced.
    pub displaced: Displaced,
    /// Length of the lease from now on; `None` keeps the present one.
    pub lease: Option<Duration>,
    /// Events that end or supersede what the attempt before has left.
    pub events: Option<NewEvents>,
}

/// Attempts at runs of producers.
#[async_trait]
pub trait AttemptStore: Send + Sync {
    /// Turn of a run that its producer writes; `None` if the run is not active, or is driven by the server.
    async fn producer_turn(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<ProducerTurn>>;

    /// Begins the next attempt at a run of a producer. `None`: the head or the generation is not as expected, or a stop was
    /// requested, and nothing was changed.
    async fn take_up(&self, take: TakeUp) -> StoreResult<Option<Committed>>;
}
