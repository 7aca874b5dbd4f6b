//! Beats of this node: at each interval the node commits a row to the store. Only a node that can do so is ready, so
//! readiness is a write that has succeeded and not a read that suggests one. The answer also has the store's time.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use threadline_core::{
    Clock, Generation, Node, NodeId, Timestamp,
    limits::{
        CLOCK_ERROR, DRIVER_TTL, MAX_LISTED_NODES, NODE_BEAT_TIMEOUT, NODE_RETENTION, NODE_TTL, READY_BEAT_AGE,
        READY_TIMEOUT, TIMER_DELAY,
    },
};
use threadline_store::{Beat, DynStore, LineageCause, NewBeat, StoreError};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use crate::{cluster::witness::WitnessedBeat, lifecycle::Lifecycle, metrics::Metrics, store_status::StoreState};

/// Beats in a row after which a node that was not ready is ready again: one may be the last of a store that fails.
const RECOVERY: u32 = 2;

/// Longest pause between two acknowledged beats of a node that judges others: at the end of a longer one, the store may have
/// answered nobody.
const BEAT_PAUSE: Duration = Duration::from_millis(DRIVER_TTL.as_millis() as u64 / 2);

/// Longest beat whose answer is compared with this node's clock: the error of the skew is half of it.
const MEASURABLE: Duration = Duration::from_millis(2 * CLOCK_ERROR.as_millis() as u64);

pub(crate) mod steps;

/// Latest beats of this node, and what they prove about the store.
pub(crate) struct NodeBeats {
    store: DynStore,
    clock: Clock,
    metrics: Metrics,
    lifecycle: Lifecycle,
    node: NodeId,
    name: String,
    /// Last beat that the store has acknowledged: its generation, its number and its time.
    acknowledged: Mutex<Option<(Generation, u64, Timestamp)>>,
    pulse: watch::Sender<Pulse>,
    steps: Arc<steps::Steps>,
}

/// State of a node by its last beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// The last beat is recent.
    Live,
    /// The last beat is recent, and the node is shutting down.
    Leaving,
    /// The node has shut down.
    Ended,
    /// There is no recent beat, and the node did not shut down.
    Lost,
}

impl NodeState {
    pub(crate) fn of(node: &Node, now: Timestamp) -> Self {
        // A beat from the future: the store's clock was set back, so the age of the beat is unknown.
        let age = Duration::from_millis(now.0.abs_diff(node.at.0));
        match (node.leaving, age < NODE_TTL) {
            (false, true) => Self::Live,
            (true, true) => Self::Leaving,
            (true, false) => Self::Ended,
            (false, false) => Self::Lost,
        }
    }

    /// Stable name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Leaving => "leaving",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

/// Nodes of the installation with their states, those with the newest beats first.
pub(crate) async fn listed(store: &DynStore) -> Result<Vec<(Node, NodeState)>, StoreError> {
    let (now, nodes) = store.nodes(MAX_LISTED_NODES).await?;
    let stated = |node: Node| {
        let state = NodeState::of(&node, now);
        (node, state)
    };
    Ok(nodes.into_iter().map(stated).collect())
}

/// Latest beat, as a figure for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeatMeasure {
    /// Time that the commit took.
    pub took: Duration,
    /// Milliseconds by which the store's clock is ahead of this node's; `None` until a beat was fast enough to tell.
    pub skew_ms: Option<i64>,
}

/// Result of the beats so far.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    /// Time at which the store acknowledged the last beat.
    acknowledged: Option<Instant>,
    measure: Option<BeatMeasure>,
    /// Acknowledged beats since the last failure, none of them late.
    in_a_row: u32,
    /// Time of the first of the latest beats between which there was no pause that could make another node look lost.
    in_time_since: Option<Instant>,
    /// Reason of the last failure since the node was ready.
    failure: Option<StoreState>,
    /// True from the loss of the store until enough beats in a row are acknowledged.
    lost: bool,
}

impl Pulse {
    const NEW: Self =
        Self { acknowledged: None, measure: None, in_a_row: 0, in_time_since: None, failure: None, lost: false };

    /// True if the beats of this node came in time for so long that an old beat of another node is that node's own fault.
    fn may_judge(&self, now: Instant) -> bool {
        self.state(now) == StoreState::Good
            && self.acknowledged.is_some_and(|at| now.duration_since(at) <= BEAT_PAUSE)
            && self.in_time_since.is_some_and(|since| now.duration_since(since) >= DRIVER_TTL)
    }

    /// True once a beat has succeeded or failed.
    fn has_result(&self) -> bool {
        self.acknowledged.is_some() || self.failure.is_some()
    }

    /// State of the store at a moment.
    fn state(&self, now: Instant) -> StoreState {
        let Some(at) = self.acknowledged else { return self.failure.unwrap_or(StoreState::Starting) };
        if self.lost || now.duration_since(at) >= READY_BEAT_AGE {
            return self.failure.unwrap_or(StoreState::CommitsNothing);
        }
        StoreState::Good
    }

    /// The store has acknowledged a beat now.
    fn succeed(&mut self, now: Instant, measure: BeatMeasure) {
        let late = self.acknowledged.is_some_and(|at| now.duration_since(at) >= READY_BEAT_AGE);
        if late || (self.acknowledged.is_none() && self.failure.is_some()) {
            (self.lost, self.in_a_row) = (true, 0);
        }
        if self.acknowledged.is_none_or(|at| now.duration_since(at) > BEAT_PAUSE) {
            self.in_time_since = None;
        }
        self.in_time_since.get_or_insert(now);
        self.in_a_row += 1;
        (self.acknowledged, self.measure) = (Some(now), Some(measure));
        if !self.lost || self.in_a_row >= RECOVERY {
            (self.lost, self.failure) = (false, None);
        }
    }

    /// A beat takes long, for this reason. It may be acknowledged nevertheless.
    fn delay(&mut self, why: StoreState) {
        self.failure = Some(why);
    }

    /// The store has refused a beat.
    fn fail(&mut self, why: StoreState) {
        (self.in_a_row, self.in_time_since, self.failure) = (0, None, Some(why));
        // A store that is read-only or damaged refuses the next write as well; one that does not answer may do so in time.
        self.lost |= matches!(why, StoreState::ReadOnly | StoreState::Corrupt | StoreState::LineageChanging);
    }
}

impl NodeBeats {
    pub fn new(
        store: DynStore,
        clock: Clock,
        metrics: Metrics,
        lifecycle: Lifecycle,
        node: NodeId,
        name: String,
        steps: Arc<steps::Steps>,
    ) -> Self {
        Self {
            store,
            clock,
            metrics,
            lifecycle,
            node,
            name,
            acknowledged: Mutex::default(),
            pulse: watch::Sender::new(Pulse::NEW),
            steps,
        }
    }

    /// State of the store, as the latest beats prove it. Right after the start, waits for the result of the first beat,
    /// for [`READY_TIMEOUT`] at most.
    pub async fn state(&self) -> StoreState {
        let mut pulse = self.pulse.subscribe();
        // After the timeout the state is `Starting`. The sender lives as long as `self`.
        let _ = time::timeout(READY_TIMEOUT, pulse.wait_for(Pulse::has_result)).await;
        pulse.borrow().state(Instant::now())
    }

    /// True if an old beat of another node proves that the node is lost: this node's own beats came in time for as long.
    pub fn may_judge(&self) -> bool {
        self.pulse.borrow().may_judge(Instant::now())
    }

    /// Latest beat that the store has acknowledged.
    pub fn measure(&self) -> Option<BeatMeasure> {
        self.pulse.borrow().measure
    }

    /// The latest acknowledged beat, for the witness; `None` while the history of the store is another one.
    pub fn witnessed(&self) -> Option<WitnessedBeat> {
        let acknowledged = *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let (lineage, (generation, number, at)) = (self.store.lineage().pass().ok()?, acknowledged?);
        (lineage.generation == generation).then_some(WitnessedBeat { lineage, node: self.node, number, at })
    }

    /// Nodes of the installation, those with the newest beats first.
    pub async fn list(&self) -> Result<Vec<(Node, NodeState)>, StoreError> {
        listed(&self.store).await
    }

    /// Notes the result of a beat, and logs a change of the node's readiness.
    fn note(&self, change: impl FnOnce(&mut Pulse, Instant)) {
        let now = Instant::now();
        let before = self.pulse.borrow().state(now);
        self.pulse.send_modify(|pulse| change(pulse, now));
        let after = self.pulse.borrow().state(now);
        match after {
            _ if before == after => {}
            StoreState::Good => tracing::info!("the store commits: the node is ready"),
            why => tracing::warn!(why = why.name(), "the store did not commit a beat: the node is not ready"),
        }
    }

    /// Commits a beat and waits for its end, however long that takes: there is never a second one in progress. Returns
    /// its number, or nothing if it failed. `late` is true if the timer of the node fired late.
    async fn beat(&self, late: bool) -> Option<u64> {
        let last = self.measure();
        let new = NewBeat {
            node: self.node,
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            leaving: self.lifecycle.leaving.is_cancelled(),
            skew_ms: last.and_then(|measure| measure.skew_ms),
            rtt_us: last.and_then(|measure| i64::try_from(measure.took.as_micros()).ok()),
            step_ms: self.steps.seen(),
        };
        let (begun, before, asked) = (Instant::now(), self.clock.now().0, self.store.clock().steady());
        let store = self.store.clone();
        let mut pending = tokio::spawn(async move { store.put_beat(&new).await });
        let mut cause = None;
        let done = match time::timeout(NODE_BEAT_TIMEOUT, &mut pending).await {
            Ok(done) => done,
            Err(_) => {
                let why = *cause.insert(self.diagnose().await);
                tracing::debug!(why = why.name(), "the store has not committed a beat in time");
                self.note(|pulse, _| pulse.delay(why));
                pending.await
            }
        };
        let done = done.unwrap_or_else(|error| Err(StoreError::Unavailable(format!("a beat was cut short: {error}"))));
        match done {
            Ok(Beat { number, at, generation }) => {
                self.compare(number, generation, at);
                let (took, answered) = (begun.elapsed(), self.store.clock().steady());
                if answered.since(asked) < MEASURABLE {
                    self.steps.note(steps::Sample { at, reading: asked.middle(answered), late });
                }
                let middle = before + self.clock.now().0.saturating_sub(before) / 2;
                let skew = (took < MEASURABLE).then(|| at.0.saturating_sub(middle));
                let measure = BeatMeasure { took, skew_ms: skew.or(last.and_then(|measure| measure.skew_ms)) };
                if let Some(skew) = skew {
                    self.metrics.skewed(skew);
                }
                self.note(|pulse, now| pulse.succeed(now, measure));
                Some(number)
            }
            Err(error) => {
                let why = match (&error, cause) {
                    (StoreError::Corrupt(_) | StoreError::Damaged { .. }, _) => StoreState::Corrupt,
                    (StoreError::Unavailable(_) | StoreError::Fenced(_), Some(why)) => why,
                    (StoreError::Unavailable(_) | StoreError::Fenced(_), None) => self.diagnose().await,
                };
                tracing::debug!(%error, why = why.name(), "the store refused a beat");
                self.note(|pulse, _| pulse.fail(why));
                None
            }
        }
    }

    /// Compares a beat with the history that is known: the store may be in another generation, or have lost a beat that it
    /// had acknowledged.
    fn compare(&self, number: u64, generation: Generation, at: Timestamp) {
        let fence = self.store.lineage();
        let mut acknowledged = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let before = acknowledged.replace((generation, number, at));
        match before {
            Some((then, before, _)) if then == generation && number <= before => {
                tracing::error!(number, before, "the store has lost a beat of this node");
                fence.close(LineageCause::RolledBack);
            }
            Some((then, before, _)) if then != generation => {
                // Each beat that is missing is one interval whose commits may be missing as well.
                let lost = u32::try_from((before + 1).saturating_sub(number)).unwrap_or(u32::MAX);
                let window = self.store.beat_interval().saturating_mul(lost);
                self.metrics.lineage.lost(window);
                tracing::error!(%generation, loss_window_ms = window.as_millis(), "commits of this period before the lineage changed may be lost");
            }
            _ => {}
        }
        if generation != fence.generation() {
            fence.close(LineageCause::Adopted);
        }
        self.metrics.lineage.entered(generation.0);
    }

    /// Finds out why a beat is not committed.
    async fn diagnose(&self) -> StoreState {
        if let Some(cause) = self.store.lineage().state().cause() {
            return match cause {
                LineageCause::Standby => StoreState::ReadOnly,
                _ => StoreState::LineageChanging,
            };
        }
        match time::timeout(READY_TIMEOUT, self.store.status()).await {
            Ok(Ok(status)) if status.read_only => StoreState::ReadOnly,
            Ok(Ok(_)) => StoreState::CommitsNothing,
            Ok(Err(_)) | Err(_) => StoreState::Unreachable,
        }
    }

    /// Removes the rows of nodes that ended long ago, without delaying a beat. Their beats are looked at before.
    fn forget_old(&self) {
        let (store, steps) = (self.store.clone(), self.steps.clone());
        tokio::spawn(async move {
            let looked = steps.look_back().await;
            let forgotten = if looked.is_ok() { store.forget_nodes(NODE_RETENTION).await } else { looked };
            if let Err(error) = forgotten {
                tracing::debug!(%error, "cannot remove the rows of nodes that ended long ago; the next start tries again");
            }
        });
    }
}

/// Loop of beats. The last one says that the node is leaving.
pub(crate) async fn run(beats: Arc<NodeBeats>) {
    let mut tick = time::interval(beats.store.beat_interval());
    tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let (leaving, stopping) = (beats.lifecycle.leaving.clone(), beats.lifecycle.stopping.clone());
    let (mut hurried, mut announced) = (false, false);
    while !stopping.is_cancelled() {
        let waiting = beats.store.clock().steady();
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            () = leaving.cancelled(), if !hurried => hurried = true,
            _ = tick.tick() => {}
        }
        let last = leaving.is_cancelled();
        let waited = beats.store.clock().steady().since(waiting);
        let late = waited > beats.store.beat_interval() + TIMER_DELAY;
        tokio::select! {
            number = beats.beat(late) => {
                if number == Some(1) {
                    beats.forget_old();
                }
                announced = last && number.is_some();
            }
            () = stopping.cancelled() => {}
        }
    }
    if !announced {
        // Other nodes count this one as lost otherwise. A beat that was interrupted is not waited for.
        let _ = time::timeout(NODE_BEAT_TIMEOUT, beats.beat(false)).await;
    }
}

#[cfg(test)]
mod tests;
