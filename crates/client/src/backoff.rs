//! Retry policy: a small, pure state machine, used by readers and producers alike.
//!
//! ```text
//!            failed(retryable)                   failed(not retryable)
//!   attempt n ───────────────► wait, attempt n+1 ──────────────────────► give up
//!       ▲                          │
//!       └──────── progress ────────┘   (attempt 0)
//! ```
//!
//! The wait is drawn evenly from `0 ..= min(max, base * 2^n)` (full jitter), so that the many clients of a server that
//! restarts do not reconnect at one moment. If the server names a wait, the jitter is added to it.

use std::time::Duration;

use super::ClientError;

/// Bounds of the wait between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Upper bound of the first wait; doubles with every failure in a row.
    pub base: Duration,
    /// Upper bound of every wait.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(250), max: Duration::from_secs(10) }
    }
}

/// Reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Retry after this time.
    RetryAfter(Duration),
    /// Give up, because another try cannot help.
    GiveUp,
}

/// Counts failures in a row and decides about a retry after each.
#[derive(Debug, Clone)]
pub struct Retry {
    backoff: Backoff,
    failures: u32,
}

impl Retry {
    /// Makes a counter without failures.
    pub fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0 }
    }

    /// Resets the counter: the next failure is the first again.
    pub fn progress(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure and decides about a retry. `chance` must be drawn from `0.0 ..= 1.0`.
    pub fn failed(&mut self, error: &ClientError, chance: f64) -> Decision {
        if !error.is_retryable() {
            return Decision::GiveUp;
        }
        let Backoff { base, max } = self.backoff;
        // The product of 2^20 and any sensible base is beyond any sensible max.
        let bound = base.saturating_mul(1 << self.failures.min(20)).min(max);
        self.failures = self.failures.saturating_add(1);
        let jitter = bound.mul_f64(chance.clamp(0.0, 1.0));
        Decision::RetryAfter(error.retry_after().unwrap_or_default() + jitter)
    }
}

/// Random number from `0.0 ..= 1.0`.
pub(super) fn chance() -> f64 {
    // Without randomness the waits are merely not spread, which is no reason to fail.
    let number = getrandom::u32().unwrap_or(u32::MAX);
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Problem;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn lost() -> ClientError {
        ClientError::Transport { url: String::new(), cause: String::new() }
    }

    fn closed(code: u16, retry_after: Option<Duration>) -> ClientError {
        ClientError::Closed { code, reason: String::new(), retry_after }
    }

    fn problem(slug: &str, status: u16, retryable: bool) -> ClientError {
        let members = json!({"slug": slug, "status": status, "retryable": retryable});
        Problem::from_members(members.as_object().cloned().unwrap_or_default(), status).into()
    }

    #[test]
    fn waits_double_up_to_the_bound_and_progress_starts_over() {
        let mut retry = Retry::new(Backoff { base: MS(100), max: MS(1_000) });
        for bound in [100, 200, 400, 800, 1_000, 1_000] {
            assert_eq!(retry.failed(&lost(), 1.0), Decision::RetryAfter(MS(bound)));
        }
        retry.progress();
        assert_eq!(retry.failed(&lost(), 0.5), Decision::RetryAfter(MS(50)));
        assert_eq!(retry.failed(&lost(), 0.0), Decision::RetryAfter(MS(0)));
        retry.failures = u32::MAX;
        assert_eq!(retry.failed(&lost(), 1.0), Decision::RetryAfter(MS(1_000)));
    }

    #[test]
    fn a_wait_that_the_server_names_is_kept_and_spread() {
        let mut retry = Retry::new(Backoff { base: MS(100), max: MS(1_000) });
        let draining = closed(4000, Some(MS(500)));
        assert_eq!(retry.failed(&draining, 0.0), Decision::RetryAfter(MS(500)));
        assert_eq!(retry.failed(&draining, 1.0), Decision::RetryAfter(MS(700)));
    }

    #[test]
    fn which_failures_are_worth_another_try() {
        let table = [
            (lost(), true),
            (ClientError::Unreachable { url: String::new(), cause: String::new() }, true),
            (ClientError::OutOfStep(String::new()), true),
            (ClientError::Protocol(String::new()), false),
            (ClientError::Config(String::new()), false),
            (closed(4000, None), true),
            (closed(4001, None), true),
            (closed(4008, None), true),
            (closed(4499, None), true),
            (closed(4500, None), false),
            (closed(4501, None), false),
            (closed(4509, None), false),
            (closed(4510, None), false),
            (closed(4999, None), false),
            (closed(1000, None), true),
            (closed(1001, None), true),
            (closed(1006, None), true),
            (closed(1008, None), false),
            (closed(1009, None), false),
            (closed(1011, None), true),
            (closed(1012, None), true),
            (problem("thread-not-found", 404, false), false),
            (problem("log-replaced", 410, false), false),
            (problem("cursor-ahead", 416, false), false),
            (problem("unauthorized", 401, false), false),
            (problem("store-unavailable", 503, true), true),
            (problem("draining", 503, true), true),
            (problem("rate-limited", 429, true), true),
        ];
        for (error, again) in table {
            let decision = Retry::new(Backoff::default()).failed(&error, 0.0);
            assert_eq!(decision != Decision::GiveUp, again, "{error:?}");
        }
    }

    #[test]
    fn chances_lie_between_zero_and_one() {
        assert!((0..100).map(|_| chance()).all(|chance| (0.0..=1.0).contains(&chance)));
    }
}
