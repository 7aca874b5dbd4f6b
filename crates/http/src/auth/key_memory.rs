//! Keys, as the store has them: read with most requests, changed rarely.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use moka::sync::Cache;
use threadline_core::{
    ApiKey, Digest, KeyId, ProjectId,
    limits::{KEY_MEMORY, MAX_KEYS_REMEMBERED},
};
use threadline_store::{DynStore, StoreError, StoreResult};
use tokio::time::Instant;

/// Answer of the store, or the knowledge that it has no such key.
#[derive(Debug, Clone)]
struct Remembered {
    key: Option<ApiKey>,
    /// Time of the answer, or of the last attempt at another.
    at: Instant,
}

/// Keys by their digests and by their ids. Changes made on other nodes appear after [`KEY_MEMORY`]; while the store is
/// unavailable, the last known state stays in force. Cheap to clone.
#[derive(Clone)]
pub(super) struct KeyMemory {
    store: DynStore,
    by_digest: Cache<Digest, Remembered>,
    by_id: Cache<(ProjectId, KeyId), Remembered>,
    /// Counts before and after all is forgotten: an answer from before is not remembered, and nothing old is after.
    forgotten: Arc<AtomicU64>,
}

impl KeyMemory {
    pub(super) fn new(store: DynStore) -> Self {
        let (by_digest, by_id) = (Cache::new(MAX_KEYS_REMEMBERED), Cache::new(MAX_KEYS_REMEMBERED));
        Self { store, by_digest, by_id, forgotten: Arc::default() }
    }

    /// Number that grows with each change made on this node, at last once the change is in effect.
    pub(super) fn changes(&self) -> u64 {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Forgets all keys, since some have changed on this node.
    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.by_digest.invalidate_all();
        self.by_id.invalidate_all();
        self.forgotten.fetch_add(1, Ordering::SeqCst);
    }

    /// The key of this digest, valid or not.
    pub(super) async fn by_digest(&self, digest: Digest) -> StoreResult<Option<ApiKey>> {
        let store = self.store.clone();
        self.find(&self.by_digest, digest, async move { store.key(&digest).await }).await
    }

    /// The key of this digest, if it is in memory.
    pub(super) fn remembered(&self, digest: &Digest) -> Option<ApiKey> {
        self.by_digest.get(digest)?.key
    }

    /// The key of this id, valid or not.
    pub(super) async fn by_id(&self, project: &ProjectId, id: &KeyId) -> StoreResult<Option<ApiKey>> {
        let (store, name) = (self.store.clone(), (project.clone(), id.clone()));
        let read = {
            let (project, id) = name.clone();
            async move { store.key_named(&project, &id).await }
        };
        self.find(&self.by_id, name, read).await
    }

    async fn find<K: Hash + Eq + Clone + Send + Sync + 'static>(
        &self,
        cache: &Cache<K, Remembered>,
        name: K,
        read: impl Future<Output = StoreResult<Option<ApiKey>>> + Send + 'static,
    ) -> StoreResult<Option<ApiKey>> {
        let (known, now) = (cache.get(&name), Instant::now());
        if let Some(known) = &known {
            if now.duration_since(known.at) <= KEY_MEMORY {
                return Ok(known.key.clone());
            }
            // Concurrent callers go on with what is known while this one asks.
            cache.insert(name.clone(), Remembered { at: now, ..known.clone() });
        }
        let (cache, forgotten) = (cache.clone(), self.forgotten.clone());
        let before = forgotten.load(Ordering::SeqCst);
        // A task of its own: a caller that hangs up must not keep an old answer in use.
        let asked = tokio::spawn(async move {
            let found = read.await;
            if let Ok(key) = &found
                && forgotten.load(Ordering::SeqCst) == before
            {
                cache.insert(name, Remembered { key: key.clone(), at: Instant::now() });
            }
            found
        });
        let found = asked.await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        match (found, known) {
            (Err(error), Some(known)) => {
                tracing::warn!(%error, "cannot check a key; using its last known state");
                Ok(known.key)
            }
            (found, _) => found,
        }
    }
}
