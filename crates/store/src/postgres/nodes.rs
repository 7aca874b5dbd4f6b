//! Nodes and their beats. Beats have a connection of their own: a node whose other connections are all in use is alive.

use std::{sync::atomic::Ordering, time::Duration};

use async_trait::async_trait;
use sqlx::query;
use threadline_core::{Node, Timestamp, limits::NODE_BEAT};

use super::{
    PgStore,
    lineage::Acknowledged,
    pool,
    rows::{self, text_of},
};
use crate::{Beat, NewBeat, NodeStore, StoreResult, sql::nodes};

pub(super) const BEAT: &str = text_of(include_str!("../../queries/postgres/beat.sql"));
const NODES: &str = text_of(include_str!("../../queries/postgres/nodes.sql"));
const FORGET: &str = text_of(include_str!("../../queries/postgres/forget_nodes.sql"));

/// Beats on one connection.
const BEATS_PER_CONNECTION: u64 = 5;

#[async_trait]
impl NodeStore for PgStore {
    async fn put_beat(&self, beat: &NewBeat) -> StoreResult<Beat> {
        let statement = query(BEAT)
            .bind(self.now())
            .bind(beat.node.to_string())
            .bind(rows::text(beat.name.clone()))
            .bind(beat.version)
            .bind(beat.leaving)
            .bind(beat.skew_ms)
            .bind(beat.rtt_us)
            .bind(beat.step_ms);
        // An old server may live on behind an open connection.
        if self.inner.sent_beats.fetch_add(1, Ordering::Relaxed).is_multiple_of(BEATS_PER_CONNECTION) {
            self.inner.beats.renew();
        }
        let committed = nodes::beat(&pool::run(&self.inner.beats, statement).await?)?;
        let Beat { number, generation, .. } = committed;
        self.inner.last_beat.set(Acknowledged { node: beat.node, generation, number });
        Ok(committed)
    }

    async fn nodes(&self, limit: usize) -> StoreResult<(Timestamp, Vec<Node>)> {
        nodes::nodes(&self.read_rows(query(NODES).bind(self.now()).bind(rows::limit(limit))).await?)
    }

    async fn forget_nodes(&self, age: Duration) -> StoreResult<()> {
        self.write(query(FORGET).bind(self.now()).bind(rows::millis(age))).await.map(drop)
    }

    fn beat_interval(&self) -> Duration {
        NODE_BEAT
    }
}
