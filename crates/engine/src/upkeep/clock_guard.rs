//! The guard of what cannot be undone: retention trusts the store's clock only while nothing speaks against it.

use std::{fmt, sync::Arc, time::Duration};

use threadline_core::{
    Clock, NodeId,
    limits::{CLOCK_STEP_HOLD, MAX_LISTED_NODES, MAX_RETENTION_SKEW},
};
use threadline_store::{DynStore, JobKind, JobSubject, PutJob, StoreError};

use crate::{
    metrics::Metrics,
    nodes::{NodeState, steps::Steps},
    store_status::{ComparedClock, compare_clock},
};

/// Dependencies of the guard.
pub(crate) struct ClockGuard {
    pub store: DynStore,
    /// Clock of this machine, which is compared with the store's.
    pub machine: Clock,
    pub metrics: Metrics,
    pub node: NodeId,
    pub steps: Arc<Steps>,
}

/// Reason not to trust the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Too few live nodes have a clock that agrees with the store's.
    Skew { agree: usize, live: usize, skew_ms: i64 },
    /// The store's clock was set, and retention waits for this time.
    Step(Duration),
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skew { agree, live, skew_ms } => write!(
                f,
                "the clocks of only {agree} of {live} nodes are within {} s of the store's, which is {skew_ms} ms ahead of this node's; \
                 synchronize them (NTP)",
                MAX_RETENTION_SKEW.as_secs()
            ),
            Self::Step(left) => write!(
                f,
                "the store's clock was set, or no node was running for a day; {} min left",
                left.as_secs() / 60
            ),
        }
    }
}

fn agrees(skew_ms: i64) -> bool {
    u128::from(skew_ms.unsigned_abs()) <= MAX_RETENTION_SKEW.as_millis()
}

impl ClockGuard {
    /// The doubt about the store's clock at this moment, if there is one. A majority of the live nodes has to agree with the
    /// store's clock, this node among them by a measurement of now.
    pub async fn doubt(&self) -> Result<Option<Doubt>, StoreError> {
        let ComparedClock { skew_ms, step_ms } = compare_clock(self.store.as_ref(), &self.machine).await?;
        self.metrics.skewed(skew_ms);
        self.steps.look_back().await?;
        let (now, nodes) = self.store.nodes(MAX_LISTED_NODES).await?;
        let others = nodes.iter().filter(|node| node.id != self.node && NodeState::of(node, now) == NodeState::Live);
        let (mut agree, mut live) = (usize::from(agrees(skew_ms)), 1);
        // A node that has just been started knows its skew with its second beat.
        for skew in others.filter_map(|node| node.skew_ms) {
            live += 1;
            agree += usize::from(agrees(skew));
        }
        if 2 * agree <= live {
            return Ok(Some(Doubt::Skew { agree, live, skew_ms }));
        }
        // A step that this node has not noticed yet, or does not believe in.
        if !agrees(step_ms) {
            return Ok(Some(Doubt::Step(CLOCK_STEP_HOLD)));
        }
        let left = self.store.job_due(JobKind::ClockStep, &JobSubject::Store).await?.unwrap_or_default();
        if left > CLOCK_STEP_HOLD {
            // The clock went back since: no step is put for longer.
            self.store.put_job(JobKind::ClockStep, &JobSubject::Store, CLOCK_STEP_HOLD, PutJob::Anew).await?;
        }
        Ok((!left.is_zero()).then(|| Doubt::Step(left.min(CLOCK_STEP_HOLD))))
    }
}
