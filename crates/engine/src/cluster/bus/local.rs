//! The bus inside one process: for one node, which receives nothing, or for several nodes that share the bus.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use threadline_core::limits::BUS_QUEUE;
use tokio::sync::mpsc;

use super::{Bus, BusEnd, BusMessage, Channel, Hint};

/// Bus for one process. The clones share their members.
#[derive(Debug, Clone, Default)]
pub struct LocalBus {
    members: Arc<Mutex<Vec<Arc<Member>>>>,
}

#[derive(Debug)]
struct Member {
    heard: mpsc::Sender<BusMessage>,
    /// True while a hint that did not fit into the queue has not been followed by a resync.
    missed: AtomicBool,
}

impl Member {
    fn hear(&self, hint: Hint) {
        let news = if self.missed.load(Ordering::Acquire) { BusMessage::Resync } else { BusMessage::Hint(hint) };
        // A resync that does not fit either is sent with the next hint; until then the recheck finds what is new.
        self.missed.store(self.heard.try_send(news).is_err(), Ordering::Release);
    }
}

/// Handle of one node: the node's own hints do not reach its own queue.
#[derive(Debug)]
struct End {
    bus: LocalBus,
    own: Arc<Member>,
}

impl LocalBus {
    /// Adds a node. The node receives what the others send, on all channels, until its end is dropped.
    pub fn join(&self) -> BusEnd {
        let (sender, heard) = mpsc::channel(BUS_QUEUE);
        let own = Arc::new(Member { heard: sender, missed: AtomicBool::new(false) });
        self.members().push(own.clone());
        BusEnd { bus: Arc::new(End { bus: self.clone(), own }), heard }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Bus for End {
    fn tell(&self, hint: Hint) {
        for member in self.bus.members().iter().filter(|member| !Arc::ptr_eq(member, &self.own)) {
            member.hear(hint.clone());
        }
    }

    // All channels are received in any case: a hint of a channel without followers costs one lookup in the hub.
    fn listen(&self, _: Channel) {}
    fn ignore(&self, _: &Channel) {}

    fn has_others(&self) -> bool {
        self.bus.members().len() > 1
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.bus.members().retain(|member| !Arc::ptr_eq(member, &self.own));
    }
}
