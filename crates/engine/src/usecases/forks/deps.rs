//! Parts of the node that the use cases of forks work with.

use std::sync::Arc;

use threadline_store::{DynStore, StoreClock};

use crate::{
    directory::Directory,
    lifecycle::Lifecycle,
    limits::{FairQueue, MemoryBudget, Quota, StoredBytes},
    upkeep::feed_writer::FeedWriter,
};

/// Dependencies of [`Forks`](super::Forks), shared by its clones.
pub(crate) struct ForkDeps {
    pub store: DynStore,
    pub clock: StoreClock,
    pub directory: Directory,
    pub feed_writer: Arc<FeedWriter>,
    pub lifecycle: Lifecycle,
    pub queue: FairQueue,
    pub quota: Quota,
    pub memory: MemoryBudget,
    pub stored: StoredBytes,
}
