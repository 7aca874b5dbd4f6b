//! Sign-outs, uses of keys, origins of agents, and the audit for readers that follow it.

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, AuditEntry, Cutoff, CutoffKind, Digest, KeyId, KeyUse, ProjectId, Timestamp};

use super::{
    Tables,
    identity::{KEY_NAMED, audit, keys},
};
use crate::{
    CredentialStore, StoreResult,
    sql::{columns::Columns, corrupt, limit, pages::each},
};

/// Notes a use only if it is later than the noted one: nodes note in any order.
pub(crate) const NOTE_USE: &str = "\
    UPDATE api_keys SET last_used_at = $3, last_used_from = $4
    WHERE project = $1 AND id = $2 AND (last_used_at IS NULL OR last_used_at < $3) RETURNING id";
pub(crate) const PUT_CUTOFF: &str = "\
    INSERT INTO cutoffs (project, kind, subject, not_before, at, actor) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project, kind, subject)
    DO UPDATE SET not_before = excluded.not_before, at = excluded.at, actor = excluded.actor
    WHERE cutoffs.not_before < excluded.not_before RETURNING kind";
pub(crate) const CUTOFFS: &str =
    "SELECT project, kind, subject, not_before, at, actor FROM cutoffs WHERE at >= $1 ORDER BY at";
pub(crate) const FORGET_CUTOFFS: &str = "DELETE FROM cutoffs WHERE at < $1 RETURNING kind";
pub(crate) const AUDIT_AFTER: &str = "\
    SELECT number, project, at, actor, action, facts FROM audit
    WHERE project = $1 AND number > $2 ORDER BY number LIMIT $3";
/// Looks at a bounded number of entries, the oldest: their numbers grow nearly as their times do.
pub(crate) const FORGET_AUDIT: &str = "\
    DELETE FROM audit WHERE number IN (
      SELECT number FROM (SELECT number, at FROM audit WHERE project = $1 ORDER BY number LIMIT $3) AS oldest WHERE at < $2
    ) RETURNING number";
pub(crate) const AGENT_ORIGIN: &str = "SELECT origin FROM agent_origins WHERE project = $1 AND id = $2";
pub(crate) const PUT_AGENT_ORIGIN: &str = "\
    INSERT INTO agent_origins (project, id, origin) VALUES ($1, $2, $3)
    ON CONFLICT (project, id) DO UPDATE SET origin = excluded.origin
    WHERE agent_origins.origin = $4 RETURNING id";

#[async_trait]
impl<S: Tables> CredentialStore for S {
    async fn key_named(&self, project: &ProjectId, id: &KeyId) -> StoreResult<Option<ApiKey>> {
        let values = vec![project.as_str().into(), id.as_str().into()];
        Ok(keys(&self.found(KEY_NAMED, values).await?)?.pop())
    }

    async fn note_uses(&self, uses: &[(ProjectId, KeyId, KeyUse)]) -> StoreResult<()> {
        for (project, id, KeyUse { at, from }) in uses {
            let values = vec![project.as_str().into(), id.as_str().into(), at.0.into(), from.clone().into()];
            self.changed(NOTE_USE, values).await?;
        }
        Ok(())
    }

    async fn put_cutoff(&self, cutoff: &Cutoff, entry: Option<&AuditEntry>) -> StoreResult<()> {
        let Cutoff { project, kind, subject, not_before, at, actor } = cutoff;
        let values = vec![
            project.as_str().into(),
            kind.as_str().into(),
            (&subject.0).into(),
            not_before.0.into(),
            at.0.into(),
            S::kept(actor).into(),
        ];
        self.recorded(PUT_CUTOFF, values, entry).await.map(drop)
    }

    async fn cutoffs(&self, since: Timestamp) -> StoreResult<Vec<Cutoff>> {
        let rows = self.found(CUTOFFS, vec![since.0.into()]).await?;
        each(&rows, |columns| {
            let project = columns.id(ProjectId::new)?;
            let kind = CutoffKind::named(&columns.text()?).ok_or_else(|| corrupt("a cutoff of an unknown kind"))?;
            let subject = columns.bytes()?.try_into().map_err(|_| corrupt("a digest that is none"))?;
            let (not_before, at, actor) = (columns.time()?, columns.time()?, columns.text()?);
            Ok(Cutoff { project, kind, subject: Digest(subject), not_before, at, actor })
        })
    }

    async fn forget_cutoffs(&self, before: Timestamp) -> StoreResult<()> {
        self.changed(FORGET_CUTOFFS, vec![before.0.into()]).await.map(drop)
    }

    async fn audit_after(&self, project: &ProjectId, after: i64, most: usize) -> StoreResult<Vec<(i64, AuditEntry)>> {
        audit(&self.found(AUDIT_AFTER, vec![project.as_str().into(), after.into(), limit(most).into()]).await?)
    }

    async fn forget_audit(&self, project: &ProjectId, before: Timestamp, most: usize) -> StoreResult<bool> {
        let values = vec![project.as_str().into(), before.0.into(), limit(most).into()];
        Ok(self.changed(FORGET_AUDIT, values).await?.len() >= most)
    }

    async fn agent_origin(&self, project: &ProjectId, id: &AgentId) -> StoreResult<Option<String>> {
        let rows = self.found(AGENT_ORIGIN, vec![project.as_str().into(), id.as_str().into()]).await?;
        rows.first().map(|row| Columns::new(row).text()).transpose()
    }

    async fn put_agent_origin(
        &self,
        project: &ProjectId,
        id: &AgentId,
        origin: &str,
        seen: Option<&str>,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<bool> {
        // No origin is empty.
        let seen = seen.unwrap_or_default();
        let values = vec![project.as_str().into(), id.as_str().into(), origin.into(), seen.into()];
        Ok(!self.recorded(PUT_AGENT_ORIGIN, values, entry).await?.is_empty())
    }
}
