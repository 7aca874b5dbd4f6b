//! Lineage of the memory store. Its history is lost only where a test says so.

use std::mem;

use async_trait::async_trait;
use threadline_core::{AuditEntry, DEFAULT_PROJECT, Epoch, Generation, ProjectId, Timestamp};

use super::{MemoryStore, State};
use crate::{GenerationRecord, Lineage, LineageCause, LineageFence, LineageStore, StoreResult};

/// All data of a memory store as of one moment.
#[derive(Debug, Clone)]
pub struct MemoryImage(State);

impl State {
    pub(super) fn new(at: Timestamp) -> Self {
        let first = GenerationRecord { generation: Generation::FIRST, at, cause: "created".to_owned() };
        Self {
            generations: vec![first],
            lineage: Lineage { generation: Generation::FIRST, nonce: nonce() },
            last_key: 0,
            ids: Default::default(),
            threads: Default::default(),
            feeds: Default::default(),
            agents: Default::default(),
            agent_origins: Default::default(),
            staged: Default::default(),
            trash: Default::default(),
            holds: Default::default(),
            deleted_requests: Default::default(),
            identity: Default::default(),
            nodes: Default::default(),
            jobs: Default::default(),
            usage: Default::default(),
            kv: Default::default(),
            streams: Default::default(),
            staged_streams: Default::default(),
        }
    }

    /// Opens a generation above `known`.
    fn open_generation(&mut self, known: Generation, cause: LineageCause, at: Timestamp) {
        let generation = Generation(self.lineage.generation.max(known).0 + 1);
        self.lineage = Lineage { generation, nonce: nonce() };
        self.generations.push(GenerationRecord { generation, at, cause: cause.name().to_owned() });
        self.identity.forget_tickets();
        let facts = format!(r#"{{"generation":{generation},"cause":"{}"}}"#, cause.name());
        if let Ok(project) = ProjectId::new(DEFAULT_PROJECT) {
            let (actor, action) = ("store".to_owned(), "lineage.changed".to_owned());
            self.identity.record(AuditEntry { project, at, actor, action, facts });
        }
        self.last_key = self.last_key.max(generation.key_floor());
    }
}

fn nonce() -> i64 {
    Epoch::generate().to_i64()
}

impl MemoryStore {
    /// The data as of now.
    pub fn image(&self) -> MemoryImage {
        MemoryImage(self.state().clone())
    }

    /// Loses every commit after the image, as the failover to a standby that lags does.
    pub fn go_back(&self, image: &MemoryImage) {
        let known = {
            let state = &mut *self.state();
            let known = mem::replace(state, image.0.clone()).lineage.generation;
            state.open_generation(known, LineageCause::Timeline, self.clock.now());
            known
        };
        tracing::debug!(%known, "the memory store has lost commits");
        self.fence.close(LineageCause::Timeline);
    }
}

#[async_trait]
impl LineageStore for MemoryStore {
    fn lineage(&self) -> &LineageFence {
        &self.fence
    }

    async fn adopt(&self, cause: LineageCause) -> StoreResult<Lineage> {
        let state = &mut *self.state();
        let known = self.fence.generation();
        let served = !state.nodes.is_empty();
        if (cause == LineageCause::Ordered && served)
            || (cause != LineageCause::Ordered && state.lineage.generation <= known)
        {
            state.open_generation(known, cause, self.clock.now());
        }
        Ok(state.lineage)
    }

    async fn generations(&self, limit: usize) -> StoreResult<Vec<GenerationRecord>> {
        Ok(self.state().generations.iter().rev().take(limit).cloned().collect())
    }
}
