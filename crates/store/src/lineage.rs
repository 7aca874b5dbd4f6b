//! Lineage of a store: its generations, and the fence around a history that this process has not adopted.

use async_trait::async_trait;
use threadline_core::{Generation, Timestamp};
use tokio::sync::watch;

use crate::{StoreError, StoreResult};

/// A generation, with a random number that tells it apart from the generation of the same number in another history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lineage {
    /// Number of the generation.
    pub generation: Generation,
    /// Random number of the generation.
    pub nonce: i64,
}

/// Reason why the present history of the store is not the one that this process knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageCause {
    /// The server is on another timeline: a standby was promoted, or a backup was recovered.
    Timeline,
    /// The data is in another database cluster.
    System,
    /// Another process has opened a generation.
    Adopted,
    /// Data that this process has seen committed is no longer there.
    RolledBack,
    /// The server is a standby, or accepts no writes: it has no history of its own.
    Standby,
    /// The file was copied or restored.
    Copied,
    /// An operator has opened the generation.
    Ordered,
}

impl LineageCause {
    /// Every cause, in the order in which the metrics list them.
    pub const ALL: [Self; 7] =
        [Self::Timeline, Self::System, Self::Adopted, Self::RolledBack, Self::Standby, Self::Copied, Self::Ordered];

    /// Stable name of the cause, for logs, metrics and the table `lineage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::System => "system",
            Self::Adopted => "adopted",
            Self::RolledBack => "rolled-back",
            Self::Standby => "standby",
            Self::Copied => "copied",
            Self::Ordered => "ordered",
        }
    }
}

/// History of a store as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineageState {
    /// The history is the one of this generation.
    Known(Lineage),
    /// The history has changed since the generation: nothing is read or written until it is adopted.
    Fenced {
        /// The newest generation that was known.
        known: Lineage,
        /// Reason of the change.
        cause: LineageCause,
    },
}

impl LineageState {
    /// The newest generation that is known.
    pub fn known(&self) -> Lineage {
        match *self {
            Self::Known(known) | Self::Fenced { known, .. } => known,
        }
    }

    /// Reason why the history is fenced; `None` if it is known.
    pub fn cause(&self) -> Option<LineageCause> {
        match *self {
            Self::Known(_) => None,
            Self::Fenced { cause, .. } => Some(cause),
        }
    }
}

/// A generation that was opened, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationRecord {
    /// Number of the generation.
    pub generation: Generation,
    /// Time at which it was opened, by the store's clock.
    pub at: Timestamp,
    /// Stable name of the cause.
    pub cause: String,
}

/// The lineage of a store.
#[async_trait]
pub trait LineageStore: Send + Sync {
    /// The fence of this store, which its own connections set when they meet another history.
    fn lineage(&self) -> &LineageFence;

    /// Adopts the present history: opens a generation for it, unless another process has done so. For
    /// [`LineageCause::Ordered`], none is opened if no node has committed a beat in the newest one yet. Keys of threads
    /// that are created from then on are above all that were given before. The store stays fenced;
    /// [`LineageFence::open`] ends that.
    async fn adopt(&self, cause: LineageCause) -> StoreResult<Lineage>;

    /// The generations, newest first.
    async fn generations(&self, limit: usize) -> StoreResult<Vec<GenerationRecord>>;
}

/// Fence around the history of a store. A call that begins while the fence is closed fails, and so does one that ends
/// after the fence was closed: its answer may come from a history that no longer exists.
#[derive(Debug)]
pub struct LineageFence(watch::Sender<LineageState>);

impl LineageFence {
    /// A fence that is open for a history.
    pub fn new(lineage: Lineage) -> Self {
        Self(watch::Sender::new(LineageState::Known(lineage)))
    }

    /// State at this moment.
    pub fn state(&self) -> LineageState {
        *self.0.borrow()
    }

    /// Receiver that wakes on changes of the state.
    pub fn watch(&self) -> watch::Receiver<LineageState> {
        self.0.subscribe()
    }

    /// Generation of the newest history that is known.
    pub fn generation(&self) -> Generation {
        self.state().known().generation
    }

    /// Closes the fence. A fence that is closed keeps its cause, unless that was [`LineageCause::Standby`].
    pub fn close(&self, cause: LineageCause) {
        self.0.send_if_modified(|state| {
            let known = match *state {
                LineageState::Known(known) | LineageState::Fenced { known, cause: LineageCause::Standby } => known,
                LineageState::Fenced { .. } => return false,
            };
            let closed = LineageState::Fenced { known, cause };
            std::mem::replace(state, closed) != closed
        });
    }

    /// Opens the fence for a history that was adopted, and forgets what came before.
    pub fn open(&self, lineage: Lineage) {
        self.0.send_replace(LineageState::Known(lineage));
    }

    /// The present history; an error while the fence is closed.
    pub fn pass(&self) -> StoreResult<Lineage> {
        match self.state() {
            LineageState::Known(lineage) => Ok(lineage),
            LineageState::Fenced { cause, .. } => Err(StoreError::Fenced(cause.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Lineage = Lineage { generation: Generation(1), nonce: 7 };
    const SECOND: Lineage = Lineage { generation: Generation(2), nonce: 9 };

    #[test]
    fn a_fence_passes_only_the_history_that_was_adopted() {
        let fence = LineageFence::new(FIRST);
        assert_eq!(fence.pass().ok(), Some(FIRST));
        fence.close(LineageCause::Standby);
        fence.close(LineageCause::Timeline);
        fence.close(LineageCause::Adopted);
        assert_eq!(fence.state(), LineageState::Fenced { known: FIRST, cause: LineageCause::Timeline });
        assert!(fence.pass().is_err() && fence.generation() == FIRST.generation);
        fence.open(SECOND);
        assert_eq!(fence.pass().ok(), Some(SECOND));
    }
}
