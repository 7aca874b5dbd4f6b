//! Runs and their leases, from start to end.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{
    Epoch, Fence, ProjectId, Run, RunId, ThreadKey, UserId,
    limits::{CLOCK_STEP, PG_RACES, REAP_CLAIM, RECHECK_CHUNK, RELEASE_GRACE, RENEW_CHUNK, STOP_GRACE},
};

use super::{
    PgStore,
    fetch::{Failure, Kind, Statement, Work},
    rows::{self, Columns, text_of},
    start::Look,
};
use crate::{
    ActiveHead, ActiveRuns, Claimed, CloseOutcome, CloseWhen, Closing, HeartbeatRequest, Renewal, Renewed, RunStore,
    StartOutcome, StartRun, StopOutcome, StoreError, StoreResult,
    sql::{pages, turns},
};

pub(super) const BY_ID: &str = text_of(include_str!("../../queries/postgres/run_by_id.sql"));
pub(super) const RUNS: &str = text_of(include_str!("../../queries/postgres/runs.sql"));
pub(super) const HEARTBEAT: &str = text_of(include_str!("../../queries/postgres/heartbeat.sql"));
pub(super) const HEARTBEAT_WAIT: &str = text_of(include_str!("../../queries/postgres/heartbeat_waiting.sql"));
pub(super) const STOP: &str = text_of(include_str!("../../queries/postgres/stop.sql"));
pub(super) const RELEASE: &str = text_of(include_str!("../../queries/postgres/release.sql"));
pub(super) const CLAIM_DUE: &str = text_of(include_str!("../../queries/postgres/claim_due.sql"));
pub(super) const RENEW: &str = text_of(include_str!("../../queries/postgres/renew_leases.sql"));
pub(super) const ACTIVE_RUNS: &str = text_of(include_str!("../../queries/postgres/active_runs.sql"));

impl PgStore {
    async fn runs_of(&self, statement: Statement<'_>) -> StoreResult<Vec<Run>> {
        pages::runs(&self.read_rows(statement).await?)
    }

    /// Heartbeats of different threads, in order of their keys; returns the answers by key.
    async fn beat(&self, text: &'static str, beats: &[HeartbeatRequest]) -> Work<HashMap<ThreadKey, ActiveHead>> {
        let statement = query(text)
            .bind(self.now())
            .bind(beats.iter().map(|beat| beat.key.0).collect::<Vec<_>>())
            .bind(beats.iter().map(|beat| beat.fence.run.0).collect::<Vec<_>>())
            .bind(beats.iter().map(|beat| beat.lease.map(rows::millis)).collect::<Vec<_>>())
            .bind(beats.iter().map(|beat| beat.epoch.map(Epoch::to_i64)).collect::<Vec<_>>())
            .bind(beats.iter().map(|beat| beat.fence.driver.0).collect::<Vec<_>>());
        let mut active = HashMap::new();
        for row in &self.write_once(statement).await? {
            let head = Columns::new(row).head().map_err(|error| Failure { error, kind: Kind::Refused })?;
            if let Some((head, _)) = head {
                active.extend(head.active.map(|lease| (head.key, lease)));
            }
        }
        Ok(active)
    }

    /// Extends the leases whose heads are available at once, then the others one by one, so that no head stays locked
    /// during a wait for another one. Without `patient` the others are left out: a head of an earlier round was not
    /// available.
    async fn beat_all(&self, round: &[HeartbeatRequest], patient: bool) -> Work<Vec<Option<ActiveHead>>> {
        let mut sorted = round.to_vec();
        sorted.sort_unstable_by_key(|beat| beat.key);
        let mut active = self.beat(HEARTBEAT, &sorted).await?;
        sorted.retain(|beat| patient && !active.contains_key(&beat.key));
        for beat in sorted {
            active.extend(self.beat(HEARTBEAT_WAIT, &[beat]).await?);
        }
        Ok(round.iter().map(|beat| active.remove(&beat.key)).collect())
    }
}

#[async_trait]
impl RunStore for PgStore {
    async fn start(&self, mut start: StartRun) -> StoreResult<StartOutcome> {
        turns::seal(&self.inner.secrets, &mut start)?;
        self.start_run(&start).await
    }

    async fn close(&self, key: ThreadKey, closing: Closing, when: CloseWhen) -> StoreResult<CloseOutcome> {
        self.close_run(key, closing, when).await
    }

    async fn heartbeat(&self, beats: &[HeartbeatRequest]) -> StoreResult<Vec<Option<ActiveHead>>> {
        let (mut answers, mut failed) = (Vec::with_capacity(beats.len()), None);
        let mut rest = beats;
        while !rest.is_empty() {
            // A statement changes a row once: a thread named twice takes a second round.
            let mut seen = HashSet::new();
            let size = rest.iter().take(RECHECK_CHUNK).take_while(|beat| seen.insert(beat.key)).count();
            let (round, later) = rest.split_at(size);
            // An unavailable head must not let the leases of the next round expire.
            match self.beat_all(round, failed.is_none()).await {
                Ok(active) => answers.extend(active),
                Err(failure @ Failure { kind: Kind::Broken, .. }) => return Err(failure.into()),
                Err(failure) => failed = Some(failure),
            }
            rest = later;
        }
        failed.map_or(Ok(answers), |failure| Err(failure.into()))
    }

    async fn request_stop(
        &self,
        key: ThreadKey,
        run: &RunId,
        epoch: Option<Epoch>,
        holds: bool,
    ) -> StoreResult<StopOutcome> {
        for _ in 0..PG_RACES {
            let stop = query(STOP)
                .bind(self.now())
                .bind(key.0)
                .bind(run.as_str())
                .bind(rows::millis(STOP_GRACE))
                .bind(epoch.map(Epoch::to_i64))
                .bind(holds);
            let stopped = !self.write(stop).await?.is_empty();
            let Some(Look { head, run, .. }) = self.look(key, run).await? else { return Ok(StopOutcome::Gone) };
            // The stop itself gives the log another epoch if it is the first write in a generation.
            if !stopped && epoch.is_some_and(|epoch| epoch != head.epoch) {
                return Ok(StopOutcome::OtherEpoch(head));
            }
            match run {
                None => return Ok(StopOutcome::NoRun),
                Some(run) if !run.status.is_active() => return Ok(StopOutcome::Ended(run)),
                Some(run) if run.stop_requested_at.is_some() => return Ok(StopOutcome::Asked(run, head)),
                Some(_) => {}
            }
        }
        Err(StoreError::Unavailable("the run could not be asked to stop".to_owned()))
    }

    async fn release(&self, key: ThreadKey, fence: Fence, epoch: Option<Epoch>) -> StoreResult<bool> {
        let release = query(RELEASE)
            .bind(self.now())
            .bind(key.0)
            .bind(fence.0)
            .bind(rows::millis(RELEASE_GRACE))
            .bind(epoch.map(Epoch::to_i64));
        Ok(!self.write(release).await?.is_empty())
    }

    async fn claim_due(&self, limit: usize) -> StoreResult<Claimed> {
        let claim = query(CLAIM_DUE)
            .bind(self.now())
            .bind(rows::millis(STOP_GRACE))
            .bind(rows::millis(REAP_CLAIM))
            .bind(rows::limit(limit))
            .bind(self.bound());
        pages::claimed(&self.write(claim).await?, limit)
    }

    async fn renew_leases(&self, which: Renewal, after: Option<ThreadKey>) -> StoreResult<Renewed> {
        let renew = query(RENEW)
            .bind(self.now())
            .bind(after.map_or(0, |after| after.0))
            .bind(rows::limit(RENEW_CHUNK))
            .bind(which == Renewal::All)
            .bind(rows::millis(CLOCK_STEP))
            .bind(rows::millis(RELEASE_GRACE))
            .bind(rows::millis(STOP_GRACE));
        pages::renewed(&self.write(renew).await?, RENEW_CHUNK)
    }

    async fn active_runs(
        &self,
        project: &ProjectId,
        user: Option<&UserId>,
        bound: ActiveRuns,
    ) -> StoreResult<ActiveRuns> {
        let statement = query(ACTIVE_RUNS)
            .bind(project.as_str())
            .bind(user.map(|user| user.as_str()))
            .bind(rows::to_i64(bound.project))
            .bind(rows::to_i64(bound.user));
        pages::active_runs(&self.read_rows(statement).await?)
    }

    async fn run(&self, key: ThreadKey, run: &RunId) -> StoreResult<Option<Run>> {
        Ok(self.runs_of(query(BY_ID).bind(key.0).bind(run.as_str())).await?.pop())
    }

    async fn runs(&self, key: ThreadKey, before: Option<Fence>, limit: usize) -> StoreResult<Vec<Run>> {
        let before = before.map_or(i64::MAX, |fence| fence.0);
        self.runs_of(query(RUNS).bind(key.0).bind(before).bind(rows::limit(limit))).await
    }
}
