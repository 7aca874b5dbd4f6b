//! Rows of the table `lineage`.

use threadline_core::Generation;

use super::{columns::Cells, pages::each};
use crate::{GenerationRecord, StoreResult};

/// The generations of a store: number, time and cause.
pub(crate) fn generations<R: Cells>(rows: &[R]) -> StoreResult<Vec<GenerationRecord>> {
    each(rows, |columns| {
        Ok(GenerationRecord { generation: Generation(columns.int()?), at: columns.time()?, cause: columns.text()? })
    })
}
