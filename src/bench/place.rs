//! Where the data of a measurement goes: into a directory, or into databases of its own on servers that were named.

use std::sync::Arc;

use super::{
    BenchError,
    process::{Process, TempDir},
    servers::{Database, Servers},
};
use crate::{
    domain::Clock,
    store::{DynStore, postgres::PgStore, sqlite::SqliteStore},
};

/// What all places are made on.
#[derive(Debug)]
pub enum Ground {
    /// SQLite, in this directory.
    Directory(TempDir),
    /// Postgres and Redis.
    Servers(Box<Servers>),
}

impl Ground {
    /// An empty place. Places that are not used any more are removed before.
    pub async fn place(&self) -> Result<Place, BenchError> {
        Ok(match self {
            Self::Directory(home) => Place::Directory(TempDir::new(home.path())?),
            Self::Servers(servers) => Place::Database(servers.database().await?),
        })
    }

    /// The servers that nodes share, if they do.
    pub fn servers(&self) -> Option<&Servers> {
        match self {
            Self::Directory(_) => None,
            Self::Servers(servers) => Some(servers),
        }
    }

    /// Removes everything that was made, whatever became of the measurement.
    pub async fn clear(&self) -> Result<(), BenchError> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Servers(servers) => servers.clear().await,
        }
    }
}

/// Where one measurement keeps its data.
#[derive(Debug)]
pub enum Place {
    /// A directory.
    Directory(TempDir),
    /// A database.
    Database(Database),
}

impl Place {
    /// A server in a process of its own, as `threadline serve` runs it.
    pub fn serve(&self) -> Result<Process, BenchError> {
        Process::start_with("serve", |command| match self {
            Self::Directory(data) => {
                command.arg("--dir").arg(data.path());
            }
            Self::Database(database) => database.tell(command),
        })
    }

    /// The store alone, without a server.
    pub async fn store(&self, clock: Clock) -> Result<Store, BenchError> {
        Ok(match self {
            Self::Directory(data) => Store::Sqlite(SqliteStore::open(data.path(), clock).await?),
            Self::Database(database) => Store::Postgres(database.store(clock).await?),
        })
    }
}

/// A store that was opened here, beside those of the servers.
pub enum Store {
    /// In a file.
    Sqlite(SqliteStore),
    /// In a database.
    Postgres(PgStore),
}

impl Store {
    /// As a service uses it.
    pub fn port(&self) -> DynStore {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Closes it.
    pub async fn close(self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}
