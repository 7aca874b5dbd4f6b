//! Writers of a run: a producer or the server's driver.

use threadline_core::DriverFence;

/// Kind of writer, which decides the access to a driven run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A producer that has only the run's id: refused if the server drives the run.
    Producer,
    /// The driver, with the [`DriveRight`](crate::DriveRight) of the run.
    Driver(DriverFence),
}

impl Writer {
    /// Fence that the writes carry beside that of the run.
    pub fn fence(self) -> DriverFence {
        match self {
            Self::Producer => DriverFence::NONE,
            Self::Driver(fence) => fence,
        }
    }
}
