//! Reading of runs, one or a page.

use std::sync::Arc;

use threadline_core::{Fence, Principal, Run, RunId, Seq, ThreadId, ThreadKey, limits::MAX_PAGE};

use threadline_store::StoreError;

use crate::{ListCursor, Page, PageError, RunLookupError, directory::Attempt, records::ThreadRef, runs::Runs};

impl Runs {
    /// Reads a run from the store.
    pub async fn get(&self, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<Run, RunLookupError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            match self.deps.store.run(thread.key, run).await? {
                Some(run) => Ok(Attempt::Done(run)),
                None if self.deps.directory.exists(thread.key).await? => Err(RunLookupError::RunNotFound),
                None => Ok(Attempt::ThreadGone),
            }
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }

    /// Runs of a thread, newest first, before a position, whose number is a fence. With `at`, the runs as they were after
    /// that event.
    pub async fn list(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        before: Option<ListCursor>,
        limit: usize,
        at: Option<Seq>,
    ) -> Result<Page<Run>, PageError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let read = move |thread: Arc<ThreadRef>| async move {
            let Attempt::Done(start) = self.deps.directory.judge::<PageError>(&thread, before).await? else {
                return Ok(Attempt::ThreadGone);
            };
            let before = before.map(|before| Fence(before.number.cast_signed()));
            let runs = self.deps.store.runs(thread.key, before, limit + 1).await?;
            if runs.is_empty() && !self.deps.directory.exists(thread.key).await? {
                return Ok(Attempt::ThreadGone);
            }
            let runs = match at {
                Some(at) => self.as_of(thread.key, at, runs, limit).await?,
                None => runs,
            };
            Ok::<_, PageError>(Attempt::Done((runs, start)))
        };
        let (runs, start) = self.deps.directory.with_thread(principal, thread, read).await?;
        // No fence is given twice, so the generation does not count.
        let at = |run: &Run| ListCursor { number: run.fence.0.cast_unsigned(), generation: None, ..start };
        Ok(Page::cut(runs, limit, at))
    }

    /// Runs as they were after the event `at`: at least one more than `limit` if the thread had so many. `runs` is the
    /// newest page.
    async fn as_of(&self, key: ThreadKey, at: Seq, mut runs: Vec<Run>, limit: usize) -> Result<Vec<Run>, StoreError> {
        // Runs that began later come first and are skipped page by page.
        while let Some(last) = runs.last()
            && last.first_seq > at
        {
            runs = self.deps.store.runs(key, Some(last.fence), MAX_PAGE).await?;
        }
        runs.retain(|run| run.first_seq <= at);
        while let Some(last) = runs.last()
            && runs.len() <= limit
        {
            let more = self.deps.store.runs(key, Some(last.fence), limit + 1 - runs.len()).await?;
            if more.is_empty() {
                break;
            }
            runs.extend(more);
        }
        Ok(runs.into_iter().filter_map(|run| run.as_of(at)).collect())
    }
}
