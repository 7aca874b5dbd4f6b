//! Background work on the store: jobs (sealing, packing, purging), sweeps, snapshots, retention and feeds; and notices of runs.

pub(crate) mod agent_data;
pub(crate) mod clock_guard;
pub(crate) mod feed_writer;
pub(crate) mod jobs;
pub(crate) mod retention;
pub(crate) mod rings;
pub(crate) mod run_notices;
pub(crate) mod snapshots;
pub(crate) mod sweeps;
pub(crate) mod usage;
