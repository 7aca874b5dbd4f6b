//! Who follows a thread, on all nodes: each one is asked over the bus, and those that answer in time are heard.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use dashmap::DashMap;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

use super::{ServiceError, context::Context};
use crate::{
    bus::{Channel, Hint, NodeId, Question},
    domain::{
        Principal, ThreadId, ThreadKey,
        limits::{CENSUS_ANSWERS, CENSUS_WAIT, SHOWN_FOLLOWERS},
    },
    subscription::Follower,
};

/// Who follows a thread on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFollowers {
    /// Which node.
    pub node: NodeId,
    /// They, in the order in which they came; at most [`SHOWN_FOLLOWERS`].
    pub followers: Vec<Follower>,
    /// How many there are.
    pub count: usize,
}

/// The use case of looking who follows.
#[derive(Clone)]
pub struct Followers {
    pub(super) context: Context,
}

/// Questions of this node that wait for answers.
#[derive(Default)]
pub(super) struct Census {
    waiting: DashMap<u64, mpsc::Sender<NodeFollowers>>,
    asked: AtomicU64,
}

/// A question of this node; taken back when it is dropped.
struct Asked<'a> {
    census: &'a Census,
    number: u64,
    answers: mpsc::Receiver<NodeFollowers>,
}

impl Census {
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
    /// Who follows a thread: this node first, then the others that answer within [`CENSUS_WAIT`].
    pub async fn list(&self, principal: &Principal, thread: &ThreadId) -> Result<Vec<NodeFollowers>, ServiceError> {
        // As the store has it now: a deleted thread has no followers any more, and is none.
        let found = self.context.store.thread(&principal.project, thread).await?;
        let found = found.filter(|thread| principal.may_access_thread(thread)).ok_or(ServiceError::ThreadNotFound)?;
        let mut nodes = vec![here(&self.context, found.key)];
        if self.context.bus.has_others() {
            nodes.extend(self.ask(found.key, CENSUS_WAIT).await);
            nodes[1..].sort_by_key(|others| others.node);
        }
        Ok(nodes)
    }

    async fn ask(&self, thread: ThreadKey, wait: Duration) -> Vec<NodeFollowers> {
        let mut asked = self.context.census.ask();
        let question = Question { thread, asker: self.context.node, number: asked.number };
        self.context.bus.tell(Hint::Question(question));
        let until = Instant::now() + wait;
        let mut heard = Vec::new();
        while let Ok(Some(answer)) = time::timeout_at(until, asked.answers.recv()).await {
            // One that was told twice counts once.
            if answer.node != self.context.node && heard.iter().all(|known: &NodeFollowers| known.node != answer.node) {
                heard.push(answer);
            }
        }
        heard
    }
}

fn here(context: &Context, thread: ThreadKey) -> NodeFollowers {
    let (followers, count) = context.hub.followers_of(thread, SHOWN_FOLLOWERS);
    NodeFollowers { node: context.node, followers, count }
}

/// Another node asks.
pub(super) fn answer(context: &Context, question: &Question) {
    let Ok(body) = serde_json::to_string(&here(context, question.thread)) else { return };
    context.bus.tell(Hint::Answer { asker: question.asker, number: question.number, body });
}

/// Another node answers. What nobody waits for (any more), or does not fit, is passed over.
pub(super) fn take(context: &Context, number: u64, body: &str) {
    if let Some(waiting) = context.census.waiting.get(&number)
        && let Ok(answer) = serde_json::from_str(body)
    {
        let _ = waiting.try_send(answer);
    }
}

/// What this node has to hear to answer, and to be answered.
pub(super) fn channels(node: NodeId) -> [Channel; 2] {
    [Channel::Questions, Channel::Answers(node)]
}
