//! Connection to Redis that reconnects without blocking its callers: while Redis is unavailable, commands fail at once,
//! and a new connection is tried every [`REDIS_RETRY`].

use std::{sync::Arc, time::Duration};

use redis::{
    Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, Value, aio::MultiplexedConnection,
    from_redis_value,
};
use threadline_core::limits::{REDIS_RETRY, REDIS_TIMEOUT};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

/// Reason why Redis did not answer.
#[derive(Debug, thiserror::Error)]
pub enum RedisConnectionError {
    /// Redis was unavailable at the last attempt, and the next attempt is not due yet.
    #[error("Redis is unreachable")]
    Away,
    /// The answer did not arrive before the timeout.
    #[error("Redis did not respond within {} ms", REDIS_TIMEOUT.as_millis())]
    Silent,
    /// Redis cannot be reached, or refused the command.
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
}

impl RedisConnectionError {
    /// True if Redis itself refused the command.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Redis(error) if error.code().is_some())
    }
}

/// The address of Redis is invalid.
#[derive(Debug, thiserror::Error)]
#[error("invalid Redis URL: {0}\nWrite it like redis://:password@host:6379/0, or rediss://… for TLS.")]
pub struct AddressError(RedisError);

/// Makes a client for this address, without a connection.
pub fn client(address: &str) -> Result<Client, AddressError> {
    Client::open(address.into_connection_info().map_err(AddressError)?).map_err(AddressError)
}

/// Link to Redis, as described in the module. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct RedisConnection {
    client: Client,
    place: Arc<Mutex<ConnectionSlot>>,
}

#[derive(Default)]
struct ConnectionSlot {
    connection: Option<MultiplexedConnection>,
    /// Number of the connection, so that a failure drops only the connection that failed.
    generation: u64,
    retry_at: Option<Instant>,
}

impl RedisConnection {
    /// Starts without a connection; the first command opens it.
    pub fn new(client: Client) -> Self {
        Self { client, place: Arc::default() }
    }

    /// Runs commands in one round trip. After an error their effect is unknown.
    pub async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, RedisConnectionError> {
        let (mut connection, generation) = self.connection().await?;
        let failure = match time::timeout(REDIS_TIMEOUT, commands.query_async(&mut connection)).await {
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

    /// Role that Redis reports: `master`, `slave`, `sentinel`.
    pub async fn role(&self) -> Result<String, RedisConnectionError> {
        let (role,): (Vec<Value>,) = self.ask(redis::pipe().cmd("ROLE")).await?;
        let role = role.into_iter().next().map(from_redis_value::<String>).transpose();
        Ok(role.map_err(RedisError::from)?.unwrap_or_default())
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), RedisConnectionError> {
        let mut place = self.place.lock().await;
        if let Some(connection) = &place.connection {
            return Ok((connection.clone(), place.generation));
        }
        if place.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(RedisConnectionError::Away);
        }
        // Concurrent callers wait here, at most for this timeout.
        let connected = time::timeout(REDIS_TIMEOUT, self.client.get_multiplexed_async_connection()).await;
        match connected {
            Ok(Ok(connection)) => {
                place.generation += 1;
                place.connection = Some(connection.clone());
                place.retry_at = None;
                Ok((connection, place.generation))
            }
            failed => {
                place.retry_at = Some(Instant::now() + REDIS_RETRY);
                Err(failed.map_or(RedisConnectionError::Silent, |connected| {
                    connected.err().map_or(RedisConnectionError::Away, Into::into)
                }))
            }
        }
    }
}

/// Pause before the next attempt, doubled each time.
pub fn pause(tries: u32) -> Duration {
    (REDIS_RETRY / 4 * 2u32.saturating_pow(tries.min(6))).min(REDIS_RETRY * 2)
}
