//! Runs that the server drives, and the right to write into them.

use std::{fmt, sync::Arc};

use threadline_core::{DriverFence, Fence, Principal, Run, RunId, ThreadId, ThreadKey, WriteFence};
use threadline_store::{StoreError, Turn};

use crate::{
    EndRunError, LookupError, Runs, authority,
    directory::Attempt,
    records::{ThreadAt, ThreadRef},
    runs::{
        close::CloseReason,
        run_handle::RunHandle,
        run_writer::{RunWriter, WritePolicy},
        turns::HeldTurn,
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
        if let Writer::Producer(_) = writer {
            authority::may_produce(principal, None).map_err(EndRunError::from)?;
        }
        let operation = &operation;
        let attempt = move |thread: Arc<ThreadRef>| async move {
            let Some(facts) = self.deps.directory.run(thread.key, run).await.map_err(EndRunError::from)? else {
                let head = self.deps.directory.head_at::<EndRunError>(thread.key, at.epoch).await?;
                return if head.is_some() { Err(EndRunError::RunNotFound.into()) } else { Ok(Attempt::ThreadGone) };
            };
            if matches!(writer, Writer::Producer(_)) && facts.driven {
                return match self.deps.store.run(thread.key, run).await.map_err(EndRunError::from)? {
                    Some(run) => Err(EndRunError::RunDriven { thread: thread.id.clone(), run: Box::new(run) }.into()),
                    None => Ok(Attempt::ThreadGone),
                };
            }
            if let Writer::Producer(_) = writer {
                authority::owns(principal, &facts).map_err(EndRunError::from)?;
            }
            operation(thread, writer.fences(facts.fence)).await
        };
        self.deps.directory.with_thread(principal, at.id, attempt).await
    }
}

/// Right to write into one run that the server drives, as its present driver: the start of the run grants it, and each
/// takeover. Once the last copy is dropped, a run that is still active is taken over.
#[derive(Clone)]
pub struct DriveRight {
    handle: RunHandle,
    key: ThreadKey,
    /// Number of the attempt, from 1.
    attempt: u64,
    fence: DriverFence,
    _held: Arc<HeldTurn>,
}

impl fmt::Debug for DriveRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveRight").field("thread", self.thread()).field("run", self.run()).finish_non_exhaustive()
    }
}

impl DriveRight {
    /// Right of the first driver, granted with the start of the run.
    pub(crate) fn first(
        runs: Runs,
        principal: Principal,
        thread: &ThreadRef,
        run: RunId,
        fence: DriverFence,
        held: HeldTurn,
    ) -> Self {
        let handle = RunHandle { runs, writer: Writer::Driver(fence), principal, thread: thread.id.clone(), run };
        Self { handle, key: thread.key, attempt: 1, fence, _held: Arc::new(held) }
    }

    /// Right of the driver of a further attempt.
    pub(crate) fn taken(runs: Runs, principal: Principal, turn: &Turn, fence: DriverFence, held: HeldTurn) -> Self {
        let (thread, run) = (turn.thread.clone(), turn.run.clone());
        let handle = RunHandle { runs, writer: Writer::Driver(fence), principal, thread, run };
        Self { handle, key: turn.key, attempt: turn.attempt + 1, fence, _held: Arc::new(held) }
    }

    /// Id of the thread that the run belongs to.
    pub fn thread(&self) -> &ThreadId {
        &self.handle.thread
    }

    /// Id of the run that the right covers.
    pub fn run(&self) -> &RunId {
        &self.handle.run
    }

    /// Number of the attempt, from 1.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Writes a source's events into the run; `next` is the producer_seq of the first one. `topic` is the run's thread.
    pub fn writer(&self, topic: TopicRef, fence: Fence, next: u64, policy: WritePolicy) -> RunWriter {
        RunWriter::new(self.handle.clone(), topic, fence, next, policy)
    }

    /// Notes that the agent is called from now on. False if another node drives the run by now, or the run has ended.
    pub async fn mark_called(&self) -> Result<bool, StoreError> {
        self.handle.runs.deps.store.mark_called(self.key, self.run(), self.fence).await
    }

    /// Gives the run up: another node, or a later process, goes on with it.
    pub async fn give_up(self) -> Result<(), StoreError> {
        self.handle.runs.deps.store.leave_turn(self.key, self.run(), self.fence).await
    }

    /// [`Runs::finish`] for the driver.
    pub async fn finish(&self) -> Result<Run, EndRunError> {
        self.handle.end(&CloseReason::Finished { producer_seq: 0 }).await
    }

    /// [`Runs::fail`] for the driver.
    pub async fn fail(&self, code: String, message: String) -> Result<Run, EndRunError> {
        self.handle.end(&CloseReason::failed(Some(code), Some(message))).await
    }
}
