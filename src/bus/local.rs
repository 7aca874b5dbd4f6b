//! The bus inside one process: of one node, which hears nothing, or of several that share it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::{Bus, BusEnd, Channel, Heard, Hint};
use crate::domain::limits::BUS_QUEUE;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct LocalBus {
    members: Arc<Mutex<Vec<Arc<Member>>>>,
}

#[derive(Debug)]
struct Member {
    heard: mpsc::Sender<Heard>,
    /// Something did not fit into the queue and has not been made up for.
    missed: AtomicBool,
}

impl Member {
    fn hear(&self, hint: Hint) {
        let news = if self.missed.load(Ordering::Acquire) { Heard::Resync } else { Heard::Hint(hint) };
        // A resync that does not fit either is owed to the next hint; until then the recheck finds what is new.
        self.missed.store(self.heard.try_send(news).is_err(), Ordering::Release);
    }
}

/// A node's end.
#[derive(Debug)]
struct End {
    bus: LocalBus,
    own: Arc<Member>,
}

impl LocalBus {
    /// One more node. It hears what the others tell, of all channels, until its end is dropped.
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

    // Everything is heard anyway: what nobody follows costs one look into the hub.
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
