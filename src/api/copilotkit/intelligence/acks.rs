//! The end of a run is acknowledged to its runner before clients see it.
//!
//! A client may send its next message the moment it sees RUN_FINISHED. A runtime whose runner has not got its
//! acknowledgement by then takes the thread for busy and refuses. Both happen after the commit, on different sockets; on
//! one node the order between them is kept here. Through another node the client's way is the longer one anyway.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::watch, time};

use crate::domain::{ProjectId, RunId, ThreadId, limits::ACK_FIRST};

type Name = (ProjectId, ThreadId, RunId);
type Waiting = HashMap<Name, watch::Sender<()>>;

/// Ends of runs that were not acknowledged yet. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Acks(Arc<Mutex<Waiting>>);

/// An acknowledgement that is to come. Dropped, it was given.
pub struct Held {
    acks: Acks,
    name: Name,
}

impl Acks {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds back the end of this run.
    pub fn hold(&self, project: &ProjectId, thread: &ThreadId, run: &RunId) -> Held {
        let name = (project.clone(), thread.clone(), run.clone());
        self.waiting().insert(name.clone(), watch::Sender::new(()));
        Held { acks: self.clone(), name }
    }

    /// Returns when the end of this run may be seen: at once if nobody holds it back, and soon in any case.
    pub async fn given(&self, project: &ProjectId, thread: &ThreadId, run: &RunId) {
        let waiting = {
            let waiting = self.waiting();
            if waiting.is_empty() {
                return;
            }
            waiting.get(&(project.clone(), thread.clone(), run.clone())).map(watch::Sender::subscribe)
        };
        if let Some(mut waiting) = waiting {
            // A runner that does not take its answer is not to keep others from the end.
            let _ = time::timeout(ACK_FIRST, async { while waiting.changed().await.is_ok() {} }).await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.acks.waiting().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_end_waits_for_its_acknowledgement_but_not_for_ever() {
        let acks = Acks::default();
        let (project, thread) = (ProjectId::new("p").expect("id"), ThreadId::new("t").expect("id"));
        let run = RunId::new("r").expect("id");
        let begun = time::Instant::now();
        acks.given(&project, &thread, &run).await;
        let held = acks.hold(&project, &thread, &run);
        acks.given(&project, &thread, &RunId::new("s").expect("id")).await;
        assert_eq!(begun.elapsed().as_millis(), 0);
        acks.given(&project, &thread, &run).await;
        assert_eq!(begun.elapsed(), ACK_FIRST);
        let waits = acks.given(&project, &thread, &run);
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(held);
        waits.await;
        assert_eq!(begun.elapsed(), ACK_FIRST);
        assert!(acks.waiting().is_empty());
    }
}
