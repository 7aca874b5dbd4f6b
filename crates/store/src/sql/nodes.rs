//! Rows of nodes and of their beats.

use threadline_core::{Generation, Node, NodeId, Timestamp};

use super::{
    columns::{Cells, Columns},
    corrupt,
    pages::each,
};
use crate::{Beat, StoreResult};

/// The one row of a committed beat: number, time and generation.
pub(crate) fn beat<R: Cells>(rows: &[R]) -> StoreResult<Beat> {
    let row = rows.first().ok_or_else(|| corrupt("a beat without a row"))?;
    let mut columns = Columns::new(row);
    Ok(Beat { number: columns.count()?, at: columns.time()?, generation: Generation(columns.int()?) })
}

/// Time of the read, and the nodes. Each row begins with that time; without any row it is the beginning of time.
pub(crate) fn nodes<R: Cells>(rows: &[R]) -> StoreResult<(Timestamp, Vec<Node>)> {
    let now = rows.first().map_or(Ok(Timestamp(0)), |row| Columns::new(row).time())?;
    let nodes = each(rows, |columns| {
        columns.time()?;
        Ok(Node {
            id: NodeId::try_from(columns.text()?).map_err(corrupt)?,
            name: columns.text()?,
            version: columns.text()?,
            started_at: columns.time()?,
            beat: columns.count()?,
            at: columns.time()?,
            leaving: columns.flag()?,
            skew_ms: columns.maybe_int()?,
            rtt_us: columns.maybe_int()?,
            step_ms: columns.maybe_int()?,
        })
    })?;
    Ok((now, nodes))
}
