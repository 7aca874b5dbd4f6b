//! Noting something about a thread, and reading what was noted.

use super::{ServiceError, context::Context};
use crate::domain::{Annotation, NewAnnotation, Principal, ThreadId, limits::MAX_ANNOTATION_PAGE};

/// The use cases of annotations.
#[derive(Clone)]
pub struct Annotations {
    pub(super) context: Context,
}

impl Annotations {
    /// Stores an annotation. False if the thread has one of this id, which stays as it is.
    pub async fn put(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        annotation: NewAnnotation,
    ) -> Result<bool, ServiceError> {
        self.context.refuse_if_draining()?;
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            if let Some(new) = self.context.store.put_annotation(thread.key, annotation.clone()).await? {
                return Ok(new);
            }
        }
    }

    /// A page of a thread's annotations, in the order in which they came, with their numbers; and whether there are more.
    pub async fn list(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, Annotation)>, bool), ServiceError> {
        let limit = limit.clamp(1, MAX_ANNOTATION_PAGE);
        let mut lookup = self.context.directory.lookup(principal, thread);
        loop {
            let thread = lookup.next().await?;
            if let Some(mut page) = self.context.store.annotations(thread.key, after, limit + 1).await? {
                let more = page.len() > limit;
                page.truncate(limit);
                return Ok((page, more));
            }
        }
    }
}
