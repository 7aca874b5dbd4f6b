//! Authentication, and administration of projects. Among concurrent callers, on any node, the lock of the row decides
//! which one succeeds.

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{ApiKey, AuditEntry, Digest, KeyId, ProjectId, Timestamp, limits::TICKET_SWEEP};

use super::{
    PgStore,
    rows::{self, Columns, text_of},
};
use crate::{IdentityStore, StoreResult, StoredProject, sql::identity};

const MAKE_PROJECT: &str = "\
    INSERT INTO projects (id, version, settings, secrets) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING id";
pub(super) const CHANGE_PROJECT: &str = "\
    UPDATE projects SET version = $2, settings = $3, secrets = $4 WHERE id = $1 AND version + 1 = $2 RETURNING id";
/// Inserts no row if the digest or the id is taken; waits for a transaction that takes it at this moment.
const PUT_KEY: &str = "\
    INSERT INTO api_keys (digest, project, id, scopes, created_at, expires_at, revoked_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id";
pub(super) const KEY: &str =
    "SELECT project, id, scopes, created_at, expires_at, revoked_at FROM api_keys WHERE digest = $1";
pub(super) const KEYS: &str =
    "SELECT project, id, scopes, created_at, expires_at, revoked_at FROM api_keys WHERE project = $1 ORDER BY id";
pub(super) const REVOKE: &str = "\
    UPDATE api_keys SET revoked_at = coalesce(revoked_at, $3) WHERE project = $1 AND id = $2
    RETURNING project, id, scopes, created_at, expires_at, revoked_at";
pub(super) const PUT_TICKET: &str = text_of(include_str!("../../queries/postgres/put_ticket.sql"));
pub(super) const SWEEP_TICKETS: &str = text_of(include_str!("../../queries/postgres/sweep_tickets.sql"));
pub(super) const TAKE_TICKET: &str =
    "DELETE FROM socket_tickets WHERE digest = $1 RETURNING CASE WHEN until > $2 THEN bearer END";
const RECORD: &str = "INSERT INTO audit (project, at, actor, action, facts) VALUES ($1, $2, $3, $4, $5)";
pub(super) const AUDIT: &str = "\
    SELECT number, project, at, actor, action, facts FROM audit
    WHERE project = $1 AND number < $2 ORDER BY number DESC LIMIT $3";

pub(super) const ALL_KEYS: &str =
    "SELECT digest, project, id, scopes, created_at, expires_at, revoked_at FROM api_keys ORDER BY project, id";

#[async_trait]
impl IdentityStore for PgStore {
    async fn projects(&self) -> StoreResult<Vec<StoredProject>> {
        let all = query("SELECT id, version, settings, secrets FROM projects ORDER BY id");
        identity::projects(&self.read_rows(all).await?)
    }

    async fn put_project(&self, project: &StoredProject) -> StoreResult<bool> {
        let put = query(if project.version == 1 { MAKE_PROJECT } else { CHANGE_PROJECT })
            .bind(project.id.as_str())
            .bind(project.version)
            .bind(&project.settings)
            .bind(&project.secrets);
        Ok(!self.write(put).await?.is_empty())
    }

    async fn put_key(&self, key: &ApiKey, digest: &Digest) -> StoreResult<bool> {
        let put = query(PUT_KEY)
            .bind(&digest.0[..])
            .bind(key.project.as_str())
            .bind(key.id.as_str())
            .bind(key.scopes.to_string())
            .bind(key.created_at.0)
            .bind(key.expires_at.map(|at| at.0))
            .bind(key.revoked_at.map(|at| at.0));
        Ok(!self.write(put).await?.is_empty())
    }

    async fn key(&self, digest: &Digest) -> StoreResult<Option<ApiKey>> {
        Ok(identity::keys(&self.read_rows(query(KEY).bind(&digest.0[..])).await?)?.pop())
    }

    async fn keys(&self, project: &ProjectId) -> StoreResult<Vec<ApiKey>> {
        identity::keys(&self.read_rows(query(KEYS).bind(project.as_str())).await?)
    }

    async fn revoke_key(&self, project: &ProjectId, id: &KeyId, at: Timestamp) -> StoreResult<Option<ApiKey>> {
        let revoke = query(REVOKE).bind(project.as_str()).bind(id.as_str()).bind(at.0);
        Ok(identity::keys(&self.write(revoke).await?)?.pop())
    }

    async fn put_ticket(&self, digest: &Digest, bearer: &str, until: Timestamp, now: Timestamp) -> StoreResult<()> {
        let put = query(PUT_TICKET)
            .bind(&digest.0[..])
            .bind(bearer)
            .bind(until.0)
            .bind(now.0)
            .bind(rows::limit(TICKET_SWEEP));
        self.write(put).await.map(drop)
    }

    async fn sweep_tickets(&self, now: Timestamp) -> StoreResult<bool> {
        let sweep = query(SWEEP_TICKETS).bind(now.0).bind(rows::limit(TICKET_SWEEP));
        Ok(self.write(sweep).await?.len() >= TICKET_SWEEP)
    }

    async fn take_ticket(&self, digest: &Digest, now: Timestamp) -> StoreResult<Option<String>> {
        let rows = self.write(query(TAKE_TICKET).bind(&digest.0[..]).bind(now.0)).await?;
        rows.first().map_or(Ok(None), |row| Columns::new(row).maybe_text())
    }

    async fn record(&self, entry: &AuditEntry) -> StoreResult<()> {
        let record = query(RECORD)
            .bind(entry.project.as_str())
            .bind(entry.at.0)
            .bind(rows::text(entry.actor.clone()))
            .bind(rows::text(entry.action.clone()))
            .bind(rows::text(entry.facts.clone()));
        self.write(record).await.map(drop)
    }

    async fn audit(
        &self,
        project: &ProjectId,
        before: Option<i64>,
        limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        let page = query(AUDIT).bind(project.as_str()).bind(before.unwrap_or(i64::MAX)).bind(rows::limit(limit));
        identity::audit(&self.read_rows(page).await?)
    }
}
