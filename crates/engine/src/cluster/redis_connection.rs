//! Connection to Redis that reconnects without blocking its callers: while Redis is unavailable, commands fail at once,
//! and a new connection is tried every [`REDIS_RETRY`]. A connection to a server that is no longer the master is replaced.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Value, from_redis_value, pipe};
use threadline_core::limits::{REDIS_RETRY, REDIS_TIMEOUT};
use tokio::{
    sync::{Mutex, watch},
    time::{self, Instant},
};

use super::{
    redis_error::RedisConnectionError,
    redis_servers::{Connection, RedisServers},
};

/// Link to Redis, as described in the module. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct RedisConnection {
    servers: RedisServers,
    newest: watch::Receiver<u64>,
    place: Arc<Mutex<ConnectionSlot>>,
}

#[derive(Default)]
struct ConnectionSlot {
    connection: Option<Connection>,
    /// Number of the master to which it leads.
    master: u64,
    /// Number of the connection, so that a failure drops only the connection that failed.
    generation: u64,
    retry_at: Option<Instant>,
}

impl RedisConnection {
    /// Starts without a connection; the first command opens it.
    pub fn new(servers: RedisServers) -> Self {
        Self { newest: servers.newest(), servers, place: Arc::default() }
    }

    /// Runs commands of one key, or of none, in one round trip. After an error their effect is unknown.
    pub async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, RedisConnectionError> {
        let (connection, generation) = self.connection().await?;
        let answered = time::timeout(REDIS_TIMEOUT, connection.ask(commands)).await;
        self.judge(generation, answered).await
    }

    /// Runs commands of one key each, all at once. After an error their effect is unknown.
    pub async fn ask_each<T: FromRedisValue>(&self, commands: &[Cmd]) -> Result<Vec<T>, RedisConnectionError> {
        let (connection, generation) = self.connection().await?;
        let answered = time::timeout(REDIS_TIMEOUT, connection.ask_each(commands)).await;
        self.judge(generation, answered).await
    }

    /// Drops the connection with this number unless it is still good after this answer.
    async fn judge<T>(
        &self,
        generation: u64,
        answered: Result<RedisResult<T>, time::error::Elapsed>,
    ) -> Result<T, RedisConnectionError> {
        let failure = match answered {
            Ok(Ok(answer)) => return Ok(answer),
            // An error answer, after which the connection is still good.
            Ok(Err(error)) if !error.is_unrecoverable_error() && !error.is_timeout() => return Err(error.into()),
            Ok(Err(error)) => error.into(),
            Err(_) => RedisConnectionError::Silent,
        };
        let mut place = self.place.lock().await;
        if place.generation == generation {
            place.connection = None;
            place.retry_at = Some(Instant::now() + REDIS_RETRY);
        }
        Err(failure)
    }

    /// Role that Redis reports: `master`, `slave`, `sentinel`; `None` in a cluster, where every server has its own.
    pub async fn role(&self) -> Result<Option<String>, RedisConnectionError> {
        if self.servers.share_keys() {
            return Ok(None);
        }
        let (role,): (Vec<Value>,) = self.ask(pipe().cmd("ROLE")).await?;
        let role = role.into_iter().next().map(from_redis_value::<String>).transpose();
        Ok(Some(role.map_err(RedisError::from)?.unwrap_or_default()))
    }

    /// Drops the connection: its server is no longer the one that accepts writes. The next command connects again.
    pub async fn reconnect(&self) {
        self.place.lock().await.connection = None;
    }

    async fn connection(&self) -> Result<(Connection, u64), RedisConnectionError> {
        let mut place = self.place.lock().await;
        if place.master == *self.newest.borrow()
            && let Some(connection) = &place.connection
        {
            return Ok((connection.clone(), place.generation));
        }
        if place.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(RedisConnectionError::Away);
        }
        // Concurrent callers wait here, at most for this timeout.
        match time::timeout(REDIS_TIMEOUT, self.servers.connect()).await.unwrap_or(Err(RedisConnectionError::Silent)) {
            Ok((connection, master)) => {
                place.generation += 1;
                (place.connection, place.master) = (Some(connection.clone()), master);
                place.retry_at = None;
                Ok((connection, place.generation))
            }
            Err(error) => {
                place.retry_at = Some(Instant::now() + REDIS_RETRY);
                Err(error)
            }
        }
    }
}

/// Pause before the next attempt, doubled each time.
pub fn pause(tries: u32) -> Duration {
    (REDIS_RETRY / 4 * 2u32.saturating_pow(tries.min(6))).min(REDIS_RETRY * 2)
}
