//! Failovers that lost commits: which answers they may have made void, and nothing else.

use crate::history::{Fault, Loss, Micros, Request};

/// A failover, from when the standby began to lag until all nodes had adopted its history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failover {
    pub(super) loss: Loss,
    pub(super) adopted: Micros,
}

#[derive(Debug, Default)]
pub(super) struct Losses(Vec<Failover>);

impl Losses {
    pub(super) fn of(faults: &[&Fault]) -> Self {
        let failover = |fault: &&Fault| fault.loss.map(|loss| Failover { loss, adopted: fault.end });
        Self(faults.iter().filter_map(failover).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn any(&self, fits: impl Fn(&Failover) -> bool) -> bool {
        self.0.iter().any(fits)
    }

    pub(super) fn count(&self, fits: impl Fn(&Failover) -> bool) -> usize {
        self.0.iter().filter(|failover| fits(failover)).count()
    }

    /// Earliest beginning of a failover that fits.
    pub(super) fn first_since(&self, fits: impl Fn(&Failover) -> bool) -> Option<Micros> {
        self.0.iter().filter(|failover| fits(failover)).map(|failover| failover.loss.since).min()
    }

    /// True if the answer to a request may come from a history that was lost: it came after a standby began to lag, and the
    /// request was sent before the primary was killed.
    pub(super) fn may_void(&self, request: &Request) -> bool {
        self.any(|failover| request.done >= failover.loss.since && request.at <= failover.loss.until)
    }

    /// True if a run that was first asked for at this time may have lost events before the answer to this request.
    pub(super) fn explain(&self, first: Micros, request: &Request) -> bool {
        self.any(|failover| first <= failover.loss.until && failover.loss.until <= request.done)
    }
}
