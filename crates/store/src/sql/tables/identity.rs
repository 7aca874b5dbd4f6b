//! Authentication, and administration of projects: settings, API keys, tickets and the audit. Among concurrent callers,
//! on any node, the lock of the row decides which one succeeds.

use async_trait::async_trait;
use threadline_core::{
    ApiKey, AuditEntry, Born, Digest, KeyId, KeyUse, ProjectId, Scope, Scopes, Timestamp, limits::TICKET_SWEEP,
};

use super::Tables;
use crate::{
    IdentityStore, StoreResult, StoredProject,
    credentials::log_entry,
    sql::{
        columns::{Cells, Columns},
        corrupt, limit,
        pages::each,
        secrets::{Secrets, is_sealed, of_project},
    },
};

const PROJECTS: &str = "SELECT id, version, settings, secrets FROM projects ORDER BY id";
const MAKE_PROJECT: &str = "\
    INSERT INTO projects (id, version, settings, secrets) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING id";
pub(crate) const CHANGE_PROJECT: &str = "\
    UPDATE projects SET version = $2, settings = $3, secrets = $4 WHERE id = $1 AND version + 1 = $2 RETURNING id";
/// Inserts no row if the digest or the id is taken; waits for a transaction that takes it at this moment.
const PUT_KEY: &str = "\
    INSERT INTO api_keys (digest, project, id, scopes, created_at, expires_at, revoked_at, born, made_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING id";
pub(crate) const KEY: &str = "\
    SELECT project, id, scopes, created_at, expires_at, revoked_at, born, made_by, last_used_at, last_used_from
    FROM api_keys WHERE digest = $1";
pub(crate) const KEY_NAMED: &str = "\
    SELECT project, id, scopes, created_at, expires_at, revoked_at, born, made_by, last_used_at, last_used_from
    FROM api_keys WHERE project = $1 AND id = $2";
pub(crate) const KEYS: &str = "\
    SELECT project, id, scopes, created_at, expires_at, revoked_at, born, made_by, last_used_at, last_used_from
    FROM api_keys WHERE project = $1 ORDER BY id";
pub(crate) const ALL_KEYS: &str = "\
    SELECT digest, project, id, scopes, created_at, expires_at, revoked_at, born, made_by, last_used_at, last_used_from
    FROM api_keys ORDER BY project, id";
pub(crate) const REVOKE: &str = "\
    UPDATE api_keys SET revoked_at = $3 WHERE project = $1 AND id = $2 AND revoked_at IS NULL
    RETURNING project, id, scopes, created_at, expires_at, revoked_at, born, made_by, last_used_at, last_used_from";
pub(crate) const TAKE_TICKET: &str =
    "DELETE FROM socket_tickets WHERE digest = $1 RETURNING CASE WHEN until > $2 THEN bearer END";
pub(crate) const RECORD: &str = "INSERT INTO audit (project, at, actor, action, facts) VALUES ($1, $2, $3, $4, $5)";
pub(crate) const AUDIT: &str = "\
    SELECT number, project, at, actor, action, facts FROM audit
    WHERE project = $1 AND number < $2 ORDER BY number DESC LIMIT $3";

#[async_trait]
impl<S: Tables> IdentityStore for S {
    async fn projects(&self) -> StoreResult<Vec<StoredProject>> {
        projects(&self.found(PROJECTS, Vec::new()).await?, self.secrets())
    }

    async fn put_project(&self, project: &StoredProject, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let text = if project.version == 1 { MAKE_PROJECT } else { CHANGE_PROJECT };
        let StoredProject { id, version, settings, secrets, .. } = project;
        let secrets = secrets.as_ref().ok_or_else(|| corrupt("a project without its secrets"))?;
        let sealed = self.secrets().seal(of_project(id.as_str()), secrets)?;
        let values = vec![id.as_str().into(), (*version).into(), settings.as_str().into(), sealed.into()];
        Ok(!self.recorded(text, values, entry).await?.is_empty())
    }

    async fn put_key(&self, key: &ApiKey, digest: &Digest, entry: Option<&AuditEntry>) -> StoreResult<bool> {
        let values = vec![
            (&digest.0).into(),
            key.project.as_str().into(),
            key.id.as_str().into(),
            key.scopes.to_string().into(),
            key.created_at.0.into(),
            key.expires_at.map(|at| at.0).into(),
            key.revoked_at.map(|at| at.0).into(),
            key.born.as_str().into(),
            key.made_by.as_ref().map(ToString::to_string).into(),
        ];
        Ok(!self.recorded(PUT_KEY, values, entry).await?.is_empty())
    }

    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>> {
        Ok(keys(&self.found(KEY, vec![(&digest.0).into()]).await?)?.pop())
    }

    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>> {
        keys(&self.found(KEYS, vec![project.as_str().into()]).await?)
    }

    async fn revoke_key(
        &self,
        project: &ProjectId,
        id: &KeyId,
        at: Timestamp,
        entry: Option<&AuditEntry>,
    ) -> StoreResult<Option<ApiKey>> {
        let values = vec![project.as_str().into(), id.as_str().into(), at.0.into()];
        match keys(&self.recorded(REVOKE, values, entry).await?)?.pop() {
            Some(revoked) => Ok(Some(revoked)),
            None => Ok(self.keys(project).await?.into_iter().find(|key| key.id == *id)),
        }
    }

    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()> {
        let values = vec![(&digest.0).into(), bearer.into(), until.0.into(), now.0.into(), limit(TICKET_SWEEP).into()];
        self.changed(S::STATEMENTS.put_ticket, values).await.map(drop)
    }

    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool> {
        let values = vec![now.0.into(), limit(TICKET_SWEEP).into()];
        Ok(self.changed(S::STATEMENTS.sweep_tickets, values).await?.len() >= TICKET_SWEEP)
    }

    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>> {
        let rows = self.changed(TAKE_TICKET, vec![(&digest.0).into(), now.0.into()]).await?;
        rows.first().map_or(Ok(None), |row| Columns::new(row).maybe_text())
    }

    async fn record(&self, entry: &AuditEntry) -> StoreResult<()> {
        self.changed(RECORD, S::entry(entry)).await?;
        log_entry(entry);
        Ok(())
    }

    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        most: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        let values = vec![project.as_str().into(), before.unwrap_or(i64::MAX).into(), limit(most).into()];
        audit(&self.found(AUDIT, values).await?)
    }
}

/// Scopes by name. A name that only a newer release knows grants nothing here.
fn scopes(names: &str) -> Scopes {
    Scopes::of(&names.split_ascii_whitespace().filter_map(Scope::named).collect::<Vec<_>>())
}

/// Projects: id, version, settings and secrets. Those whose secrets cannot be opened have none.
fn projects<R: Cells>(rows: &[R], secrets: &Secrets) -> StoreResult<Vec<StoredProject>> {
    each(rows, |columns| {
        let (id, version, settings) = (columns.id(ProjectId::new)?, columns.int()?, columns.text()?);
        let stored = columns.text()?;
        let opened = secrets.open(of_project(id.as_str()), &stored).ok();
        Ok(StoredProject { id, version, settings, secrets: opened, sealed: is_sealed(&stored) })
    })
}

fn key<R: Cells>(columns: &mut Columns<'_, R>) -> StoreResult<ApiKey> {
    Ok(ApiKey {
        project: columns.id(ProjectId::new)?,
        id: columns.id(KeyId::new)?,
        scopes: scopes(&columns.text()?),
        created_at: columns.time()?,
        expires_at: columns.maybe_time()?,
        revoked_at: columns.maybe_time()?,
        born: Born::named(&columns.text()?),
        made_by: columns.maybe_id(KeyId::new)?,
        last_used: {
            let (at, from) = (columns.maybe_time()?, columns.maybe_text()?);
            at.map(|at| KeyUse { at, from })
        },
    })
}

/// API keys: the columns of [`key`].
pub(super) fn keys<R: Cells>(rows: &[R]) -> StoreResult<Vec<ApiKey>> {
    each(rows, key)
}

/// API keys with their digests; each row begins with the digest.
pub(crate) fn all_keys<R: Cells>(rows: &[R]) -> StoreResult<Vec<(ApiKey, Digest)>> {
    each(rows, |columns| {
        let digest = columns.bytes()?.try_into().map_err(|_| corrupt("a digest that is none"))?;
        Ok((key(columns)?, Digest(digest)))
    })
}

/// Entries of the audit: number, project, time, actor, action and facts.
pub(super) fn audit<R: Cells>(rows: &[R]) -> StoreResult<Vec<(i64, AuditEntry)>> {
    each(rows, |columns| {
        let number = columns.int()?;
        let entry = AuditEntry {
            project: columns.id(ProjectId::new)?,
            at: columns.time()?,
            actor: columns.text()?,
            action: columns.text()?,
            facts: columns.text()?,
        };
        Ok((number, entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_of_a_newer_release_grants_nothing() {
        assert_eq!(scopes("read fly chat approve"), Scopes::USER);
        assert_eq!(scopes(&Scopes::ALL.to_string()), Scopes::ALL);
        assert_eq!(scopes(""), Scopes::default());
    }
}
