//! A Postgres and a Redis that somebody named. Nothing of theirs is touched: everything is in databases and under keys
//! that are made for the measurement and removed after it.

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
use crate::{config::without_secrets, domain::Clock, redis_link, store::postgres::PgStore};

/// Names the Postgres server, instead of an argument that other users of the machine can see.
pub const STORE_VARIABLE: &str = "THREADLINE_BENCH_STORE";
/// Names the Redis server.
pub const REDIS_VARIABLE: &str = "THREADLINE_BENCH_REDIS";
/// Keys that are looked for at once.
const KEYS: usize = 1_000;

/// The databases that were made, and whether they are in use.
type Made = Arc<Mutex<HashMap<String, bool>>>;

fn locked(made: &Made) -> MutexGuard<'_, HashMap<String, bool>> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the module.
#[derive(Debug)]
pub struct Servers {
    postgres: String,
    redis: String,
    client: Client,
    /// Begins the names of databases and keys.
    name: String,
    made: Made,
    next: AtomicU32,
    /// Databases are made and removed one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Servers {
    /// Both must answer. The user must be allowed to make databases.
    pub async fn new(postgres: &str, redis: &str) -> Result<Self, BenchError> {
        let failed = |error: sqlx::Error| BenchError::Postgres(without_secrets(postgres), error.into());
        let mut connection = connect(postgres).await.map_err(failed)?;
        // What a pooler lends cannot be counted as a connection, and sessions must keep what is set.
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
        let client = redis_link::client(redis)?;
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

    /// A new, empty database. Those that are not used any more are removed before.
    pub async fn database(&self) -> Result<Database, BenchError> {
        self.remove(|used| !used).await?;
        let name = format!("{}_{}", self.name, self.next.fetch_add(1, Ordering::Relaxed));
        locked(&self.made).insert(name.clone(), true);
        self.administer(format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")).await?;
        let separator = if self.postgres.contains('?') { '&' } else { '?' };
        Ok(Database {
            // The last name counts.
            url: format!("{}{separator}dbname={name}", self.postgres),
            redis: self.redis.clone(),
            prefix: self.key(""),
            name,
            made: self.made.clone(),
        })
    }

    /// A key in Redis that is removed at the end.
    pub fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.name)
    }

    /// Of Redis.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Removes everything that was made.
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

    /// Carries out a statement in the database that was named, to its end, even if nobody waits for it any more: what is
    /// being made could not be removed.
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

/// Nothing is set for the session.
async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    PgConnectOptions::from_str(url)?.disable_statement_logging().connect().await
}

/// A database that was made for a measurement. It is removed some time after it was dropped.
#[derive(Debug)]
pub struct Database {
    url: String,
    redis: String,
    prefix: String,
    name: String,
    made: Made,
}

impl Database {
    /// Tells a server that it keeps everything here.
    pub fn tell(&self, command: &mut Command) {
        // Not as arguments, which other users of the machine can see.
        command.env(STORE_VARIABLE, &self.url).env(REDIS_VARIABLE, &self.redis);
        command.arg("--lock-key-prefix").arg(&self.prefix);
    }

    /// The store in it.
    pub async fn store(&self, clock: Clock) -> Result<PgStore, BenchError> {
        PgStore::open(&self.url, clock).await.map_err(|error| BenchError::Postgres(self.name.clone(), error))
    }

    /// Connections set as the store's own, once its schema is there.
    pub async fn connections(&self, count: usize) -> Result<Vec<PgConnection>, BenchError> {
        let store = self.store(Clock::system()).await?;
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(store.connection().await?);
        }
        store.close().await;
        Ok(connections)
    }

    /// A connection on which nothing is set: for what takes its time.
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
