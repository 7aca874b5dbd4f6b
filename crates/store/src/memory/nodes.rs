//! Nodes of the memory store.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{Node, Timestamp, limits::NODE_BEAT};

use super::MemoryStore;
use crate::{Beat, NewBeat, NodeStore, StoreResult};

#[async_trait]
impl NodeStore for MemoryStore {
    async fn put_beat(&self, beat: &NewBeat) -> StoreResult<Beat> {
        let at = self.clock.now();
        let state = &mut *self.state();
        let NewBeat { node, name, version, leaving, skew_ms, rtt_us, step_ms } = beat.clone();
        let before = state.nodes.get(&node).map(|node| (node.beat, node.started_at, node.leaving));
        let (number, started_at, left) = before.map_or((1, at, false), |(beat, at, left)| (beat + 1, at, left));
        let leaving = leaving || left;
        let version = version.to_owned();
        let row = Node { id: node, name, version, started_at, beat: number, at, leaving, skew_ms, rtt_us, step_ms };
        state.nodes.insert(node, row);
        Ok(Beat { number, at, generation: state.lineage.generation })
    }

    async fn nodes(&self, limit: usize) -> StoreResult<(Timestamp, Vec<Node>)> {
        let mut nodes: Vec<_> = self.state().nodes.values().cloned().collect();
        nodes.sort_by_key(|node| (std::cmp::Reverse(node.at), node.id));
        nodes.truncate(limit);
        Ok((self.clock.now(), nodes))
    }

    async fn forget_nodes(&self, age: Duration) -> StoreResult<()> {
        let before = self.clock.now().minus(age);
        self.state().nodes.retain(|_, node| node.at > before);
        Ok(())
    }

    fn beat_interval(&self) -> Duration {
        NODE_BEAT
    }
}
