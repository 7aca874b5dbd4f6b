//! The production back-end: PostgreSQL, shared by many nodes.
//!
//! Every method is one statement, or a few that each leave the data consistent, and each statement is its own
//! transaction: no transaction stays open between two statements. A task of its own runs each statement, on a
//! connection that is free again before the caller is answered. The one clock is the database's.
//!
//! Deadlocks are excluded: locks are taken in the order heads (by key), log and runs, threads (by key); statements that
//! could wait in another order skip rows that another transaction has locked.

use std::sync::{Arc, atomic::AtomicU64};

use sqlx::PgConnection;
use sqlx::Row;
use threadline_core::{
    Clock, Timestamp,
    limits::{NODE_BEAT_TIMEOUT, PG_ANSWER_TIMEOUT, PG_PIPELINES, PG_READERS, PG_WRITERS},
};

use self::{
    address::Address,
    fetch::{Rows, Statement, Work},
    lineage::LastBeat,
    pool::Pool,
};
pub use self::{check::Finding, migrate::Migrated, open_error::OpenError};
use super::{Lineage, LineageCause, LineageFence, SecretAccess, StoreClock, StoreResult, sql::secrets::Secrets};

/// Hot statements, which the benchmark runs alone.
#[cfg(feature = "testing")]
pub mod statements {
    pub use super::{
        append::{GROUP, ONE},
        start::START,
    };
}

mod address;
mod append;
mod attempts;
mod check;
mod checkpoints;
mod feed;
mod fetch;
mod hosts;
mod items;
mod kv;
mod lineage;
mod log;
mod migrate;
mod nodes;
mod open_error;
mod plans;
mod pool;
mod queue;
mod rows;
mod runs;
mod seal;
mod secrets;
mod staging;
mod start;
mod status;
mod streams;
mod tables;
mod threads;
mod transfer;
mod turns;

/// A store in a PostgreSQL database. Cheap to clone; the clones share everything.
#[derive(Debug, Clone)]
pub struct PgStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    known: StoreClock,
    address: Arc<Address>,
    fence: Arc<LineageFence>,
    secrets: Secrets,
    groups: Arc<Pool>,
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    beats: Arc<Pool>,
    sent_beats: AtomicU64,
    last_beat: Arc<LastBeat>,
    installation: String,
    findings: Vec<Finding>,
}

impl PgStore {
    /// Opens the store, after bringing its schema up to date. `url` is `postgres://user:password@host:port/database`, with
    /// `?pooler=transaction` behind a pooler that gives each transaction another session. Leases are judged by the
    /// database's clock, unless `clock` is a manual one. Secrets are stored as they are; a database with sealed ones is refused.
    pub async fn open(url: &str, clock: Clock) -> Result<Self, OpenError> {
        Self::open_with(url, clock, SecretAccess::default()).await
    }

    /// [`PgStore::open`] with this use of its secrets.
    pub async fn open_with(url: &str, clock: Clock, access: SecretAccess) -> Result<Self, OpenError> {
        let mut address = Address::parse(url)?;
        let mut connection = address.connect().await?;
        let findings = check::server(&address, &mut connection).await?;
        let migrated = migrate::run(&address, &mut connection).await?;
        if migrated.from < migrated.to {
            tracing::info!(from = migrated.from, to = migrated.to, "the database was migrated");
        }
        let rows = address.ask(&mut connection, "SELECT id FROM installation").await?;
        let installation = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        let known = Self::clock_of(clock.clone(), &address, &mut connection).await?;
        let (lineage, standby) = Self::lineage_of(&address, &mut connection).await?;
        let secrets = secrets::of(&address, &mut connection, access, standby).await?;
        Address::close(connection).await;
        if findings.iter().any(|finding| finding.setting == "synchronous_commit") {
            address = address.durable();
        }
        let address = Arc::new(address);
        let fence = Arc::new(LineageFence::new(lineage));
        if standby {
            fence.close(LineageCause::Standby);
        }
        let last_beat = Arc::new(LastBeat::default());
        let pool =
            |size, timeout| Arc::new(Pool::new(address.clone(), fence.clone(), last_beat.clone(), size, timeout));
        let groups = pool(PG_PIPELINES, PG_ANSWER_TIMEOUT);
        let writers = pool(PG_WRITERS, PG_ANSWER_TIMEOUT);
        let readers = pool(PG_READERS, PG_ANSWER_TIMEOUT);
        let beats = pool(1, NODE_BEAT_TIMEOUT);
        let sent_beats = AtomicU64::default();
        let inner = Inner {
            clock,
            known,
            address,
            fence,
            secrets,
            groups,
            writers,
            readers,
            beats,
            sent_beats,
            last_beat,
            installation,
            findings,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The server's clock, as the server shows it now. A manual clock takes its place.
    async fn clock_of(
        machine: Clock,
        address: &Address,
        connection: &mut PgConnection,
    ) -> Result<StoreClock, OpenError> {
        let manual = machine.fixed().is_some();
        let clock = StoreClock::new(machine);
        let asked = clock.steady();
        let rows = address.ask(connection, status::STATUS).await?;
        let now: i64 = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        if !manual {
            clock.anchor(Timestamp(now), asked.middle(clock.steady()));
        }
        Ok(clock)
    }

    /// The history of the server, adopted if it has no generation yet, and whether the server is a standby.
    async fn lineage_of(address: &Address, connection: &mut PgConnection) -> Result<(Lineage, bool), OpenError> {
        let seen =
            lineage::compare(address, connection, None).await.map_err(|failure| OpenError::Store(failure.error))?;
        let newest = seen.newest();
        match seen.differs_from(newest, None) {
            None => Ok((newest, false)),
            Some(LineageCause::Standby) => Ok((newest, true)),
            Some(cause) => {
                tracing::error!(cause = cause.name(), "the history of the database has changed: opening a generation");
                let adopted = lineage::adopt(address, connection, newest, cause).await;
                Ok((adopted.map_err(|failure| OpenError::Store(failure.error))?, false))
            }
        }
    }

    /// Brings the schema of a database up to date, without opening a store.
    pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
        let address = Address::parse(url)?;
        let mut connection = address.connect().await?;
        check::server(&address, &mut connection).await?;
        let migrated = migrate::run(&address, &mut connection).await?;
        Address::close(connection).await;
        Ok(migrated)
    }

    /// Closes all connections once their statements have ended. Later calls fail with
    /// [`super::StoreError::Unavailable`].
    pub async fn close(&self) {
        self.inner.groups.close().await;
        self.inner.writers.close().await;
        self.inner.readers.close().await;
        self.inner.beats.close().await;
    }

    /// A connection like those of the store, for a program that the store is compared with.
    #[cfg(feature = "testing")]
    pub async fn connection(&self) -> Result<PgConnection, sqlx::Error> {
        self.inner.writers.connect().await
    }

    /// A random id that this set of data got when its schema was created: the same on every node.
    pub fn installation(&self) -> &str {
        &self.inner.installation
    }

    /// Settings of the server, seen at start, under which acknowledged events may be lost.
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// Time of a manual clock; `None` if the database's clock counts.
    fn now(&self) -> Option<i64> {
        self.inner.clock.fixed().map(|now| now.0)
    }

    /// Latest time by which a lease is judged: a server whose clock jumps ahead ends no run.
    fn bound(&self) -> i64 {
        self.inner.known.bound().0
    }

    /// The rows of a statement that writes.
    async fn write(&self, statement: Statement<'_>) -> StoreResult<Rows> {
        Ok(self.write_once(statement).await?)
    }

    /// [`PgStore::write`] with the kind of a failure.
    async fn write_once(&self, statement: Statement<'_>) -> Work<Rows> {
        pool::run(&self.inner.writers, statement).await
    }

    /// The rows of a statement that only reads.
    async fn read_rows(&self, statement: Statement<'_>) -> StoreResult<Rows> {
        Ok(pool::read(&self.inner.readers, statement).await?)
    }
}
