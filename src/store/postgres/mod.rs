//! The production back-end: PostgreSQL, shared by many nodes.
//!
//! Every method is one statement, or a few that each leave things whole, and each statement is its own transaction: no
//! transaction is ever open while something is awaited. It is carried out by a task of its own, on a connection that is free
//! again before anybody is answered. The one clock is the database's.
//!
//! Nobody can wait in a circle: locks are taken in the order heads (by key), log and runs, threads (by key); what could wait
//! otherwise leaves out what somebody else has locked.

use std::sync::Arc;

use sqlx::{PgConnection, Row};

use self::{
    address::Address,
    fetch::{Rows, Statement, Work},
    pool::Pool,
};
pub(crate) use self::{
    append::{GROUP, ONE},
    start::START,
};
pub use self::{check::Finding, migrate::Migrated};
use super::StoreResult;
use crate::domain::{
    Clock,
    limits::{PG_PIPELINES, PG_READERS, PG_WRITERS},
};

mod address;
mod agents;
mod annotations;
mod append;
mod check;
mod erasure;
mod feed;
mod fetch;
mod identity;
mod log;
mod migrate;
mod plans;
mod pool;
mod rows;
mod runs;
mod seal;
mod snapshots;
mod start;
mod status;
mod threads;
mod transfer;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database was migrated by a newer program.
    #[error(
        "the database has schema version {found}, this program knows versions up to {known}: run the newer program"
    )]
    Newer {
        /// The version found.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// There are tables named like ours, but no schema version.
    #[error("the database holds tables of another program: give Threadline a database of its own")]
    Foreign,
    /// The server lacks what the statements need.
    #[error("PostgreSQL {found} is too old: at least 13 is needed")]
    OldServer {
        /// The version found.
        found: String,
    },
    /// Texts could not be kept as they are.
    #[error("the database has the encoding {found}: make one with ENCODING 'UTF8'")]
    Encoding {
        /// The encoding found.
        found: String,
    },
    /// A pooler that cannot be worked with.
    #[error("pooler={found} is not known: write pooler=transaction, or pooler=session")]
    Pooler {
        /// What stands in the URL.
        found: String,
    },
    /// Anything else that the database says.
    #[error("cannot open the database: {0}")]
    Database(#[from] sqlx::Error),
}

/// A store in a PostgreSQL database. Cheap to clone; the clones share everything.
#[derive(Debug, Clone)]
pub struct PgStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Clock,
    groups: Arc<Pool>,
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    installation: String,
    findings: Vec<Finding>,
}

impl PgStore {
    /// Opens the store, after bringing its schema up to date. `url` is `postgres://user:password@host:port/database`, with
    /// `?pooler=transaction` behind a pooler that gives each transaction another session. Leases are judged by the
    /// database's clock, unless `clock` is a manual one.
    pub async fn open(url: &str, clock: Clock) -> Result<Self, OpenError> {
        let mut address = Address::parse(url)?;
        let mut connection = address.connect().await?;
        let findings = check::server(&address, &mut connection).await?;
        let migrated = migrate::run(&address, &mut connection).await?;
        if migrated.from < migrated.to {
            tracing::info!(from = migrated.from, to = migrated.to, "the database was migrated");
        }
        let rows = address.ask(&mut connection, "SELECT id FROM installation").await?;
        let installation = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        Address::close(connection).await;
        if findings.iter().any(|finding| finding.setting == "synchronous_commit") {
            address = address.durable();
        }
        let address = Arc::new(address);
        let pool = |size| Arc::new(Pool::new(address.clone(), size));
        let (groups, writers, readers) = (pool(PG_PIPELINES), pool(PG_WRITERS), pool(PG_READERS));
        Ok(Self { inner: Arc::new(Inner { clock, groups, writers, readers, installation, findings }) })
    }

    /// Brings the schema of a database up to date, and nothing else.
    pub async fn migrate(url: &str) -> Result<Migrated, OpenError> {
        let address = Address::parse(url)?;
        let mut connection = address.connect().await?;
        check::server(&address, &mut connection).await?;
        let migrated = migrate::run(&address, &mut connection).await?;
        Address::close(connection).await;
        Ok(migrated)
    }

    /// Ends all connections once their statements have ended. What is asked later is answered with
    /// [`super::StoreError::Unavailable`].
    pub async fn close(&self) {
        self.inner.groups.close().await;
        self.inner.writers.close().await;
        self.inner.readers.close().await;
    }

    /// A connection like those of the store, for a program that it is compared with.
    pub(crate) async fn connection(&self) -> Result<PgConnection, sqlx::Error> {
        self.inner.writers.connect().await
    }

    /// A random id that this set of data got when its schema was made: the same on every node.
    pub fn installation(&self) -> &str {
        &self.inner.installation
    }

    /// Settings of the server, seen at start, under which acknowledged events may be lost.
    pub fn findings(&self) -> &[Finding] {
        &self.inner.findings
    }

    /// The time of a manual clock; without one the database's counts.
    fn now(&self) -> Option<i64> {
        self.inner.clock.fixed().map(|now| now.0)
    }

    /// The rows of a statement that writes.
    async fn write(&self, statement: Statement<'_>) -> StoreResult<Rows> {
        Ok(self.write_once(statement).await?)
    }

    /// [`PgStore::write`] that tells why it failed.
    async fn write_once(&self, statement: Statement<'_>) -> Work<Rows> {
        pool::run(&self.inner.writers, statement).await
    }

    /// The rows of a statement that only reads.
    async fn read_rows(&self, statement: Statement<'_>) -> StoreResult<Rows> {
        Ok(pool::read(&self.inner.readers, statement).await?)
    }
}
