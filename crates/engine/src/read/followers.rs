//! Followers of a thread on all nodes: each node is asked over the bus, and the answers that arrive before the timeout
//! are used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use serde::{Deserialize, Serialize};
use threadline_core::{
    NodeId, Principal, ThreadId, ThreadKey,
    limits::{CENSUS_ANSWERS, CENSUS_WAIT, SHOWN_FOLLOWERS},
};
use threadline_store::DynStore;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

use crate::{
    LookupError,
    cluster::bus::{Channel, DynBus, Hint, Question},
    directory,
    subscription::{Follower, Hub},
};

/// Followers of a thread on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFollowers {
    /// Identity of the node.
    pub node: NodeId,
    /// Followers in order of arrival; at most [`SHOWN_FOLLOWERS`].
    pub followers: Vec<Follower>,
    /// Total number of followers on the node.
    pub count: usize,
}

/// Use case that lists the followers of a thread.
#[derive(Clone)]
pub struct Followers {
    pub(crate) store: DynStore,
    pub(crate) census: Arc<FollowerDirectory>,
}

/// Followers of this node, and its pending questions to the other nodes.
pub(crate) struct FollowerDirectory {
    node: NodeId,
    hub: Arc<Hub>,
    bus: DynBus,
    waiting: DashMap<u64, mpsc::Sender<NodeFollowers>>,
    asked: AtomicU64,
}

/// Pending question of this node; removed when dropped.
struct Asked<'a> {
    census: &'a FollowerDirectory,
    number: u64,
    answers: mpsc::Receiver<NodeFollowers>,
}

impl FollowerDirectory {
    pub fn new(node: NodeId, hub: Arc<Hub>, bus: DynBus) -> Self {
        Self { node, hub, bus, waiting: DashMap::new(), asked: AtomicU64::new(0) }
    }

    fn here(&self, thread: ThreadKey) -> NodeFollowers {
        let (followers, count) = self.hub.followers_of(thread, SHOWN_FOLLOWERS);
        NodeFollowers { node: self.node, followers, count }
    }

    /// Answers the question of another node.
    pub fn answer(&self, question: &Question) {
        let Ok(body) = serde_json::to_string(&self.here(question.thread)) else { return };
        self.bus.tell(Hint::Answer { asker: question.asker, number: question.number, body });
    }

    /// Passes on the answer of another node. An answer without a pending question, or one that does not fit, is
    /// dropped.
    pub fn take(&self, number: u64, body: &str) {
        if let Some(waiting) = self.waiting.get(&number)
            && let Ok(answer) = serde_json::from_str(body)
        {
            let _ = waiting.try_send(answer);
        }
    }

    /// Channels on which this node receives questions and answers.
    pub fn channels(&self) -> [Channel; 2] {
        [Channel::Questions, Channel::Answers(self.node)]
    }

    /// Answers of the other nodes, as far as they arrive within `wait`.
    async fn others(&self, thread: ThreadKey, wait: Duration) -> Vec<NodeFollowers> {
        let mut asked = self.ask();
        let question = Question { thread, asker: self.node, number: asked.number };
        self.bus.tell(Hint::Question(question));
        let until = Instant::now() + wait;
        let mut heard = Vec::new();
        while let Ok(Some(answer)) = time::timeout_at(until, asked.answers.recv()).await {
            // An answer that arrives twice counts once.
            if answer.node != self.node && heard.iter().all(|known: &NodeFollowers| known.node != answer.node) {
                heard.push(answer);
            }
        }
        heard
    }

    fn ask(&self) -> Asked<'_> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let (sender, answers) = mpsc::channel(CENSUS_ANSWERS);
        self.waiting.insert(number, sender);
        Asked { census: self, number, answers }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.census.waiting.remove(&self.number);
    }
}

impl Followers {
    /// Lists the followers of a thread: this node first, then the other nodes that answer within [`CENSUS_WAIT`].
    pub async fn list(&self, principal: &Principal, thread: &ThreadId) -> Result<Vec<NodeFollowers>, LookupError> {
        // Reads the store, not the cache: a deleted thread must not be found.
        let found = directory::read(&self.store, principal, thread).await?;
        let mut nodes = vec![self.census.here(found.key)];
        if self.census.bus.has_others() {
            nodes.extend(self.census.others(found.key, CENSUS_WAIT).await);
            nodes[1..].sort_by_key(|others| others.node);
        }
        Ok(nodes)
    }
}
