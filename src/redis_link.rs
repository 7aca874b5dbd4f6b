//! A connection to Redis that comes back by itself and never keeps anybody waiting: while Redis is away, who asks is
//! told so at once, and a new connection is tried every [`REDIS_RETRY`].

use std::{sync::Arc, time::Duration};

use redis::{
    Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError, Value, aio::MultiplexedConnection,
    from_redis_value,
};
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use crate::domain::limits::{REDIS_RETRY, REDIS_TIMEOUT};

/// Why Redis did not answer.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It is known to be away; the next try is due in a moment.
    #[error("Redis is away")]
    Away,
    /// It did not answer in time.
    #[error("Redis did not answer within {} ms", REDIS_TIMEOUT.as_millis())]
    Silent,
    /// It cannot be reached, or refused.
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
}

impl LinkError {
    /// Whether this is Redis' own refusal of a command.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Redis(error) if error.code().is_some())
    }
}

/// The address makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the address of Redis: {0}\nWrite it like redis://:password@host:6379/0, or rediss://… for TLS.")]
pub struct AddressError(RedisError);

/// A client for this address. Nothing is connected yet.
pub fn client(address: &str) -> Result<Client, AddressError> {
    Client::open(address.into_connection_info().map_err(AddressError)?).map_err(AddressError)
}

/// See the module. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct Link {
    client: Client,
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
struct Place {
    connection: Option<MultiplexedConnection>,
    /// Counts the connections, so that only the one that failed is given up.
    generation: u64,
    retry_at: Option<Instant>,
}

impl Link {
    /// Nothing is connected until something is asked.
    pub fn new(client: Client) -> Self {
        Self { client, place: Arc::default() }
    }

    /// Runs commands in one round trip. After an error nothing is known of their effect.
    pub async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, LinkError> {
        let (mut connection, generation) = self.connection().await?;
        let failure = match time::timeout(REDIS_TIMEOUT, commands.query_async(&mut connection)).await {
            Ok(Ok(answer)) => return Ok(answer),
            // An answer, if not the one wanted: the connection is good.
            Ok(Err(error)) if !error.is_unrecoverable_error() && !error.is_timeout() => return Err(error.into()),
            Ok(Err(error)) => error.into(),
            Err(_) => LinkError::Silent,
        };
        let mut place = self.place.lock().await;
        if place.generation == generation {
            place.connection = None;
            place.retry_at = Some(Instant::now() + REDIS_RETRY);
        }
        Err(failure)
    }

    /// What Redis calls itself: `master`, `slave`, `sentinel`.
    pub async fn role(&self) -> Result<String, LinkError> {
        let (role,): (Vec<Value>,) = self.ask(redis::pipe().cmd("ROLE")).await?;
        let role = role.into_iter().next().map(from_redis_value::<String>).transpose();
        Ok(role.map_err(RedisError::from)?.unwrap_or_default())
    }

    async fn connection(&self) -> Result<(MultiplexedConnection, u64), LinkError> {
        let mut place = self.place.lock().await;
        if let Some(connection) = &place.connection {
            return Ok((connection.clone(), place.generation));
        }
        if place.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(LinkError::Away);
        }
        // Whoever asks meanwhile waits here, for no longer than this.
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
                Err(failed.map_or(LinkError::Silent, |connected| connected.err().map_or(LinkError::Away, Into::into)))
            }
        }
    }
}

/// The pause before the next try, doubled each time.
pub fn pause(tries: u32) -> Duration {
    (REDIS_RETRY / 4 * 2u32.saturating_pow(tries.min(6))).min(REDIS_RETRY * 2)
}
