//! Code that the SQL back-ends share; none of it depends on the database.

use std::time::Duration;

use super::StoreError;

pub(super) mod annotations;
pub(super) mod append;
pub(crate) mod attempts;
pub(crate) mod checkpoints;
pub(super) mod columns;
pub(crate) mod items;
pub(crate) mod kv;
pub(super) mod lineage;
pub(crate) mod lists;
pub(super) mod nodes;
pub(super) mod pages;
pub(super) mod queries;
pub(crate) mod queue;
pub(super) mod seal;
pub(super) mod secrets;
pub(crate) mod streams;
pub(super) mod tables;
pub(super) mod turns;

/// CRC-32C of a body as it is stored.
pub(super) fn crc(body: &[u8]) -> i64 {
    crc32c::crc32c(body).into()
}

/// The error of stored data that contradicts itself.
pub(super) fn corrupt(what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(what.to_string())
}

/// A seq, a cursor or a count as the database compares it. The bound is beyond every log, and the sum of two such
/// numbers stays an integer.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(1 << 61)
}

/// A number of rows.
pub(super) fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A length of time in milliseconds.
pub(super) fn millis(length: Duration) -> i64 {
    // The bound is far beyond MAX_LEASE, and a sum with the present moment stays an integer.
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX).min(1 << 50)
}
