//! Wall-clock time: milliseconds since 1970 UTC, one text form, and a clock that tests can set.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, Serializer};

/// A moment, in milliseconds since 1970-01-01T00:00:00Z. Its text form is always `2026-11-21T10:11:15.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment `by` later.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The moment `by` earlier.
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{moment:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a store takes the time from. Leases are judged by this one clock, whoever asks.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until [`Clock::advance`] is called.
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.0))))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp(manual.load(Ordering::SeqCst)),
            None => Timestamp(jiff::Timestamp::now().as_millisecond()),
        }
    }

    /// Moves a manual clock forward; the machine's clock is left alone.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.0 {
            manual.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_form() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(1_795_255_875_120).to_string(), "2026-11-21T10:11:15.120Z");
    }
}
