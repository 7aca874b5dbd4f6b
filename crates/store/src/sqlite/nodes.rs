//! Processes that have had the data directory open, and their beats.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::{SqliteConnection, query};
use threadline_core::{Node, Timestamp, limits::NODE_BEAT};

use super::{
    SqliteStore,
    fetch::{self, Work},
    leases,
    rows::{self, text_of},
};
use crate::{Beat, NewBeat, NodeStore, StoreResult, sql::nodes};

pub(super) const BEAT: &str = text_of(include_str!("../../queries/sqlite/beat.sql"));
const NODES: &str = "SELECT ?1, id, name, version, started_at, beat, at, leaving, skew_ms, rtt_us, step_ms FROM nodes ORDER BY at DESC, id LIMIT ?2";
const FORGET: &str = "DELETE FROM nodes WHERE at <= ?1";

/// The lock of the data directory proves that all other processes have ended.
const OTHERS_ENDED: &str = "UPDATE nodes SET leaving = 1 WHERE leaving = 0 AND id <> ?1";

async fn put(connection: &mut SqliteConnection, beat: NewBeat, now: Timestamp) -> Work<Beat> {
    let node = beat.node.to_string();
    let statement = query(BEAT)
        .bind(now.0)
        .bind(&node)
        .bind(beat.name)
        .bind(beat.version)
        .bind(beat.leaving)
        .bind(beat.skew_ms)
        .bind(beat.rtt_us)
        .bind(beat.step_ms);
    let beat = nodes::beat(&fetch::rows(connection, statement).await?)?;
    if beat.number == 1 {
        fetch::run(connection, query(OTHERS_ENDED).bind(&node)).await?;
    }
    Ok(beat)
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn put_beat(&self, beat: &NewBeat) -> StoreResult<Beat> {
        // A node is as sound as the pages that it has read, not as those that a beat writes.
        self.inner.soundness.check()?;
        let (beat, clock) = (beat.clone(), self.inner.clock.clone());
        // The time is read once the writing connection is there: a beat may wait for it. No other write comes between the commit
        // and the anchor.
        let node = beat.node;
        let put = self.write(move |connection| {
            Box::pin(async move {
                fetch::run(connection, query("BEGIN IMMEDIATE")).await?;
                let (wall, reading) = leases::follow(connection, &clock).await?;
                let committed = put(connection, beat, wall).await?;
                fetch::run(connection, query("COMMIT")).await?;
                clock.anchor(wall, reading);
                Ok(committed)
            })
        });
        let committed = put.await?;
        self.witness(node, committed.number).await;
        Ok(committed)
    }

    async fn nodes(&self, limit: usize) -> StoreResult<(Timestamp, Vec<Node>)> {
        let now = self.inner.clock.now().0;
        nodes::nodes(&self.read_rows(query(NODES).bind(now).bind(rows::limit(limit))).await?)
    }

    async fn forget_nodes(&self, age: Duration) -> StoreResult<()> {
        let before = self.inner.clock.now().minus(age).0;
        self.transact(move |connection| {
            Box::pin(async move { fetch::run(connection, query(FORGET).bind(before)).await })
        })
        .await
    }

    fn beat_interval(&self) -> Duration {
        // Half as often as on a server that many nodes share: no other process watches the beats.
        2 * NODE_BEAT
    }
}
