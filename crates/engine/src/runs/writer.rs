//! Writers of a run: a producer or the server's driver.

use threadline_core::{DriverFence, Fence, Run, WriteFence};

/// Kind of writer, which decides the access to a driven run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A producer that has only the run's id, and the number of its attempt, `None` for the first one: refused if the server
    /// drives the run.
    Producer(Option<u64>),
    /// The driver, with the [`DriveRight`](crate::DriveRight) of the run.
    Driver(DriverFence),
}

impl Writer {
    /// A producer whose request names no attempt.
    pub const FIRST: Self = Self::Producer(None);

    /// Fences that the writes into the run with this fence carry.
    pub fn fences(self, run: Fence) -> WriteFence {
        match self {
            Self::Producer(None) => run.into(),
            Self::Producer(Some(attempt)) => WriteFence { run, driver: DriverFence::of_attempt(attempt) },
            Self::Driver(driver) => WriteFence { run, driver },
        }
    }

    /// True for a producer whose attempt is not the run's present one, whether or not the run has ended.
    pub fn is_displaced(self, run: &Run) -> bool {
        matches!(self, Self::Producer(attempt) if attempt.unwrap_or(run.fence.first_attempt()) != run.attempt)
    }
}
