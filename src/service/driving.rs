//! Runs that the server drives: the right to write into one.

use std::{sync::Arc, time::Duration};

use super::{Receipt, Runs, ServiceError, closing::Why, directory::ThreadRef};
use crate::domain::{Fence, NewEvents, Principal, Run, RunId, ThreadId};

/// The side from which a run is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// A producer that has nothing but the run's id: refused where the server drives the run.
    Producer,
    /// The run's driver.
    Driver,
}

/// The refusal of a producer in a run that the server drives.
pub(super) fn driven(thread: &ThreadRef, run: Run) -> ServiceError {
    ServiceError::RunDriven { thread: thread.id.clone(), run: Box::new(run) }
}

impl Runs {
    /// The thread and the run's fence, for whoever may write into the run.
    pub(super) async fn find(
        &self,
        writer: Writer,
        principal: &Principal,
        id: &ThreadId,
        run: &RunId,
    ) -> Result<(Arc<ThreadRef>, Fence), ServiceError> {
        let mut thread = self.context.directory.find(principal, id).await?;
        let mut facts = self.context.directory.run(thread.key, run).await?;
        if facts.is_none() {
            // The run may belong to a thread made under this id after the one remembered.
            self.context.directory.forget(&thread);
            thread = self.context.directory.find(principal, id).await?;
            facts = self.context.directory.run(thread.key, run).await?;
        }
        let facts = facts.ok_or(ServiceError::RunNotFound)?;
        if writer == Writer::Producer && facts.driven {
            let run = self.context.store.run(thread.key, run).await?.ok_or(ServiceError::RunNotFound)?;
            return Err(driven(&thread, run));
        }
        Ok((thread, facts.fence))
    }
}

/// The right to write into one run that the server drives. [`Runs::start_driven`] alone gives it out, once a run.
#[derive(Clone)]
pub struct DriveRight {
    runs: Runs,
    principal: Principal,
    thread: ThreadId,
    run: RunId,
}

impl DriveRight {
    pub(super) fn new(runs: Runs, principal: Principal, thread: ThreadId, run: RunId) -> Self {
        Self { runs, principal, thread, run }
    }

    /// The run's thread.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// [`Runs::append`] for the driver.
    pub async fn append(&self, producer_seq: u64, events: NewEvents) -> Result<Receipt, ServiceError> {
        let (principal, thread, run) = (&self.principal, &self.thread, &self.run);
        let submitted = self.runs.submit_by(Writer::Driver, principal, thread, run, Some(producer_seq), events).await?;
        submitted.receipt().await
    }

    /// [`Runs::heartbeat`] for the driver.
    pub async fn heartbeat(&self, lease: Option<Duration>) -> Result<Run, ServiceError> {
        self.runs.heartbeat_by(Writer::Driver, &self.principal, &self.thread, &self.run, lease).await
    }

    /// [`Runs::finish`] for the driver.
    pub async fn finish(&self) -> Result<Run, ServiceError> {
        self.runs.end(Writer::Driver, &self.principal, &self.thread, &self.run, &Why::Finished).await
    }

    /// [`Runs::fail`] for the driver.
    pub async fn fail(&self, code: String, message: String) -> Result<Run, ServiceError> {
        let why = Why::failed(Some(code), Some(message));
        self.runs.end(Writer::Driver, &self.principal, &self.thread, &self.run, &why).await
    }
}
