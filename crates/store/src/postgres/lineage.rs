//! Lineage of a database: comparison of the server with the newest generation, and adoption of another history.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use sqlx::{Arguments, Executor, PgConnection, Row, SqlSafeStr, postgres::PgArguments, query};
use threadline_core::{Generation, NodeId, limits::PG_ADOPTION_TIMEOUT};

use super::{
    PgStore,
    address::Address,
    fetch::{Failure, Rows, Work},
    rows::{self, Columns},
};
use crate::{
    GenerationRecord, Lineage, LineageCause, LineageFence, LineageStore, StoreError, StoreResult,
    sql::{corrupt, lineage},
};

/// The server's role, and whether its history is the one of the newest generation. The timeline is the one of the next
/// record that the server writes: `pg_control_checkpoint()` still names the old one after a promotion. A standby cannot
/// tell. $1 is the id of a node, whose newest beat is returned.
const COMPARE: &str = "\
    SELECT pg_is_in_recovery()::int::bigint,
      CASE WHEN l.system_id <> (SELECT system_identifier::text FROM pg_control_system()) THEN 2
           WHEN pg_is_in_recovery() THEN 0
           WHEN l.timeline <> substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) THEN 1
           ELSE 0 END::bigint,
      l.generation, l.nonce, (SELECT n.beat FROM nodes n WHERE n.id = $1)
    FROM lineage l ORDER BY l.generation DESC LIMIT 1";

/// Waits for the writes in progress. Writes that begin meanwhile wait for the commit, and see the generation it opens.
const LOCK: &str = "LOCK TABLE lineage IN ACCESS EXCLUSIVE MODE";

/// Opens a generation, with an entry in the audit log of the default project.
const OPEN: &str = "\
    WITH opened AS (
    INSERT INTO lineage (generation, nonce, system_id, timeline, lsn, at, cause)
    SELECT greatest((SELECT max(generation) FROM lineage), $1) + 1,
      1 + (('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint & 4611686018427387902),
      (SELECT system_identifier::text FROM pg_control_system()),
      substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), pg_current_wal_insert_lsn()::text,
      (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $2::text
    RETURNING generation, nonce, at, cause),
    recorded AS (
    INSERT INTO audit (project, at, actor, action, facts)
    SELECT 'default', at, 'store', 'lineage.changed',
      json_build_object('generation', generation, 'cause', cause)::text FROM opened)
    SELECT generation, nonce FROM opened";

/// A sequence is not part of a transaction: should the adoption fail, its keys are skipped.
const RAISE_KEYS: &str = "\
    SELECT setval(pg_get_serial_sequence('threads', 'key'),
      greatest($1::bigint, coalesce(pg_sequence_last_value(pg_get_serial_sequence('threads', 'key')::regclass), 1)))";

/// A ticket that was used may have come back.
const FORGET_TICKETS: &str = "DELETE FROM socket_tickets";

const BEATS: &str = "SELECT count(*) FROM nodes WHERE generation = $1";

const GENERATIONS: &str = "SELECT generation, at, cause FROM lineage ORDER BY generation DESC LIMIT $1";

/// History of a server, as one of its connections sees it.
pub(super) struct Seen {
    newest: Lineage,
    /// Reason why this history is not that of the newest generation.
    differs: Option<LineageCause>,
    /// Newest beat of the node that was asked for.
    beat: Option<u64>,
}

/// The newest beat that the server has acknowledged to this process: a server that does not have it has lost commits,
/// although nothing else tells of it. A volume that was put back to an older state is such a server.
#[derive(Debug, Default)]
pub(super) struct LastBeat(Mutex<Option<Acknowledged>>);

/// A beat that was acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    pub(super) node: NodeId,
    pub(super) generation: Generation,
    pub(super) number: u64,
}

impl LastBeat {
    pub(super) fn set(&self, beat: Acknowledged) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(beat);
    }

    pub(super) fn get(&self) -> Option<Acknowledged> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Reason why a process that knows `known`, and whose `beat` was acknowledged, must not use the server.
    pub(super) fn differs_from(&self, known: Lineage, beat: Option<Acknowledged>) -> Option<LineageCause> {
        let adopted = || (self.newest != known).then_some(LineageCause::Adopted);
        // A beat of an earlier generation may be among what was lost before the newest one was opened.
        let lost = beat.is_some_and(|beat| beat.generation == self.newest.generation && self.beat < Some(beat.number));
        self.differs.or_else(adopted).or(lost.then_some(LineageCause::RolledBack))
    }

    /// The newest generation of the database.
    pub(super) fn newest(&self) -> Lineage {
        self.newest
    }

    fn of(rows: &Rows) -> StoreResult<Self> {
        let row = rows.first().ok_or_else(|| corrupt("a database without a generation"))?;
        let mut columns = Columns::new(row);
        let (standby, history) = (columns.int()? != 0, columns.int()?);
        let newest = Lineage { generation: Generation(columns.int()?), nonce: columns.int()? };
        let beat = columns.maybe_int()?.map(i64::unsigned_abs);
        let differs = match (standby, history) {
            (true, _) => Some(LineageCause::Standby),
            (false, 1) => Some(LineageCause::Timeline),
            (false, 2) => Some(LineageCause::System),
            (false, _) => None,
        };
        Ok(Self { newest, differs, beat })
    }
}

/// Compares the server with the newest generation, and reads the newest beat of a node.
pub(super) async fn compare(address: &Address, connection: &mut PgConnection, node: Option<NodeId>) -> Work<Seen> {
    let mut arguments = PgArguments::default();
    arguments.add(node.map(|node| node.to_string())).map_err(sqlx::Error::Encode)?;
    Ok(Seen::of(&address.run(connection, COMPARE.into_sql_str(), arguments).await?)?)
}

/// Opens a generation if the server's history has none, or if `cause` asks for it although the newest one is `known`.
pub(super) async fn adopt(
    address: &Address,
    connection: &mut PgConnection,
    known: Lineage,
    cause: LineageCause,
) -> Work<Lineage> {
    address.begin_alone(connection, PG_ADOPTION_TIMEOUT).await?;
    let adopted = adopt_alone(connection, known, cause).await;
    connection.execute(if adopted.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    adopted
}

/// True if a node has committed a beat in this generation. If none has, no further generation is needed.
async fn has_served(connection: &mut PgConnection, newest: Lineage) -> Work<bool> {
    let beats = query(BEATS).persistent(false).bind(newest.generation.0).fetch_one(connection).await?;
    Ok(beats.try_get::<i64, _>(0)? > 0)
}

async fn adopt_alone(connection: &mut PgConnection, known: Lineage, cause: LineageCause) -> Work<Lineage> {
    connection.execute(LOCK).await?;
    let seen = Seen::of(&query(COMPARE).persistent(false).bind(None::<String>).fetch_all(&mut *connection).await?)?;
    let asked = match cause {
        LineageCause::Ordered if has_served(connection, seen.newest).await? => Some(cause),
        LineageCause::RolledBack if seen.newest == known => Some(cause),
        _ => None,
    };
    let cause = match (seen.differs, asked) {
        (Some(LineageCause::Standby), _) => {
            return Err(Failure::busy("the server is a standby"));
        }
        (Some(cause), _) | (None, Some(cause)) => cause,
        (None, None) => return Ok(seen.newest),
    };
    let open = query(OPEN).persistent(false).bind(known.generation.0).bind(cause.name());
    let opened = open.fetch_one(&mut *connection).await?;
    let lineage = Lineage { generation: Generation(opened.try_get(0)?), nonce: opened.try_get(1)? };
    let raise = query(RAISE_KEYS).persistent(false).bind(lineage.generation.key_floor());
    raise.execute(&mut *connection).await?;
    connection.execute(FORGET_TICKETS).await?;
    Ok(lineage)
}

#[async_trait]
impl LineageStore for PgStore {
    fn lineage(&self) -> &LineageFence {
        &self.inner.fence
    }

    async fn adopt(&self, cause: LineageCause) -> StoreResult<Lineage> {
        let inner = self.inner.clone();
        // A task of its own: a caller that leaves cannot interrupt it between two statements.
        let task = tokio::spawn(async move {
            let mut connection = inner.address.connect().await.map_err(Failure::from)?;
            let known = inner.fence.state().known();
            let adopted = adopt(&inner.address, &mut connection, known, cause).await;
            Address::close(connection).await;
            adopted
        });
        let adopted = task.await.map_err(|error| StoreError::Unavailable(format!("an adoption: {error}")))?;
        Ok(adopted?)
    }

    async fn generations(&self, limit: usize) -> StoreResult<Vec<GenerationRecord>> {
        lineage::generations(&self.read_rows(query(GENERATIONS).bind(rows::limit(limit))).await?)
    }
}
