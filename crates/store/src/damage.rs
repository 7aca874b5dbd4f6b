//! The count of damaged rows, which all stores of a process share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static ROWS: AtomicU64 = AtomicU64::new(0);

/// Counts rows that were read with a wrong checksum, and gaps where rows are missing.
pub(crate) fn count(rows: usize) {
    ROWS.fetch_add(rows as u64, Relaxed);
}

/// Number of reads of log rows and snapshots whose checksum was wrong, and of reads that met a gap in a log, since the
/// process began. A row or gap that is read twice counts twice.
pub fn damaged_rows() -> u64 {
    ROWS.load(Relaxed)
}
