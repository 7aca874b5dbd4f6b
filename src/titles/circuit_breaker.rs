//! Pause for an endpoint that fails repeatedly.

use std::sync::{Mutex, PoisonError};

use threadline_core::limits::{NAMING_FAILURES, NAMING_REST};
use tokio::time::Instant;

/// Failures of an endpoint.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker(Mutex<EndpointState>);

#[derive(Debug, Default)]
struct EndpointState {
    /// Number of consecutive failures.
    failures: u32,
    until: Option<Instant>,
}

impl CircuitBreaker {
    /// True if the endpoint must not be asked now.
    pub fn rests(&self) -> bool {
        self.known().until.is_some_and(|until| Instant::now() < until)
    }

    /// Records an answer, which resets the failures.
    pub fn answered(&self) {
        *self.known() = EndpointState::default();
    }

    /// Records a failure; true if the pause starts.
    pub fn failed(&self) -> bool {
        let mut known = self.known();
        known.failures += 1;
        let tired = known.failures >= NAMING_FAILURES;
        if tired {
            // After the pause a single failure starts it again.
            known.until = Some(Instant::now() + NAMING_REST);
        }
        tired
    }

    fn known(&self) -> std::sync::MutexGuard<'_, EndpointState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_rests_after_failures_in_a_row() {
        let endpoint = CircuitBreaker::default();
        for _ in 1..NAMING_FAILURES {
            assert!(!endpoint.failed() && !endpoint.rests());
        }
        endpoint.answered();
        for _ in 1..NAMING_FAILURES {
            assert!(!endpoint.failed());
        }
        assert!(endpoint.failed() && endpoint.rests());
        tokio::time::advance(NAMING_REST).await;
        assert!(!endpoint.rests());
        assert!(endpoint.failed() && endpoint.rests(), "once is enough now");
        tokio::time::advance(NAMING_REST).await;
        endpoint.answered();
        assert!(!endpoint.failed() && !endpoint.rests());
    }
}
