//! Named Postgres and Redis servers. Existing data stays untouched: all data is in databases and under keys that are
//! created for the measurement and removed after it.

use std::{
    collections::HashMap,
    process::Command,
    str::FromStr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use redis::{AsyncCommands, Client, ScanOptions};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row, postgres::PgConnectOptions, raw_sql,
};

use super::BenchError;
use threadline::config::without_secrets;
use threadline_core::Clock;
use threadline_engine::cluster::redis_servers::AddressError;
use threadline_store::postgres::PgStore;

/// Variable that names the Postgres server; an argument would be visible to other users of the machine.
pub const STORE_VARIABLE: &str = "THREADLINE_BENCH_STORE";
/// Variable that names the Redis server.
pub const REDIS_VARIABLE: &str = "THREADLINE_BENCH_REDIS";
/// Keys of one scan.
const KEYS: usize = 1_000;

/// Created databases, and whether each is in use.
type Made = Arc<Mutex<HashMap<String, bool>>>;

fn locked(made: &Made) -> MutexGuard<'_, HashMap<String, bool>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Servers on which the databases and keys are created.
#[derive(Debug)]
pub struct Servers {
    postgres: String,
    redis: String,
    client: Client,
    /// Prefix of the names of databases and keys.
    name: String,
    made: Made,
    next: AtomicU32,
    /// Lock that serializes the creation and removal of databases.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Servers {
    /// Connects to both servers. Fails if one does not answer, or if the user may not create databases.
    pub async fn new(postgres: &str, redis: &str) -> Result<Self, BenchError> {
        let failed = |error: sqlx::Error| BenchError::Postgres(without_secrets(postgres), error.into());
        let mut connection = connect(postgres).await.map_err(failed)?;
        // Connections of a pooler cannot be counted, and sessions must keep their settings.
        if postgres.contains("pooler=transaction") {
            return Err(BenchError::Pooler);
        }
        let allowed = "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user";
        let allowed: bool =
            raw_sql(allowed).fetch_one(&mut connection).await.and_then(|row| row.try_get(0)).map_err(failed)?;
        connection.close().await.map_err(failed)?;
        if !allowed {
            return Err(BenchError::MayNotCreate);
        }
        // A benchmark measures one Redis: its commands are not sent through sentinels.
        let client = Client::open(redis).map_err(AddressError::Server)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        connection.ping::<()>().await?;
        Ok(Self {
            postgres: postgres.to_owned(),
            redis: redis.to_owned(),
            client,
            name: format!("threadline_bench_{}", uuid::Uuid::new_v4().simple()),
            made: Made::default(),
            next: AtomicU32::new(0),
            turn: Arc::default(),
        })
    }

    /// Creates an empty database, after removing databases that are no longer in use.
    pub async fn database(&self) -> Result<Database, BenchError> {
        self.remove(|used| !used).await?;
        let name = format!("{}_{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        locked(&self.made).insert(name.clone(), true);
        self.administer(format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")).await?;
        let separator = if self.postgres.contains('?') { '&' } else { '?' };
        Ok(Database {
            // Of two parameters with this name, the last one counts.
            url: format!("{}{separator}dbname={name}", self.postgres),
            redis: self.redis.clone(),
            prefix: self.key(""),
            name,
            made: self.made.clone(),
        })
    }

    /// Key in Redis that is removed at the end.
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.name)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Removes all created databases and keys.
    pub async fn clear(&self) -> Result<(), BenchError> {
        let databases = self.remove(|_| true).await;
        self.remove_keys().await?;
        databases
    }

    async fn remove(&self, which: impl Fn(bool) -> bool) -> Result<(), BenchError> {
        let names: Vec<String> =
            locked(&self.made).iter().filter(|(_, used)| which(**used)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.administer(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
            locked(&self.made).remove(&name);
        }
        Ok(())
    }

    /// Runs a statement in the named database to its end, even if the caller is dropped: a database whose creation is
    /// interrupted could not be removed.
    async fn administer(&self, statement: String) -> Result<(), BenchError> {
        let (turn, url) = (self.turn.clone().lock_owned().await, self.postgres.clone());
        let task = tokio::spawn(async move {
            let _turn = turn;
            let mut connection = connect(&url).await?;
            connection.execute(AssertSqlSafe(statement)).await?;
            connection.close().await
        });
        task.await?.map_err(|error| BenchError::Postgres(without_secrets(&self.postgres), error.into()))
    }

    async fn remove_keys(&self) -> Result<(), BenchError> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let mut asking = connection.clone();
        let pattern = ScanOptions::default().with_pattern(self.key("*")).with_count(KEYS);
        let mut found = asking.scan_options::<String>(pattern).await?;
        while let Some(key) = found.next_item().await {
            connection.unlink::<_, ()>(key?).await?;
        }
        Ok(())
    }
}

/// Connects without session settings.
async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    PgConnectOptions::from_str(url)?.disable_statement_logging().connect().await
}

/// Database that was created for a measurement. The database is removed some time after its drop.
#[derive(Debug)]
pub struct Database {
    url: String,
    redis: String,
    prefix: String,
    name: String,
    made: Made,
}

impl Database {
    /// Passes the database and Redis to a server.
    pub fn tell(&self, command: &mut Command) {
        // Arguments would be visible to other users of the machine.
        command.env(STORE_VARIABLE, &self.url).env(REDIS_VARIABLE, &self.redis);
        command.arg("--lock-key-prefix").arg(&self.prefix);
    }

    /// Opens the store in this database.
    pub async fn store(&self, clock: Clock) -> Result<PgStore, BenchError> {
        PgStore::open(&self.url, clock).await.map_err(|error| BenchError::Postgres(self.name.clone(), error))
    }

    /// Connections with the settings of the store, after its schema was created.
    pub async fn connections(&self, count: usize) -> Result<Vec<PgConnection>, BenchError> {
        let store = self.store(Clock::system()).await?;
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(store.connection().await?);
        }
        store.close().await;
        Ok(connections)
    }

    /// Connection without session settings, for long statements.
    pub async fn plain_connection(&self) -> Result<PgConnection, BenchError> {
        Ok(connect(&self.url).await?)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(used) = locked(&self.made).get_mut(&self.name) {
            *used = false;
        }
    }
}
