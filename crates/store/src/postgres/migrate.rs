//! Brings a database to the present schema. `threadline_schema` counts the steps taken, and names the oldest version that
//! a program has to know in order to use the database: it is raised by the steps that programs before them cannot live
//! with.
//!
//! Several nodes may start at once: each step is a transaction under one advisory lock, which also works through a
//! pooler, and the second holder of the lock finds the step taken.

use sqlx::{AssertSqlSafe, Executor, PgConnection};

use threadline_core::limits::PG_MIGRATION_TIMEOUT;

use super::{address::Address, open_error::OpenError};

/// The steps, oldest first. A step that was released is never changed again.
const STEPS: [&str; 21] = [
    include_str!("../../../../migrations/postgres/0001_initial.sql"),
    include_str!("../../../../migrations/postgres/0002_identity.sql"),
    include_str!("../../../../migrations/postgres/0003_annotations.sql"),
    include_str!("../../../../migrations/postgres/0004_read_marker.sql"),
    include_str!("../../../../migrations/postgres/0005_driven_runs.sql"),
    include_str!("../../../../migrations/postgres/0006_nodes.sql"),
    include_str!("../../../../migrations/postgres/0007_trust.sql"),
    include_str!("../../../../migrations/postgres/0008_credentials.sql"),
    include_str!("../../../../migrations/postgres/0009_claimed.sql"),
    include_str!("../../../../migrations/postgres/0010_usage.sql"),
    include_str!("../../../../migrations/postgres/0011_runs.sql"),
    include_str!("../../../../migrations/postgres/0012_interrupts.sql"),
    include_str!("../../../../migrations/postgres/0013_interrupts_of_agents.sql"),
    include_str!("../../../../migrations/postgres/0014_queue.sql"),
    include_str!("../../../../migrations/postgres/0015_forks.sql"),
    include_str!("../../../../migrations/postgres/0016_attempts.sql"),
    include_str!("../../../../migrations/postgres/0017_tool_claims.sql"),
    include_str!("../../../../migrations/postgres/0018_displaced_attempts.sql"),
    include_str!("../../../../migrations/postgres/0019_agent_data.sql"),
    include_str!("../../../../migrations/postgres/0020_sizes_of_agent_data.sql"),
    include_str!("../../../../migrations/postgres/0021_streams.sql"),
];

/// Key of the advisory lock: "threadli" as a number.
const LOCK: i64 = 0x7468_7265_6164_6c69;

/// Schema versions before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema version before; 0 is an empty database.
    pub from: i64,
    /// The schema version now.
    pub to: i64,
}

/// Takes the steps that are missing. A newer database is used as it is if it allows that; one that does not, and one of
/// another program, are left alone.
pub(super) async fn run(address: &Address, connection: &mut PgConnection) -> Result<Migrated, OpenError> {
    let mut from = None;
    loop {
        address.begin_alone(connection, PG_MIGRATION_TIMEOUT).await?;
        connection.execute(AssertSqlSafe(format!("SELECT pg_advisory_xact_lock({LOCK})"))).await?;
        let stepped = step(connection).await;
        // Also after an error: the transaction ends, and a step that was begun is undone.
        connection.execute(if stepped.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        let (found, done) = stepped?;
        let from = *from.get_or_insert(found);
        if done {
            return Ok(Migrated { from, to: found });
        }
    }
}

/// Takes the next step. Returns the version found, and whether it is the present one.
async fn step(connection: &mut PgConnection) -> Result<(i64, bool), OpenError> {
    let found = version(connection).await?;
    let known = STEPS.len() as i64;
    if found > known {
        let min_reader = number(connection, "SELECT min_reader FROM threadline_schema").await?;
        if min_reader > known {
            return Err(OpenError::Newer { found, min_reader, known });
        }
        tracing::info!(found, known, "the database was migrated by a newer program, which allows this one to use it");
        return Ok((found, true));
    }
    let Some(step) = usize::try_from(found).ok().and_then(|found| STEPS.get(found)) else { return Ok((found, true)) };
    connection.execute(*step).await?;
    let count = if found == 0 {
        "CREATE TABLE threadline_schema (version bigint NOT NULL); INSERT INTO threadline_schema VALUES (1)"
    } else {
        "UPDATE threadline_schema SET version = version + 1"
    };
    connection.execute(count).await?;
    Ok((found, false))
}

async fn number(connection: &mut PgConnection, text: &'static str) -> Result<i64, sqlx::Error> {
    // Not prepared: a pooler may be in between.
    sqlx::query_scalar::<_, i64>(text).persistent(false).fetch_one(connection).await
}

async fn version(connection: &mut PgConnection) -> Result<i64, OpenError> {
    let ours = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'threadline_schema'";
    if number(connection, ours).await? > 0 {
        return Ok(number(connection, "SELECT version FROM threadline_schema").await?);
    }
    let alike = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename IN
        ('installation', 'threads', 'heads', 'runs', 'log', 'sealing', 'feed_entries', 'feed_heads', 'snapshots', 'agents',
         'projects', 'api_keys', 'socket_tickets', 'audit', 'annotations', 'annotated', 'nodes', 'lineage', 'turns',
         'jobs')";
    match number(connection, alike).await? {
        0 => Ok(0),
        _ => Err(OpenError::Foreign),
    }
}
