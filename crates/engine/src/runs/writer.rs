//! Writers of a run: a producer or the server's driver.

use threadline_core::{DriverFence, Run};

/// Kind of writer, which decides the access to a driven run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A producer that has only the run's id, and the number of its attempt: refused if the server drives the run.
    Producer(u64),
    /// The driver, with the [`DriveRight`](crate::DriveRight) of the run.
    Driver(DriverFence),
}

impl Writer {
    /// Fence that the writes carry beside that of the run.
    pub fn fence(self) -> DriverFence {
        match self {
            Self::Producer(attempt) => DriverFence::of_attempt(attempt),
            Self::Driver(fence) => fence,
        }
    }

    /// True for a producer whose attempt is not the run's present one, whether or not the run has ended.
    pub fn is_displaced(self, run: &Run) -> bool {
        matches!(self, Self::Producer(attempt) if attempt != run.attempt)
    }
}
