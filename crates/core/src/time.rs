//! Wall-clock time: milliseconds since 1970 UTC, one text form, and a clock that tests can set.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

use crate::limits::MAX_LOG_AHEAD;

/// Moment, in milliseconds since 1970-01-01T00:00:00Z. The text form is always `2026-11-21T10:11:15.123Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Moment that is `by` later.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Time of a commit to a log whose newest events have the time `newest`: the present moment, and not before theirs. If
    /// theirs is more than [`MAX_LOG_AHEAD`] ahead, a clock was wrong then.
    pub fn in_log_after(self, newest: Option<Self>) -> Self {
        newest.filter(|newest| *newest > self && *newest <= self.plus(MAX_LOG_AHEAD)).unwrap_or(self)
    }

    /// Moment that a text of another system names in RFC 3339, with any offset; `None` for any other text. Digits finer
    /// than a millisecond are cut off.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|moment| Self(moment.as_millisecond()))
    }

    /// Moment that is `by` earlier.
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match civil(self.0) {
            Some(text) => f.write_str(std::str::from_utf8(&text).unwrap_or_default()),
            None => {
                let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
                write!(f, "{moment:.3}")
            }
        }
    }
}

/// Text form of a moment between 1970 and 9999; `None` for any other. Written for every batch and every receipt, hence
/// by hand.
fn civil(millis: i64) -> Option<[u8; 24]> {
    let millis = u64::try_from(millis).ok().filter(|millis| *millis < 253_402_300_800_000)?;
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    // Years begin in March, so that the leap day is the last one; eras have 400 years (146,097 days).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |end: usize, mut number: u64| {
        let mut at = end;
        while number > 0 {
            at -= 1;
            text[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(4, year);
    put(7, month);
    put(10, day);
    put(13, rest / 3_600_000);
    put(16, rest / 60_000 % 60);
    put(19, rest / 1_000 % 60);
    put(23, rest % 1_000);
    Some(text)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimestampVisitor)
    }
}

/// Visitor that reads the one text form and no other.
struct TimestampVisitor;

impl Visitor<'_> for TimestampVisitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time like 2026-11-21T10:11:15.123Z")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let moment = text.parse::<jiff::Timestamp>().map(|moment| Timestamp(moment.as_millisecond())).ok();
        let exact = moment.filter(|moment| moment.to_string() == text);
        exact.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Source of a store's time. Leases are judged by this one clock, regardless of the caller.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Clock of the machine.
    pub fn system() -> Self {
        Self(None)
    }

    /// Creates a clock that changes only when [`Clock::advance`] is called.
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.0))))
    }

    /// Present moment by this clock.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp(manual.load(Ordering::SeqCst)),
            None => Timestamp(jiff::Timestamp::now().as_millisecond()),
        }
    }

    /// Moment of a manual clock; `None` for the machine's, which a database may replace by its own.
    pub fn fixed(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|_| self.now())
    }

    /// Sets a manual clock, forward or back; the machine's clock is left alone.
    pub fn set(&self, time: Timestamp) {
        if let Some(manual) = &self.0 {
            manual.store(time.0, Ordering::SeqCst);
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
    fn every_day_is_named_as_the_library_names_it() {
        for day in (0..2_932_895i64).step_by(7).chain([11_016, 2_932_894]) {
            let millis = day * 86_400_000 + day * 7_919 % 86_400_000;
            let moment = jiff::Timestamp::from_millisecond(millis).expect("in range");
            assert_eq!(Timestamp(millis).to_string(), format!("{moment:.3}"));
        }
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn others_write_a_moment_in_many_forms() {
        let moment = Some(Timestamp(1_795_255_875_120));
        let forms = ["2026-11-21T10:11:15.120Z", "2026-11-21T10:11:15.12+00:00", "2026-11-21T12:11:15.120999+02:00"];
        for text in forms {
            assert_eq!(Timestamp::from_rfc3339(text), moment, "{text}");
        }
        for text in ["", "2026-11-21", "2026-11-21T10:11:15", "1795255875120", "yesterday"] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn one_text_form() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(1_795_255_875_120).to_string(), "2026-11-21T10:11:15.120Z");
        for millis in [0, 1_795_255_875_120, -1, -62_135_596_800_000, 253_000_000_000_000] {
            let text = serde_json::to_string(&Timestamp(millis)).expect("JSON");
            assert_eq!(serde_json::from_str::<Timestamp>(&text).ok(), Some(Timestamp(millis)), "{text}");
        }
        for text in ["\"2026-11-21T10:11:15Z\"", "\"2026-11-21T10:11:15.1234Z\"", "\"2026-11-21\"", "7"] {
            assert!(serde_json::from_str::<Timestamp>(text).is_err(), "{text}");
        }
    }
}
