//! Annotations of threads, stored next to the logs: neither appends nor reads of the log touch them.

use async_trait::async_trait;
use threadline_core::{Annotation, NewAnnotation, ThreadKey};

use crate::error::StoreResult;

/// Annotations of threads, which are deleted with their thread.
#[async_trait]
pub trait AnnotationStore: Send + Sync {
    /// Stores an annotation after all that the thread has. False, and nothing is changed, if the thread has one of this
    /// id: of all callers that store one id, on any node, exactly one receives true. `None` if the thread was deleted.
    async fn put_annotation(&self, key: ThreadKey, annotation: NewAnnotation) -> StoreResult<Option<bool>>;

    /// Annotations of a thread with a number above `after`, in order. The numbers begin at 1 and have no gap, in the
    /// order of arrival: a reader that continues from the last number seen misses none. `None` if the thread was
    /// deleted.
    async fn annotations(
        &self,
        key: ThreadKey,
        after: u64,
        limit: usize,
    ) -> StoreResult<Option<Vec<(u64, Annotation)>>>;
}
