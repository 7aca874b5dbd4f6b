//! Usage of one rate limit (GCRA), kept as one moment: the time at which the budget is full again.
//!
//! A single take may exceed the budget, and must be refilled before the next one passes: the size of a body is known
//! only after it was read. The clock is tokio's, so that the simulation controls it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Refill rate and largest budget of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    per_second: u64,
    burst: u64,
}

impl Rate {
    /// `None` if there is no limit. Without a burst the largest budget is one second's refill.
    pub fn new(per_second: u64, burst: u64) -> Option<Self> {
        let burst = if burst == 0 { per_second } else { burst };
        (per_second > 0).then_some(Self { per_second, burst })
    }

    /// Time in which this amount is refilled.
    fn time(self, amount: u64) -> Duration {
        let rest = u128::from(amount % self.per_second) * 1_000_000_000 / u128::from(self.per_second);
        // Less than a second, in nanoseconds.
        Duration::new(amount / self.per_second, rest as u32)
    }
}

/// Budget of one limit. The default is a full budget.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    full_at: Mutex<Option<Instant>>,
}

impl Bucket {
    /// Takes this amount if the budget has at least one unit; else returns the time until it has.
    pub fn take(&self, rate: Rate, amount: u64, now: Instant) -> Result<(), Duration> {
        self.change(now, |full_at| {
            let wait = wait(rate, full_at, now);
            if wait.is_zero() { (full_at + rate.time(amount), Ok(())) } else { (full_at, Err(wait)) }
        })
    }

    /// Takes this amount in any case. Returns the time until the budget has one unit again.
    pub fn charge(&self, rate: Rate, amount: u64, now: Instant) -> Duration {
        self.change(now, |full_at| {
            let full_at = full_at + rate.time(amount);
            (full_at, wait(rate, full_at, now))
        })
    }

    /// Charges like [`Self::charge`], but leaves no debt of more than this time.
    pub fn owe(&self, rate: Rate, amount: u64, most: Duration, now: Instant) -> Duration {
        self.change(now, |full_at| {
            let full_at = (full_at + rate.time(amount)).min(now + rate.time(rate.burst) + most);
            (full_at, wait(rate, full_at, now))
        })
    }

    fn change<T>(&self, now: Instant, change: impl FnOnce(Instant) -> (Instant, T)) -> T {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, answer) = change(full_at.map_or(now, |full_at| full_at.max(now)));
        *full_at = Some(after);
        answer
    }
}

fn wait(rate: Rate, full_at: Instant, now: Instant) -> Duration {
    (full_at - now + rate.time(1)).saturating_sub(rate.time(rate.burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_at_a_time() {
        let (bucket, rate, begun) = (Bucket::default(), Rate::new(10, 5).expect("a rate"), Instant::now());
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        for _ in 0..5 {
            assert_eq!(bucket.take(rate, 1, begun), Ok(()));
        }
        assert_eq!(bucket.take(rate, 1, begun), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(rate, 1, at(99)), Err(Duration::from_millis(1)));
        assert_eq!(bucket.take(rate, 1, at(100)), Ok(()));
        assert_eq!(bucket.take(rate, 1, at(100)), Err(Duration::from_millis(100)));
        // After a rest the burst is available again, and no more.
        let passed = (0..20).take_while(|_| bucket.take(rate, 1, at(60_000)).is_ok()).count();
        assert_eq!(passed, 5);
    }

    #[test]
    fn tokens_taken_beyond_the_burst_are_repaid_first() {
        let (bucket, rate, begun) = (Bucket::default(), Rate::new(1_000, 1_000).expect("a rate"), Instant::now());
        assert_eq!(bucket.take(rate, 5_000, begun), Ok(()));
        let wait = bucket.take(rate, 1, begun).expect_err("in debt");
        assert_eq!(wait, Duration::from_millis(4_001));
        assert_eq!(bucket.take(rate, 5_000, begun + wait), Ok(()));
        assert_eq!(bucket.charge(rate, 1_000, begun + wait), Duration::from_secs(6));
    }

    #[test]
    fn a_debt_is_bounded() {
        let (bucket, rate, begun) = (Bucket::default(), Rate::new(10, 50).expect("a rate"), Instant::now());
        let most = Duration::from_secs(60);
        assert_eq!(bucket.owe(rate, 49, most, begun), Duration::ZERO);
        assert_eq!(bucket.owe(rate, 100, most, begun), Duration::from_secs(10));
        assert_eq!(bucket.owe(rate, 1_000_000, most, begun), most + Duration::from_millis(100));
        assert!(bucket.take(rate, 1, begun + most).is_err());
        assert!(bucket.take(rate, 1, begun + most + Duration::from_millis(100)).is_ok());
    }

    #[test]
    fn rates_from_nothing_to_a_great_deal() {
        assert_eq!(Rate::new(0, 7), None);
        let second = Rate::new(3, 0).expect("a rate");
        assert_eq!((second.time(3), second.time(1)), (Duration::from_secs(1), Duration::from_nanos(333_333_333)));
        let most = threadline_core::limits::MAX_QUOTA;
        let (bucket, now) = (Bucket::default(), Instant::now());
        for rate in [Rate::new(most, most), Rate::new(1, most), Rate::new(most, 1)].into_iter().flatten() {
            // No sum overflows.
            let _ = bucket.charge(rate, most, now);
        }
    }
}
