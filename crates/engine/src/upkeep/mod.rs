//! Background work on the store: sealing, snapshots, retention and feeds; and notices of runs.

pub(crate) mod feed_writer;
pub(crate) mod retention;
pub(crate) mod run_notices;
pub(crate) mod sealer;
pub(crate) mod snapshots;
