//! Rows of queues, which both databases answer alike.

use threadline_core::{AgentId, Author, KeyId, RunId, ThreadKey};

use super::{
    columns::{Cells, Columns},
    corrupt,
    secrets::Secrets,
    turns,
};
use crate::{ChangeQueue, Queue, QueuedTurn, StoreResult};

/// Number of a user's queued turns: the same on both databases but for the name of a column.
#[cfg(feature = "postgres")]
pub(crate) const COUNT: &str = "\
    SELECT count(*) FROM (SELECT 1 FROM turns WHERE place > 0 AND project = $1 AND user_id = $2 LIMIT $3) AS page";
#[cfg(feature = "sqlite")]
pub(crate) const COUNT_OF_USER: &str = "\
    SELECT count(*) FROM (SELECT 1 FROM turns WHERE place > 0 AND project = ?1 AND user = ?2 LIMIT ?3) AS page";

/// Seals the inputs of a change before it is stored.
pub(crate) fn seal(secrets: &Secrets, change: &mut ChangeQueue) -> StoreResult<()> {
    let key = change.key;
    let new = change.new.as_mut().and_then(|new| new.input.as_mut().map(|input| (&new.run, input)));
    let edited = change.edited.as_mut().map(|(run, input)| (&*run, input));
    for (run, input) in new.into_iter().chain(edited) {
        *input = turns::sealed(secrets, key, run, input)?;
    }
    Ok(())
}

/// A queue; `None` if the thread is gone.
pub(crate) fn queue<R: Cells>(rows: &[R], secrets: &Secrets) -> StoreResult<Option<Queue>> {
    let mut queue: Option<Queue> = None;
    for row in rows {
        let mut columns = Columns::new(row);
        let (head, _) = columns.head()?.ok_or_else(|| corrupt("a queue without a head"))?;
        let interrupts = columns.maybe_text()?;
        let key = head.key;
        let queue = queue.get_or_insert_with(|| Queue { head, interrupts, turns: Vec::new() });
        queue.turns.extend(turn(&mut columns, key, secrets)?);
    }
    Ok(queue)
}

fn turn<R: Cells>(columns: &mut Columns<'_, R>, key: ThreadKey, secrets: &Secrets) -> StoreResult<Option<QueuedTurn>> {
    let Some(run) = columns.maybe_id(RunId::new)? else { return Ok(None) };
    let (agent, asked_by) = (columns.id(AgentId::new)?, columns.maybe_text()?);
    let (by, at, input) = (columns.maybe_id(KeyId::new)?, columns.time()?, columns.maybe_text()?);
    let input = turns::opened(secrets, key, &run, input);
    Ok(Some(QueuedTurn { run, agent, asked_by: asked_by.as_deref().map(Author::stored), key: by, at, input }))
}

/// Number of turns in the only row.
pub(crate) fn count<R: Cells>(rows: &[R]) -> StoreResult<u64> {
    rows.first().map_or(Ok(0), |row| Columns::new(row).count())
}
