//! Migrates a database file to the present schema. `PRAGMA user_version` counts the steps taken; `threadline_schema` names
//! the oldest version that a program has to know in order to use the file: it is raised by the steps that programs before
//! them cannot live with.

use std::path::Path;

use sqlx::{AssertSqlSafe, Executor, SqliteConnection};

use super::open_error::OpenError;

/// The steps, oldest first. A step that was released is never changed again.
const STEPS: [&str; 21] = [
    include_str!("../../../../migrations/sqlite/0001_initial.sql"),
    include_str!("../../../../migrations/sqlite/0002_projections_and_agents.sql"),
    include_str!("../../../../migrations/sqlite/0003_identity.sql"),
    include_str!("../../../../migrations/sqlite/0004_annotations.sql"),
    include_str!("../../../../migrations/sqlite/0005_read_marker.sql"),
    include_str!("../../../../migrations/sqlite/0006_driven_runs.sql"),
    include_str!("../../../../migrations/sqlite/0007_nodes.sql"),
    include_str!("../../../../migrations/sqlite/0008_trust.sql"),
    include_str!("../../../../migrations/sqlite/0009_credentials.sql"),
    include_str!("../../../../migrations/sqlite/0010_claimed.sql"),
    include_str!("../../../../migrations/sqlite/0011_usage.sql"),
    include_str!("../../../../migrations/sqlite/0012_runs.sql"),
    include_str!("../../../../migrations/sqlite/0013_interrupts.sql"),
    include_str!("../../../../migrations/sqlite/0014_queue.sql"),
    include_str!("../../../../migrations/sqlite/0015_forks.sql"),
    include_str!("../../../../migrations/sqlite/0016_attempts.sql"),
    include_str!("../../../../migrations/sqlite/0017_tool_claims.sql"),
    include_str!("../../../../migrations/sqlite/0018_displaced_attempts.sql"),
    include_str!("../../../../migrations/sqlite/0019_agent_data.sql"),
    include_str!("../../../../migrations/sqlite/0020_sizes_of_agent_data.sql"),
    include_str!("../../../../migrations/sqlite/0021_streams.sql"),
];

/// Takes the missing steps, each in a transaction of its own. A newer database is not changed, and used if it allows that.
pub(super) async fn run(connection: &mut SqliteConnection, file: &Path) -> Result<(), OpenError> {
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    let known = STEPS.len() as i64;
    if found > known {
        let min_reader: i64 =
            sqlx::query_scalar("SELECT min_reader FROM threadline_schema").fetch_one(&mut *connection).await?;
        if min_reader > known {
            return Err(OpenError::Newer { found, min_reader, known });
        }
        tracing::info!(found, known, "the file was migrated by a newer program, which allows this one to use it");
        return Ok(());
    }
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut *connection).await?;
    if found == 0 && tables > 0 {
        return Err(OpenError::Foreign { path: file.to_owned() });
    }
    for (step, number) in STEPS.iter().zip(1..).skip(usize::try_from(found).unwrap_or(0)) {
        // user_version is part of the file, so it changes with the step or not at all.
        let text = format!("BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT");
        connection.execute(AssertSqlSafe(text)).await?;
    }
    Ok(())
}
