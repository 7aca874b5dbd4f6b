//! Writers of a run: a producer or the server's driver.

use threadline_core::Run;

use crate::{ServiceError, records::ThreadRef};

/// Kind of writer, which decides the access to a driven run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A producer that has only the run's id: refused if the server drives the run.
    Producer,
    /// The driver, with the [`DriveRight`](crate::DriveRight) of the run.
    Driver,
}

/// Error for a producer's write to a run that the server drives.
pub(crate) fn driven(thread: &ThreadRef, run: Run) -> ServiceError {
    ServiceError::RunDriven { thread: thread.id.clone(), run: Box::new(run) }
}
