//! Reasons why Redis is of no use to a node.

use redis::{ErrorKind, RedisError};
use threadline_core::limits::REDIS_TIMEOUT;

use super::redis_sentinels::SentinelError;

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
    /// The sentinels name no master that can be reached.
    #[error("Redis: {0}")]
    Sentinels(#[from] SentinelError),
}

impl RedisConnectionError {
    /// True if Redis itself refused the command.
    pub fn is_refusal(&self) -> bool {
        // Codes without a kind of their own in the client, `OOM` among them, are extensions.
        matches!(self, Self::Redis(error) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension))
    }
}
