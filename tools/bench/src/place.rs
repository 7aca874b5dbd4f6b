//! Places for the data of a measurement: a directory, or separate databases on the named servers.

use std::sync::Arc;

use super::{
    BenchError,
    process::{Process, TempDir},
    servers::{Database, Servers},
};
use threadline_core::Clock;
use threadline_store::{DynStore, postgres::PgStore, sqlite::SqliteStore};

/// Storage on which places are created.
#[derive(Debug)]
pub enum Ground {
    /// SQLite, in this directory.
    Directory(TempDir),
    /// Postgres and Redis, on the named servers.
    Servers(Box<Servers>),
}

impl Ground {
    /// Creates an empty place, after removing places that are no longer in use.
    pub async fn place(&self) -> Result<Place, BenchError> {
        Ok(match self {
            Self::Directory(home) => Place::Directory(TempDir::new(home.path())?),
            Self::Servers(servers) => Place::Database(servers.database().await?),
        })
    }

    /// Servers that nodes share, if there are any.
    pub fn servers(&self) -> Option<&Servers> {
        match self {
            Self::Directory(_) => None,
            Self::Servers(servers) => Some(servers),
        }
    }

    /// Removes all created data, after any outcome of the measurement.
    pub async fn clear(&self) -> Result<(), BenchError> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Servers(servers) => servers.clear().await,
        }
    }
}

/// Place of one measurement's data.
#[derive(Debug)]
pub enum Place {
    /// Directory for a SQLite store.
    Directory(TempDir),
    /// Database on the named Postgres.
    Database(Database),
}

impl Place {
    /// Starts a server in a separate process, configured like `threadline serve`.
    pub fn serve(&self) -> Result<Process, BenchError> {
        Process::start_with("serve", |command| match self {
            Self::Directory(data) => {
                command.arg("--dir").arg(data.path());
            }
            Self::Database(database) => database.tell(command),
        })
    }

    /// Opens the store alone, without a server.
    pub async fn store(&self, clock: Clock) -> Result<Store, BenchError> {
        Ok(match self {
            Self::Directory(data) => Store::Sqlite(SqliteStore::open(data.path(), clock).await?),
            Self::Database(database) => Store::Postgres(database.store(clock).await?),
        })
    }
}

/// Store that this process has opened, next to those of the servers.
pub enum Store {
    /// SQLite, in a file.
    Sqlite(SqliteStore),
    /// Postgres, in a database.
    Postgres(PgStore),
}

impl Store {
    /// Store port for a service.
    pub fn port(&self) -> DynStore {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    pub async fn close(self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}
