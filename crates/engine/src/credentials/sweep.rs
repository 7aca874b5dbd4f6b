//! Removal of sign-outs that no token can outlive, and of old entries of the audit log.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    DEFAULT_PROJECT, ProjectId, ProjectSettings,
    limits::{AUDIT_SWEEP, ISSUED_AHEAD, MAX_TOKEN_LEEWAY, MAX_TOKEN_SECONDS, RETENTION_FIRST, RETENTION_LOOK},
};
use threadline_store::{DynStore, StoreResult};
use tokio::time;

use crate::{credentials::Cutoffs, lifecycle::Lifecycle, upkeep::clock_guard::ClockGuard};

/// Dependencies of the loop.
pub(crate) struct CredentialSweep {
    pub store: DynStore,
    pub guard: Arc<ClockGuard>,
    pub cutoffs: Arc<Cutoffs>,
    pub lifecycle: Lifecycle,
}

/// Loop of the removals.
pub(crate) async fn run(sweep: Arc<CredentialSweep>) {
    tokio::select! {
        () = time::sleep(RETENTION_FIRST) => {}
        () = sweep.lifecycle.stopped() => return,
    }
    let mut ticks = sweep.lifecycle.every(RETENTION_LOOK);
    while ticks.next().await {
        if let Err(error) = sweep.once().await {
            tracing::warn!(%error, "cannot remove old sign-outs and entries of the audit log; retrying");
        }
    }
}

impl CredentialSweep {
    /// Removes what is old by the store's clock. If there is a doubt about that clock, nothing is removed.
    pub(crate) async fn once(&self) -> StoreResult<()> {
        if self.guard.doubt().await?.is_some() {
            return Ok(());
        }
        let now = self.store.status().await?.now;
        let longest = Duration::from_secs(MAX_TOKEN_SECONDS) + MAX_TOKEN_LEEWAY + ISSUED_AHEAD;
        self.store.forget_cutoffs(now.minus(longest)).await?;
        self.cutoffs.forget(now.minus(longest));
        let mut ages = vec![(ProjectId::new(DEFAULT_PROJECT).ok(), ProjectSettings::default())];
        for project in self.store.projects().await? {
            // Entries of a project whose settings cannot be read stay.
            let Ok(settings) = serde_json::from_str(&project.settings) else { continue };
            ages.retain(|(known, _)| known.as_ref() != Some(&project.id));
            ages.push((Some(project.id), settings));
        }
        for (project, settings) in ages {
            let Some(project) = project else { continue };
            let before = now.minus(settings.audit_age());
            while self.store.forget_audit(&project, before, AUDIT_SWEEP).await? {
                if self.lifecycle.draining.is_cancelled() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
