//! Notes about threads: storing and reading them.

use std::sync::Arc;

use threadline_core::{Annotation, NewAnnotation, Principal, ThreadId, limits::MAX_ANNOTATION_PAGE};
use threadline_store::AnnotationStore;

use crate::{
    ChangeThreadError, ListCursor, Page, PageError,
    directory::{Attempt, Directory},
    lifecycle::Lifecycle,
    limits::{StoredBytes, Storing},
    records::ThreadRef,
};

/// Use cases of annotations.
#[derive(Clone)]
pub struct Annotations {
    pub(crate) deps: Arc<AnnotationDeps>,
}

/// Dependencies of [`Annotations`], shared by its clones.
pub(crate) struct AnnotationDeps {
    pub store: Arc<dyn AnnotationStore>,
    pub directory: Directory,
    pub stored: StoredBytes,
    pub lifecycle: Lifecycle,
}

impl Annotations {
    /// Stores an annotation. False if the thread already has one with this id, which stays unchanged.
    pub async fn put(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        annotation: NewAnnotation,
    ) -> Result<bool, ChangeThreadError> {
        self.deps.lifecycle.refuse_if_draining()?;
        self.deps.stored.admit(principal, Storing::Words).await?;
        let annotation = &annotation;
        let put = move |thread: Arc<ThreadRef>| async move {
            Ok(self.deps.store.put_annotation(thread.key, annotation.clone()).await?.into())
        };
        self.deps.directory.with_thread(principal, thread, put).await
    }

    /// A page of a thread's annotations with their numbers, in order of arrival.
    pub async fn list(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        after: Option<ListCursor>,
        limit: usize,
    ) -> Result<Page<(u64, Annotation)>, PageError> {
        let limit = limit.clamp(1, MAX_ANNOTATION_PAGE);
        let read = move |thread: Arc<ThreadRef>| async move {
            let Attempt::Done(start) = self.deps.directory.judge::<PageError>(&thread, after).await? else {
                return Ok(Attempt::ThreadGone);
            };
            let number = after.map_or(0, |after| after.number);
            let page = self.deps.store.annotations(thread.key, number, limit + 1).await?;
            Ok::<_, PageError>(page.map(|items| (items, start)).into())
        };
        let (items, start) = self.deps.directory.with_thread(principal, thread, read).await?;
        Ok(Page::cut(items, limit, |(number, _)| ListCursor { number: *number, ..start }))
    }
}
