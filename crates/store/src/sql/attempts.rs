//! Attempts at runs of producers, which both databases answer alike.

use threadline_core::AttemptId;

use super::{
    columns::{Cells, Columns},
    pages::each,
};
use crate::{Displaced, ProducerTurn, StoreResult};

/// The turn of an active run of a producer, the same on both databases.
pub(crate) const TURN: &str = "\
    SELECT attempt, attempt_id, displaced, attempt_seq FROM turns
    WHERE key = $1 AND run = $2 AND driven = FALSE AND check_at IS NOT NULL";

pub(crate) fn turn<R: Cells>(rows: &[R]) -> StoreResult<Option<ProducerTurn>> {
    let mut turns = each(rows, |columns: &mut Columns<'_, R>| {
        Ok(ProducerTurn {
            attempt: columns.count()?,
            attempt_id: columns.maybe_id(AttemptId::new)?,
            displaced: columns.maybe_id(Displaced::from_text)?.unwrap_or_default(),
            opened: columns.count()?,
        })
    })?;
    Ok(turns.pop())
}
