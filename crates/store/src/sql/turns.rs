//! Rows of turns, which both databases answer alike.

use threadline_core::{AgentId, DriverFence, NodeId, ProjectId, RunId, ThreadId, ThreadKey, UserId};

use super::{
    columns::{Cells, Columns},
    pages::each,
    secrets::{Secrets, of_turn},
};
use crate::{Before, StartRun, StoreResult, TakeTurn, Turn};

/// The statements, the same on both databases but for their parameters.
pub(crate) const OF: &str = "\
    SELECT key, run FROM turns WHERE driver = $1 AND driven = TRUE AND check_at IS NOT NULL ORDER BY key";
pub(crate) const MARK: &str =
    "UPDATE turns SET called = TRUE WHERE key = $1 AND run = $2 AND driven = TRUE AND driver_fence = $3 RETURNING key";
pub(crate) const LEAVE: &str =
    "UPDATE turns SET driver = NULL WHERE key = $1 AND run = $2 AND driven = TRUE AND driver_fence = $3";

/// Seals the input of a driven run before its start is stored.
pub(crate) fn seal(secrets: &Secrets, start: &mut StartRun) -> StoreResult<()> {
    if let Some(input) = start.turn.as_mut().and_then(|turn| turn.input.as_mut()) {
        *input = sealed(secrets, start.key, &start.run, input)?;
    }
    Ok(())
}

/// Seals the input of a takeover before it is stored.
pub(crate) fn seal_taken(secrets: &Secrets, take: &mut TakeTurn) -> StoreResult<()> {
    if let Some(input) = take.input.as_mut() {
        *input = sealed(secrets, take.key, &take.run, input)?;
    }
    Ok(())
}

/// Input of a turn as it is stored.
pub(crate) fn sealed(secrets: &Secrets, key: ThreadKey, run: &RunId, input: &str) -> StoreResult<String> {
    secrets.seal(of_turn(&place(key, run)), input)
}

/// Input of a turn that was stored; `None` if it cannot be opened with the keys of this process.
pub(crate) fn opened(secrets: &Secrets, key: ThreadKey, run: &RunId, stored: Option<String>) -> Option<String> {
    let opened = stored.map(|stored| secrets.open(of_turn(&place(key, run)), &stored));
    opened.transpose().unwrap_or_else(|error| {
        tracing::error!(%error, %run, thread = key.0, "cannot open the input of a run");
        None
    })
}

/// Row of a turn, as the place of its input names it.
fn place(key: ThreadKey, run: &RunId) -> String {
    format!("{}/{run}", key.0)
}

/// Claimed turns. Each row ends with the driver before.
pub(crate) fn claimed<R: Cells>(rows: &[R], node: NodeId, secrets: &Secrets) -> StoreResult<Vec<Turn>> {
    let mut turns = read(rows, node)?;
    for turn in &mut turns {
        turn.input = opened(secrets, turn.key, &turn.run, turn.input.take());
    }
    Ok(turns)
}

fn read<R: Cells>(rows: &[R], node: NodeId) -> StoreResult<Vec<Turn>> {
    let node = node.to_string();
    each(rows, |columns| {
        Ok(Turn {
            key: ThreadKey(columns.int()?),
            project: columns.id(ProjectId::new)?,
            user: columns.id(UserId::new)?,
            thread: columns.id(ThreadId::new)?,
            run: columns.id(RunId::new)?,
            agent: columns.maybe_id(AgentId::new)?,
            driver: DriverFence(columns.int()?),
            attempt: columns.count()?,
            attempt_seq: columns.count()?,
            futile: columns.count()?,
            called: columns.flag()?,
            input: columns.maybe_text()?,
            before: match columns.maybe_text()? {
                None => Before::HandedOver,
                Some(before) if before == node => Before::TaskLost,
                Some(_) => Before::NodeLost,
            },
        })
    })
}

/// Keys of threads, each with its run.
pub(crate) fn driven<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ThreadKey, RunId)>> {
    each(rows, |columns: &mut Columns<'_, R>| Ok((ThreadKey(columns.int()?), columns.id(RunId::new)?)))
}
