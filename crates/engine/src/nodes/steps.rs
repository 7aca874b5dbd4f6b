//! Steps of the store's clock. Each beat compares what the clock shows with what the node expects. A difference of up
//! to a few seconds is followed. A larger one that other nodes see as well is a step: the leases of active runs are
//! renewed before the node believes the new time, so that no run ends because a clock was set. Retention waits for a
//! day after each step.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use serde_json::json;
use threadline_core::{
    AuditEntry, DEFAULT_PROJECT, Node, NodeId, ProjectId, Timestamp,
    limits::{CLOCK_STEP, CLOCK_STEP_HOLD, MAX_BEAT_GAP, MAX_LISTED_NODES, MAX_RETENTION_SKEW, NODE_TTL},
};
use threadline_store::{DynStore, JobKind, JobSubject, PutJob, Renewal, Steady, StoreError};
use tokio::sync::{OnceCell, watch};

use crate::{lifecycle::Lifecycle, metrics::Metrics};

/// Time that the store's clock showed at a moment of this node's steady clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Timestamp,
    pub(super) reading: Steady,
    /// True if the node's own timer was late: the node stood still, and its expectation may be wrong.
    pub(super) late: bool,
}

/// Samples of the beats, and the step that this node tells others about.
pub(crate) struct Steps {
    pub store: DynStore,
    pub metrics: Metrics,
    pub lifecycle: Lifecycle,
    pub node: NodeId,
    samples: watch::Sender<Option<Sample>>,
    /// Step that this node sees, in milliseconds; 0 for none.
    seen: AtomicI64,
    /// Set once the beats from before the start of this node have been looked at.
    looked_back: OnceCell<()>,
}

/// Evidence of other nodes for a step, from their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// At least one of them sees the same step.
    Agree,
    /// No other node is alive.
    Absent,
    /// None of them sees it, or none has said so yet.
    Silent,
}

/// Course of a step at this node.
#[derive(Default)]
struct Course {
    /// True once the leases from before the start of this node have been checked.
    checked: bool,
    /// Reading at which a difference was seen first.
    since: Option<Steady>,
    /// Reading at which the last step was believed.
    believed: Option<Steady>,
}

/// True if a node beat shortly before `now`, or shortly before the time that was expected at `now`.
fn is_alive(node: &Node, now: Timestamp, expected: Timestamp) -> bool {
    let near = |time: Timestamp| u128::from(node.at.0.abs_diff(time.0)) < NODE_TTL.as_millis();
    !node.leaving && (near(now) || near(expected))
}

fn others(me: NodeId, step: i64, now: Timestamp, nodes: &[Node]) -> Others {
    let expected = Timestamp(now.0.saturating_sub(step));
    let mut others = nodes.iter().filter(|node| node.id != me && is_alive(node, now, expected)).peekable();
    if others.peek().is_none() {
        return Others::Absent;
    }
    let same = |other: i64| u128::from(other.abs_diff(step)) <= CLOCK_STEP.as_millis();
    if others.any(|node| node.step_ms.is_some_and(same)) { Others::Agree } else { Others::Silent }
}

/// True if this node has the smallest id of those alive.
fn is_keeper(me: NodeId, step: i64, now: Timestamp, nodes: &[Node]) -> bool {
    let expected = Timestamp(now.0.saturating_sub(step));
    nodes.iter().filter(|node| is_alive(node, now, expected)).all(|node| node.id >= me)
}

impl Steps {
    pub fn new(store: DynStore, metrics: Metrics, lifecycle: Lifecycle, node: NodeId) -> Self {
        Self {
            store,
            metrics,
            lifecycle,
            node,
            samples: watch::Sender::new(None),
            seen: AtomicI64::new(0),
            looked_back: OnceCell::new(),
        }
    }

    /// Takes the sample of a beat.
    pub(super) fn note(&self, sample: Sample) {
        self.samples.send_replace(Some(sample));
    }

    /// Step that this node sees, for its next beat.
    pub(super) fn seen(&self) -> Option<i64> {
        Some(self.seen.load(Ordering::Relaxed)).filter(|step| *step != 0)
    }

    /// Looks, once, at the beats of the nodes before this one. If the newest is more than [`MAX_BEAT_GAP`] old, either no node
    /// was running for that time or the store's clock was set meanwhile.
    pub(crate) async fn look_back(&self) -> Result<(), StoreError> {
        let look = async || {
            let (now, nodes) = self.store.nodes(MAX_LISTED_NODES).await?;
            let newest = nodes.iter().filter(|node| node.id != self.node).map(|node| node.at).max();
            if let Some(newest) = newest.filter(|newest| newest.plus(MAX_BEAT_GAP) < now) {
                tracing::warn!(store = %now, last = %newest, "no node has beaten for more than a day, or the store's clock was set: retention waits for a day");
                self.store.put_job(JobKind::ClockStep, &JobSubject::Store, CLOCK_STEP_HOLD, PutJob::IfAbsent).await?;
            }
            Ok(())
        };
        self.looked_back.get_or_try_init(look).await.copied()
    }

    /// Has retention wait, on all nodes.
    async fn hold(&self) -> Result<(), StoreError> {
        self.store.put_job(JobKind::ClockStep, &JobSubject::Store, CLOCK_STEP_HOLD, PutJob::Anew).await.map(drop)
    }

    async fn take(&self, course: &mut Course, sample: Sample) -> Result<(), StoreError> {
        let clock = self.store.clock();
        let step = sample.at.0.saturating_sub(clock.at(sample.reading).0);
        if u128::from(step.unsigned_abs()) > CLOCK_STEP.as_millis() && !sample.late {
            return self.suspect(course, sample, step).await;
        }
        if u128::from(step.unsigned_abs()) > MAX_RETENTION_SKEW.as_millis() {
            self.hold().await?;
        }
        clock.anchor(sample.at, sample.reading);
        course.since = None;
        if course.believed.is_none_or(|at| sample.reading.since(at) > NODE_TTL) {
            self.seen.store(0, Ordering::Relaxed);
        }
        // A step may have happened before this node was started, or while it stood still.
        if !course.checked || sample.late {
            self.renew(Renewal::Overlong).await?;
            course.checked = true;
        }
        Ok(())
    }

    /// Believes a step that others see as well. If no other node sees it for long, this node's steady clock is wrong.
    async fn suspect(&self, course: &mut Course, sample: Sample, step: i64) -> Result<(), StoreError> {
        let since = *course.since.get_or_insert(sample.reading);
        self.seen.store(step, Ordering::Relaxed);
        let (_, nodes) = self.store.nodes(MAX_LISTED_NODES).await?;
        match others(self.node, step, sample.at, &nodes) {
            Others::Silent if sample.reading.since(since) < 2 * NODE_TTL => return Ok(()),
            Others::Silent => {
                tracing::warn!(ms = step, "no other node sees a step of the store's clock; this node's was wrong");
                self.renew(Renewal::Overlong).await?;
                self.seen.store(0, Ordering::Relaxed);
            }
            Others::Agree | Others::Absent => {
                self.hold().await?;
                let leases = self.renew(Renewal::All).await?;
                self.metrics.clock_steps.inc();
                course.believed = Some(sample.reading);
                tracing::error!(ms = step, leases, "the store's clock was set: leases are renewed");
                if is_keeper(self.node, step, sample.at, &nodes) {
                    self.record(sample.at, step, leases).await;
                }
            }
        }
        self.store.clock().anchor(sample.at, sample.reading);
        course.since = None;
        Ok(())
    }

    /// Renews the leases of all active runs that need it. Returns their number.
    async fn renew(&self, which: Renewal) -> Result<u64, StoreError> {
        let (mut after, mut leases) = (None, 0);
        loop {
            let renewed = self.store.renew_leases(which, after).await?;
            leases += renewed.leases;
            after = renewed.next;
            if after.is_none() {
                return Ok(leases);
            }
        }
    }

    async fn record(&self, at: Timestamp, step: i64, leases: u64) {
        let Ok(project) = ProjectId::new(DEFAULT_PROJECT) else { return };
        let facts = json!({ "stepMs": step, "leases": leases }).to_string();
        let (actor, action) = ("clock".to_owned(), "clock.set".to_owned());
        if let Err(error) = self.store.record(&AuditEntry { project, at, actor, action, facts }).await {
            tracing::warn!(%error, "cannot record in the audit log that the store's clock was set");
        }
    }
}

/// Loop that follows the store's clock.
pub(crate) async fn run(steps: Arc<Steps>) {
    let (mut samples, mut course) = (steps.samples.subscribe(), Course::default());
    let follow = async {
        while samples.changed().await.is_ok() {
            let Some(sample) = *samples.borrow_and_update() else { continue };
            if let Err(error) = steps.take(&mut course, sample).await {
                tracing::debug!(%error, "cannot compare the store's clock with what it was; the next beat tries again");
            }
        }
    };
    tokio::select! {
        () = follow => {}
        () = steps.lifecycle.stopped() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(9_000_000);
    const STEP: i64 = 600_000;

    fn node(id: u64, at: i64, step_ms: Option<i64>) -> Node {
        Node {
            id: NodeId(id),
            name: String::new(),
            version: String::new(),
            started_at: Timestamp(0),
            beat: 1,
            at: Timestamp(at),
            leaving: false,
            skew_ms: None,
            rtt_us: None,
            step_ms,
        }
    }

    #[test]
    fn a_step_is_believed_if_another_node_sees_it_or_none_is_there() {
        let old = NOW.0 - STEP;
        for (other, expected) in [
            (None, Others::Absent),
            (Some(node(2, NOW.0 - 1_000, Some(STEP + 4_000))), Others::Agree),
            // The other node has not beaten since the step, or sees none, or another one.
            (Some(node(2, old - 1_000, None)), Others::Silent),
            (Some(node(2, NOW.0 - 1_000, None)), Others::Silent),
            (Some(node(2, NOW.0 - 1_000, Some(-STEP))), Others::Silent),
            // A node that ended long before, or between the two times.
            (Some(node(2, old - 8_000, Some(STEP))), Others::Absent),
            (Some(node(2, NOW.0 - 8_000, Some(STEP))), Others::Absent),
            (Some(Node { leaving: true, ..node(2, NOW.0, Some(STEP)) }), Others::Absent),
        ] {
            let mut nodes = vec![node(1, NOW.0, None)];
            nodes.extend(other);
            assert_eq!(others(NodeId(1), STEP, NOW, &nodes), expected, "{nodes:?}");
        }
    }

    #[test]
    fn the_smallest_node_alive_records_a_step() {
        let nodes = [node(1, 0, None), node(2, NOW.0 - STEP, Some(STEP)), node(3, NOW.0, None)];
        assert!(is_keeper(NodeId(2), STEP, NOW, &nodes));
        assert!(!is_keeper(NodeId(3), STEP, NOW, &nodes));
    }
}
