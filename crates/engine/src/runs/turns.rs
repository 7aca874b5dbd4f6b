//! Turns of runs that the server drives, as far as this node has them in hand.
//!
//! A node holds a turn from before the start is sent to the store until its task ends. A turn that names this node as its
//! driver, and that the node does not hold, has lost its task: the answer of its start was lost, or the task failed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use threadline_core::{NodeId, RunId, ThreadKey};
use tokio::time::Instant;

use crate::nodes::NodeBeats;

/// Time after the last turn was let go during which the node looks for turns of its own without a task: longer than a store
/// takes to commit a start whose answer was lost.
const OWN_LOOKS: Duration = Duration::from_secs(60);

/// Turns in the hands of this node.
pub(crate) struct Turns {
    node: NodeId,
    beats: Arc<NodeBeats>,
    /// Turns that are held, with the number of their holders: two requests may ask for the same start at once.
    held: Mutex<HashMap<(ThreadKey, RunId), usize>>,
    let_go: Mutex<Option<Instant>>,
}

/// A turn in hand. Without its holder, a turn that is still active is claimed again.
pub(crate) struct HeldTurn {
    turns: Arc<Turns>,
    at: (ThreadKey, RunId),
}

impl Turns {
    pub fn new(node: NodeId, beats: Arc<NodeBeats>) -> Self {
        Self { node, beats, held: Mutex::default(), let_go: Mutex::default() }
    }

    /// Identity of this node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Takes a turn in hand.
    pub fn hold(self: &Arc<Self>, key: ThreadKey, run: &RunId) -> HeldTurn {
        let at = (key, run.clone());
        *self.all().entry(at.clone()).or_default() += 1;
        HeldTurn { turns: self.clone(), at }
    }

    /// Takes a turn in hand that nobody holds.
    pub fn hold_alone(self: &Arc<Self>, key: ThreadKey, run: &RunId) -> Option<HeldTurn> {
        let at = (key, run.clone());
        let mut held = self.all();
        if held.contains_key(&at) {
            return None;
        }
        held.insert(at.clone(), 1);
        Some(HeldTurn { turns: self.clone(), at })
    }

    /// Threads of those turns that nobody holds.
    pub fn unheld(&self, turns: Vec<(ThreadKey, RunId)>) -> Vec<ThreadKey> {
        let held = self.all();
        turns.into_iter().filter(|turn| !held.contains_key(turn)).map(|(key, _)| key).collect()
    }

    /// True if old beats of other nodes prove that these are lost.
    pub fn may_judge(&self) -> bool {
        self.beats.may_judge()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(ThreadKey, RunId), usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if turns that name this node may be without a task.
    pub fn looks_for_own(&self) -> bool {
        let let_go = *self.let_go.lock().unwrap_or_else(PoisonError::into_inner);
        let_go.is_some_and(|at| at.elapsed() < OWN_LOOKS)
    }
}

impl Drop for HeldTurn {
    fn drop(&mut self) {
        let mut held = self.turns.all();
        match held.get_mut(&self.at) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => drop(held.remove(&self.at)),
        }
        drop(held);
        *self.turns.let_go.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
