//! Annotations of threads, kept beside their logs: nothing of an append or a read of the log knows of them.

use async_trait::async_trait;

use super::StoreResult;
use crate::domain::{Annotation, NewAnnotation, ThreadKey};

/// Annotations of threads. They go with their thread.
#[async_trait]
pub trait AnnotationStore: Send + Sync {
    /// Stores an annotation behind all that the thread has. False, and nothing is changed, if it has one of this id: of all
    /// who put one id, on any node, one is told true. `None` if the thread is gone.
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>>;

    /// Annotations of a thread with a number above `after`, in order. They are numbered from 1 without a gap, as they came:
    /// who reads on from the last number seen misses none. `None` if the thread is gone.
    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>>;
}
