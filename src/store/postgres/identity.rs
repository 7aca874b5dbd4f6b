//! Who is let in, and what goes away.

use async_trait::async_trait;

use super::PgStore;
use crate::{
    domain::{ApiKey, AuditEntry, Digest, Footprint, KeyId, ProjectId, ThreadKey, Timestamp, UserId},
    store::{ErasureStore, IdentityStore, IdlePage, StoreError, StoreResult, StoredProject},
};

fn later<T>() -> StoreResult<T> {
    Err(StoreError::Unavailable("later".into()))
}

#[async_trait]
impl IdentityStore for PgStore {
    async fn projects(&self) -> StoreResult<Vec<StoredProject>> {
        later()
    }
    async fn put_project(&self, _project: &StoredProject) -> StoreResult<bool> {
        later()
    }
    async fn put_key(&self, _key: &ApiKey, _digest: &Digest) -> StoreResult<bool> {
        later()
    }
    async fn key(&self, _digest: &Digest) -> StoreResult<Option<ApiKey>> {
        later()
    }
    async fn keys(&self, _project: &ProjectId) -> StoreResult<Vec<ApiKey>> {
        later()
    }
    async fn revoke_key(&self, _project: &ProjectId, _id: &KeyId, _at: Timestamp) -> StoreResult<Option<ApiKey>> {
        later()
    }
    async fn put_ticket(&self, _digest: &Digest, _bearer: &str, _until: Timestamp, _now: Timestamp) -> StoreResult<()> {
        later()
    }
    async fn take_ticket(&self, _digest: &Digest, _now: Timestamp) -> StoreResult<Option<String>> {
        later()
    }
    async fn record(&self, _entry: &AuditEntry) -> StoreResult<()> {
        later()
    }
    async fn audit(
        &self,
        _project: &ProjectId,
        _before: Option<i64>,
        _limit: usize,
    ) -> StoreResult<Vec<(i64, AuditEntry)>> {
        later()
    }
}

#[async_trait]
impl ErasureStore for PgStore {
    async fn idle_threads(
        &self,
        _project: &ProjectId,
        _before: Timestamp,
        _after: Option<ThreadKey>,
        _window: usize,
    ) -> StoreResult<IdlePage> {
        later()
    }
    async fn footprint(&self, _project: &ProjectId, _user: &UserId) -> StoreResult<Footprint> {
        later()
    }
    async fn forget_user(&self, _project: &ProjectId, _user: &UserId) -> StoreResult<()> {
        later()
    }
}
