//! The history of a database file. It can only change while no process has the file open: a backup is restored, or the
//! file is copied or put back. So a generation is opened when the file is opened, and every log enters it at once.

use std::path::Path;

use sqlx::{Connection, SqliteConnection, query};
use threadline_core::{Generation, NodeId, Timestamp};

use super::{
    fetch::{self, Work},
    rows::{Columns, text_of},
    witness,
};
use crate::{Lineage, LineageCause, sql::corrupt};

const NEWEST: &str = "SELECT generation, nonce, cause FROM lineage ORDER BY generation DESC LIMIT 1";
const BEATS: &str = "SELECT count(*) FROM nodes WHERE generation = ?1";
const LAST_NODE: &str = "SELECT id, beat FROM nodes ORDER BY at DESC, id LIMIT 1";
const LAST_BEAT: &str = "SELECT max(beat) FROM nodes WHERE id = ?1 OR ?1 IS NULL";
const ADOPT: &str = text_of(include_str!("../../queries/sqlite/adopt.sql"));
/// Marks a copy of the file, which opens a generation when it is opened.
pub(super) const MARK_COPY: &str =
    "UPDATE lineage SET cause = 'copy' WHERE generation = (SELECT max(generation) FROM lineage)";

/// Newest generation of a file, and the mark that a backup leaves in a copy.
async fn newest(connection: &mut SqliteConnection) -> Work<(Lineage, bool)> {
    let row = fetch::row(connection, query(NEWEST)).await?.ok_or_else(|| corrupt("a file without a generation"))?;
    let mut columns = Columns::new(&row);
    let lineage = Lineage { generation: Generation(columns.int()?), nonce: columns.int()? };
    Ok((lineage, columns.text()? == "copy"))
}

async fn last_beat(connection: &mut SqliteConnection, node: Option<NodeId>) -> Work<Option<u64>> {
    let node = node.map(|node| node.to_string());
    let row = fetch::row(connection, query(LAST_BEAT).bind(node)).await?;
    let beat = row.as_ref().map(|row| Columns::new(row).maybe_int()).transpose()?.flatten();
    Ok(beat.map(i64::unsigned_abs))
}

/// Reason why the file's history is not the one that the last process left behind; `None` if it is.
async fn doubt(connection: &mut SqliteConnection, file: &Path) -> Work<Option<LineageCause>> {
    let (newest, marked) = newest(connection).await?;
    if marked {
        return Ok(Some(LineageCause::Copied));
    }
    let Some(seen) = witness::read(file) else {
        // A file that has had beats has had a witness beside it.
        let had_beats = last_beat(connection, None).await?.is_some();
        return Ok(had_beats.then_some(LineageCause::Copied));
    };
    if (seen.generation, seen.nonce) != (newest.generation.0, newest.nonce) {
        return Ok(Some(LineageCause::RolledBack));
    }
    if last_beat(connection, Some(seen.node)).await? < Some(seen.beat) {
        return Ok(Some(LineageCause::RolledBack));
    }
    Ok((!seen.is_at(file)).then_some(LineageCause::Copied))
}

/// Opens a generation, which all logs and feeds enter in the same transaction.
async fn open_generation(
    connection: &mut SqliteConnection,
    known: Generation,
    cause: LineageCause,
    now: Timestamp,
) -> Work<Lineage> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(fetch::Failure::from)?;
    fetch::run(&mut transaction, query(ADOPT).bind(now.0).bind(cause.name()).bind(known.0)).await?;
    let (lineage, _) = newest(&mut transaction).await?;
    transaction.commit().await.map_err(fetch::Failure::from)?;
    Ok(lineage)
}

/// The lineage of a file that was just opened: another generation if its history may have changed.
pub(super) async fn at_open(connection: &mut SqliteConnection, file: &Path, now: Timestamp) -> Work<Lineage> {
    let (lineage, _) = newest(connection).await?;
    let Some(cause) = doubt(connection, file).await? else { return Ok(lineage) };
    let seen = witness::read(file).map_or(lineage.generation, |seen| Generation(seen.generation));
    let opened = open_generation(connection, seen.max(lineage.generation), cause, now).await?;
    // The next open finds the same reason otherwise, should this process end before its first beat.
    if let Some(row) = fetch::row(connection, query(LAST_NODE)).await? {
        let mut columns = Columns::new(&row);
        let (node, beat) = (NodeId::try_from(columns.text()?).map_err(corrupt)?, columns.count()?);
        note(file, opened, node, beat);
    }
    tracing::error!(
        cause = cause.name(),
        generation = opened.generation.0,
        "the history of the data directory has changed: acknowledged events may be missing, and cursors are judged anew"
    );
    Ok(opened)
}

/// Writes the witness. If that fails, a return of the file to an older state may go unnoticed, and nothing else.
pub(super) fn note(file: &Path, lineage: Lineage, node: NodeId, beat: u64) {
    if let Err(error) = witness::write(file, lineage, node, beat) {
        tracing::debug!(%error, "cannot write the witness of the data directory");
    }
}

/// Opens a generation because `cause` says so. An ordered one is not needed if no process has used the newest one.
pub(super) async fn adopt(
    connection: &mut SqliteConnection,
    known: Generation,
    cause: LineageCause,
    now: Timestamp,
) -> Work<Lineage> {
    let beats = fetch::row(connection, query(BEATS).bind(known.0)).await?;
    let served = beats.as_ref().is_some_and(|row| Columns::new(row).int().is_ok_and(|beats| beats > 0));
    if cause == LineageCause::Ordered && !served {
        return Ok(newest(connection).await?.0);
    }
    open_generation(connection, known, cause, now).await
}
