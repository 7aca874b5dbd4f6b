//! Whether this node can do its work: what it stands on is asked, and the answer is good for a moment.

use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{self, Instant},
};

use super::{Service, context::Context};
use crate::{
    domain::{
        ThreadKey,
        limits::{READY_MEMORY, READY_TIMEOUT},
    },
    metrics::{Levels, Metrics},
};

/// Whether this node can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// It is shutting down and takes nothing new.
    pub draining: bool,
    /// The store answers. Without it nothing can be done.
    pub store: bool,
    /// Redis answers; `None` if there is none. Without it the store decides alone.
    pub redis: Option<bool>,
}

impl Readiness {
    /// Whether requests are to be sent here.
    pub fn is_ready(&self) -> bool {
        self.store && !self.draining
    }

    /// Whether anything that is not needed is missing.
    pub fn is_degraded(&self) -> bool {
        self.redis == Some(false)
    }
}

/// What was found last. Whoever asks meanwhile waits for the same answer.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    known: Option<(Instant, bool, Option<bool>)>,
    /// The question that the store has not answered yet: it is asked one at a time.
    asked: Option<JoinHandle<bool>>,
}

impl Found {
    async fn ask_store(&mut self, context: &Context) -> bool {
        let store = context.store.clone();
        // No thread has this key: what counts is that there is an answer.
        let asked =
            self.asked.get_or_insert_with(|| tokio::spawn(async move { store.heads(&[ThreadKey(0)]).await.is_ok() }));
        match time::timeout(READY_TIMEOUT, asked).await {
            Ok(answer) => {
                self.asked = None;
                answer.unwrap_or(false)
            }
            Err(_) => false,
        }
    }
}

impl Service {
    /// Whether this node can do its work, as of a moment ago.
    pub async fn readiness(&self) -> Readiness {
        let mut found = self.context.health.0.lock().await;
        let fresh = found.known.filter(|(at, ..)| at.elapsed() < READY_MEMORY);
        let (_, store, redis) = match fresh {
            Some(known) => known,
            None => {
                let (store, redis) = tokio::join!(found.ask_store(&self.context), self.context.gate.answers());
                *found.known.insert((Instant::now(), store, redis))
            }
        };
        Readiness { draining: self.context.draining.is_cancelled(), store, redis }
    }

    /// What this node counts.
    pub fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }

    /// What is counted, and what is there now, as OpenMetrics text; `connections` is what the listener has open.
    pub async fn measured(&self, connections: usize) -> String {
        let readiness = self.readiness().await;
        for (limit, total) in self.context.quota.limited() {
            self.context.metrics.limited_so_far(limit.as_str(), total);
        }
        self.context.metrics.text(&Levels {
            connections,
            commit_queue: self.context.committer.waiting(),
            topics: self.context.hub.followed_count(),
            store_up: readiness.store,
            redis_up: readiness.redis,
            draining: readiness.draining,
        })
    }
}
