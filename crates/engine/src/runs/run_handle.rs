//! One run in the hands of a writer.

use std::time::Duration;

use threadline_core::{NewEvents, Principal, Run, RunId, ThreadId};

use crate::{
    AppendError, AppendReceipt, EndRunError, HeartbeatError,
    runs::{Runs, close::CloseReason, writer::Writer},
};

/// One run, as one kind of writer sees it.
#[derive(Clone)]
pub(crate) struct RunHandle {
    pub runs: Runs,
    pub writer: Writer,
    pub principal: Principal,
    pub thread: ThreadId,
    pub run: RunId,
}

impl RunHandle {
    /// Appends events, and returns once they are durable.
    pub async fn append(&self, producer_seq: u64, events: NewEvents) -> Result<AppendReceipt, AppendError> {
        let Self { runs, writer, principal, thread, run } = self;
        runs.submit_by(*writer, principal, thread.into(), run, Some(producer_seq), events).await?.receipt().await
    }

    /// Extends the run's lease, and sets the lease's length if given.
    pub async fn heartbeat(&self, lease: Option<Duration>) -> Result<Run, HeartbeatError> {
        self.runs.heartbeat_by(self.writer, &self.principal, (&self.thread).into(), &self.run, lease).await
    }

    /// State of the run. Fails with [`HeartbeatError::RunFenced`] if it has ended.
    pub async fn active(&self) -> Result<Run, HeartbeatError> {
        let run = self.runs.get(&self.principal, &self.thread, &self.run).await?;
        if run.status.is_active() { Ok(run) } else { Err(HeartbeatError::RunFenced(Box::new(run))) }
    }

    /// Ends the run. A run that has ended is returned as it ended.
    pub async fn end(&self, reason: &CloseReason) -> Result<Run, EndRunError> {
        self.runs.end(self.writer, &self.principal, (&self.thread).into(), &self.run, reason).await
    }
}
