//! The store as one node sees it: slow, failing before or after a call takes effect, and unreachable for a while.

use std::{sync::Arc, time::Duration};

use threadline_core::ThreadKey;
use threadline_store::{Append, Appended, Claimed, DynStore, Head, StoreError, StoreResult};
use tokio::time::sleep;

use crate::{
    planted::{self, Design},
    through::{Call, Pass},
    world::World,
};

/// Access of one node to the store that all nodes share.
pub struct Way {
    pub node: usize,
    pub world: Arc<World>,
}

/// Fate of a call.
struct Fate {
    before: Duration,
    after: Duration,
    done: bool,
    answered: bool,
}

impl Way {
    fn fate(&self) -> Fate {
        let weather = self.world.weather();
        let mut node = self.world.node(self.node);
        let slow = node.slow || node.rng.chance(weather.slow);
        let most = if slow { 1_000 } else { 4 };
        let time = |most| Duration::from_millis(most);
        let (before, after) = (node.rng.between(0, most), node.rng.between(0, most));
        let done = !node.cut_off && !node.rng.chance(weather.fails_before);
        let answered = done && !node.rng.chance(weather.fails_after);
        Fate { before: time(before), after: time(after), done, answered }
    }
}

impl Pass for Way {
    async fn pass<T: Send>(&self, call: Call<'_>, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        let fate = self.fate();
        sleep(fate.before).await;
        let result = if fate.done { Some(work.await) } else { None };
        sleep(fate.after).await;
        self.world.call(self.node, call, fate.done, fate.answered);
        match result {
            Some(result) if fate.answered => result,
            _ => Err(StoreError::Unavailable("it is out of reach".into())),
        }
    }

    async fn append<'a>(&'a self, store: &'a DynStore, batch: &'a [Append]) -> StoreResult<Vec<Option<Appended>>> {
        match self.world.design {
            Design::AcksBeforeCommit if self.world.node(self.node).rng.chance(3) => {
                planted::only_say(store, batch).await
            }
            Design::NoFenceCheck => planted::with_any_fence(store, batch).await,
            _ => store.append(batch).await,
        }
    }

    async fn claim_due<'a>(&'a self, store: &'a DynStore, limit: usize) -> StoreResult<Claimed> {
        if self.world.design == Design::NoReaper {
            return Ok(Claimed::default());
        }
        store.claim_due(limit).await
    }

    async fn heads<'a>(&'a self, store: &'a DynStore, keys: &'a [ThreadKey]) -> StoreResult<Vec<Head>> {
        let heads = store.heads(keys).await?;
        if self.world.design == Design::StaleHeads {
            return Ok(self.world.first_heads(self.node, heads));
        }
        Ok(heads)
    }
}
