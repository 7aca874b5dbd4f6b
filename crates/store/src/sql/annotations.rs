//! Decoding of stored annotations.

use threadline_core::{Annotation, AnnotationId, Epoch, ProjectId, ThreadId, ThreadKey, UserId};

use super::{
    columns::{Cells, Columns},
    pages::each,
};
use crate::{AnnotatedThread, StoreResult};

/// Annotations of a thread, from rows of an outer join: one row without a number if the thread has none, and no row if
/// it is gone.
pub(crate) fn annotations<R: Cells>(rows: &[R]) -> StoreResult<Option<Vec<(u64, Annotation)>>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let mut columns = Columns::new(row);
        let Some(number) = columns.maybe_int()? else { continue };
        let annotation = Annotation {
            id: columns.id(AnnotationId::new)?,
            kind: columns.text()?,
            occurred_at: columns.maybe_time()?,
            at: columns.time()?,
            payload: columns.text()?,
        };
        found.push((number.unsigned_abs(), annotation));
    }
    Ok((!rows.is_empty()).then_some(found))
}

/// Threads that have annotations: key, project, user, id, whether it is claimed, and epoch.
pub(crate) fn threads<R: Cells>(rows: &[R]) -> StoreResult<Vec<AnnotatedThread>> {
    each(rows, |columns| {
        Ok(AnnotatedThread {
            key: ThreadKey(columns.int()?),
            project: columns.id(ProjectId::new)?,
            user: columns.id(UserId::new)?,
            id: columns.id(ThreadId::new)?,
            claimed: columns.flag()?,
            epoch: Epoch::from_i64(columns.int()?),
        })
    })
}
