//! Runs that the server drives, and the right to write into them.

use std::{fmt, sync::Arc};

use threadline_core::{DriverFence, Fence, Principal, Run, RunId, ThreadId, WriteFence};

use crate::{
    EndRunError, LookupError, Runs, authority,
    directory::Attempt,
    records::{ThreadAt, ThreadRef},
    runs::{
        close::CloseReason,
        run_handle::RunHandle,
        run_writer::{RunWriter, WritePolicy},
        writer::Writer,
    },
    subscription::TopicRef,
};

impl Runs {
    /// Thread of a run and fences of its writes, for a caller that may write into the run.
    pub(crate) async fn find(
        &self,
        writer: Writer,
        principal: &Principal,
        thread: ThreadAt<'_>,
        run: &RunId,
    ) -> Result<(Arc<ThreadRef>, WriteFence), EndRunError> {
        self.with_run(writer, principal, thread, run, |thread, fence| async move { Ok(Attempt::Done((thread, fence))) })
            .await
    }

    /// Runs an operation on the thread with the fences of its writes, for a writer that may write into the run. Like
    /// [`Directory::with_thread`](crate::directory::Directory::with_thread), it runs once more if the thread was deleted.
    pub(crate) async fn with_run<T, E, F>(
        &self,
        writer: Writer,
        principal: &Principal,
        at: ThreadAt<'_>,
        run: &RunId,
        operation: impl Fn(Arc<ThreadRef>, WriteFence) -> F,
    ) -> Result<T, E>
    where
        E: From<LookupError> + From<EndRunError>,
        F: Future<Output = Result<Attempt<T>, E>>,
    {
        if writer == Writer::Producer {
            authority::may_produce(principal, None).map_err(EndRunError::from)?;
        }
        let operation = &operation;
        let attempt = move |thread: Arc<ThreadRef>| async move {
            let Some(facts) = self.deps.directory.run(thread.key, run).await.map_err(EndRunError::from)? else {
                let head = self.deps.directory.head_at::<EndRunError>(thread.key, at.epoch).await?;
                return if head.is_some() { Err(EndRunError::RunNotFound.into()) } else { Ok(Attempt::ThreadGone) };
            };
            if writer == Writer::Producer && facts.driven {
                return match self.deps.store.run(thread.key, run).await.map_err(EndRunError::from)? {
                    Some(run) => Err(EndRunError::RunDriven { thread: thread.id.clone(), run: Box::new(run) }.into()),
                    None => Ok(Attempt::ThreadGone),
                };
            }
            if writer == Writer::Producer {
                authority::owns(principal, &facts).map_err(EndRunError::from)?;
            }
            operation(thread, WriteFence { run: facts.fence, driver: writer.fence() }).await
        };
        self.deps.directory.with_thread(principal, at.id, attempt).await
    }
}

/// Right to write into one run that the server drives. Only [`Runs::start_driven`] grants it, once per run.
#[derive(Clone)]
pub struct DriveRight(RunHandle);

impl fmt::Debug for DriveRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveRight").field("thread", self.thread()).field("run", self.run()).finish_non_exhaustive()
    }
}

impl DriveRight {
    pub(crate) fn new(runs: Runs, principal: Principal, thread: ThreadId, run: RunId, fence: DriverFence) -> Self {
        Self(RunHandle { runs, writer: Writer::Driver(fence), principal, thread, run })
    }

    /// Id of the thread that the run belongs to.
    pub fn thread(&self) -> &ThreadId {
        &self.0.thread
    }

    /// Id of the run that the right covers.
    pub fn run(&self) -> &RunId {
        &self.0.run
    }

    /// Writes a source's events into the run; `next` is the producer_seq of the first one. `topic` is the run's thread.
    pub fn writer(&self, topic: TopicRef, fence: Fence, next: u64, policy: WritePolicy) -> RunWriter {
        RunWriter::new(self.0.clone(), topic, fence, next, policy)
    }

    /// [`Runs::finish`] for the driver.
    pub async fn finish(&self) -> Result<Run, EndRunError> {
        self.0.end(&CloseReason::Finished { producer_seq: 0 }).await
    }

    /// [`Runs::fail`] for the driver.
    pub async fn fail(&self, code: String, message: String) -> Result<Run, EndRunError> {
        self.0.end(&CloseReason::failed(Some(code), Some(message))).await
    }
}
