//! Offsets of a stream, and the cursors by which shared caches tell live reads apart.

use std::fmt;

use threadline_core::{Epoch, Seq, Timestamp};
use threadline_http::problem::{Problem, ProblemType};

/// Position after an event. The seq comes first, so that offsets of one log sort like its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    pub seq: Seq,
    pub epoch: Epoch,
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}_{}", self.seq, self.epoch)
    }
}

/// Place where a read begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Beginning,
    Now,
    After(Offset),
}

impl From {
    /// Place of a request: the parameter `offset`, which only a read of a page may leave out.
    pub fn of(offset: Option<&str>, is_live: bool) -> Result<Self, Problem> {
        match offset {
            Some(offset) => Self::parse(offset),
            None if is_live => Err(Problem::invalid("live needs offset: -1, now or a Stream-Next-Offset")),
            None => Ok(Self::Beginning),
        }
    }

    /// Reads the parameter `offset` of a request.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        match text {
            "-1" => return Ok(Self::Beginning),
            "now" => return Ok(Self::Now),
            _ => {}
        }
        let offset = text.split_once('_').and_then(|(seq, epoch)| {
            let is_seq = seq.len() >= 16 && seq.bytes().all(|byte| byte.is_ascii_digit());
            Some(Offset { seq: seq.parse().ok().filter(|_| is_seq)?, epoch: Epoch::parse(epoch)? })
        });
        // Each position has exactly one offset: other spellings are refused.
        let offset = offset.filter(|offset| offset.to_string() == text);
        offset.map(Self::After).ok_or_else(|| {
            let detail = format!("offset is {text:?}: it is -1, now, or a Stream-Next-Offset of this stream");
            Problem::new(ProblemType::InvalidCursor, detail)
        })
    }
}

/// Length of an interval of cursors.
const INTERVAL_MS: i64 = 20_000;
/// 2024-10-09T00:00:00Z, from which intervals are counted.
const FIRST_INTERVAL_MS: i64 = 1_728_432_000_000;

/// Cursor of a live response: the number of the current interval, but at least one more than the client's cursor. So no cache can
/// answer a client with the same response for ever.
pub fn cursor(now: Timestamp, seen: Option<u64>) -> u64 {
    let present = u64::try_from((now.0 - FIRST_INTERVAL_MS) / INTERVAL_MS).unwrap_or(0);
    seen.map_or(present, |seen| present.max(seen.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: &str = "0123456789abcdef";

    #[test]
    fn an_offset_has_one_form() {
        let offset = Offset { seq: 12, epoch: Epoch::named(EPOCH) };
        assert_eq!(offset.to_string(), format!("0000000000000012_{EPOCH}"));
        assert_eq!(From::parse(&offset.to_string()).ok(), Some(From::After(offset)));
        assert_eq!(["-1", "now"].map(|text| From::parse(text).ok()), [Some(From::Beginning), Some(From::Now)]);
        let largest = Offset { seq: u64::MAX, epoch: Epoch::named(EPOCH) };
        assert_eq!(From::parse(&largest.to_string()).ok(), Some(From::After(largest)));
        for bad in [
            "",
            "0",
            "-2",
            "NOW",
            "12_0123456789abcdef",
            "0000000000000012",
            "0000000000000012_",
            "0000000000000012_0123",
            "00000000000000012_0123456789abcdef",
            "+000000000000012_0123456789abcdef",
            "0000000000000012_0123456789ABCDEF",
        ] {
            assert!(From::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn offsets_sort_like_events() {
        let texts =
            [0, 1, 9, 10, 99, 100, 9_999_999_999].map(|seq| Offset { seq, epoch: Epoch::named(EPOCH) }.to_string());
        assert!(texts.is_sorted() && texts[0].as_str() > "-1", "{texts:?}");
    }

    #[test]
    fn a_cursor_never_goes_back() {
        let now = Timestamp(FIRST_INTERVAL_MS + 1_000 * INTERVAL_MS + 7);
        assert_eq!(cursor(now, None), 1_000);
        assert_eq!(cursor(now, Some(3)), 1_000);
        assert_eq!(cursor(now, Some(1_000)), 1_001);
        assert_eq!(cursor(now, Some(5_000)), 5_001);
        assert_eq!(cursor(Timestamp(0), None), 0);
        assert_eq!(cursor(now, Some(u64::MAX)), u64::MAX);
    }
}
