//! Order of a run's end: the runner receives its acknowledgement before clients see the end.
//!
//! A client may send its next message the moment it sees RUN_FINISHED. A runtime whose runner has not received its
//! acknowledgement by then considers the thread busy and refuses. Both follow the commit, on different sockets. On one
//! node this module keeps their order; through another node the event takes longer to the client anyway.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use threadline_core::{Principal, ProjectId, RunId, ThreadId, UserId, limits::ACK_FIRST};
use tokio::{sync::watch, time};

/// Run of a thread, whose owner both sides act for: two users may have threads of one id.
pub(super) type RunName = (ProjectId, Option<UserId>, ThreadId, RunId);
type Waiting = HashMap<RunName, watch::Sender<()>>;

/// Ends of runs that are not acknowledged yet. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Acks(Arc<Mutex<Waiting>>);

/// Pending acknowledgement. Dropping it means that the acknowledgement was sent.
pub struct UnackedFrame {
    acks: Acks,
    name: RunName,
}

pub(super) fn run_name(owner: &Principal, thread: &ThreadId, run: &RunId) -> RunName {
    (owner.project.clone(), owner.user.clone(), thread.clone(), run.clone())
}

impl Acks {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Withholds the end of this run from clients until the result is dropped.
    pub fn hold(&self, owner: &Principal, thread: &ThreadId, run: &RunId) -> UnackedFrame {
        let name = run_name(owner, thread, run);
        self.waiting().insert(name.clone(), watch::Sender::new(()));
        UnackedFrame { acks: self.clone(), name }
    }

    /// Waits until the end of this run may be sent to clients: no longer than [`ACK_FIRST`], and not at all if no
    /// runner waits for an acknowledgement.
    pub async fn given(&self, owner: &Principal, thread: &ThreadId, run: &RunId) {
        let waiting = {
            let waiting = self.waiting();
            if waiting.is_empty() {
                return;
            }
            waiting.get(&run_name(owner, thread, run)).map(watch::Sender::subscribe)
        };
        if let Some(mut waiting) = waiting {
            // A runner that does not read its acknowledgement must not keep the end from clients.
            let _ = time::timeout(ACK_FIRST, async { while waiting.changed().await.is_ok() {} }).await;
        }
    }
}

impl Drop for UnackedFrame {
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
        let of = |user| Principal::user(ProjectId::new("p").expect("id"), UserId::new(user).expect("id"));
        let (owner, thread) = (of("u"), ThreadId::new("t").expect("id"));
        let run = RunId::new("r").expect("id");
        let begun = time::Instant::now();
        acks.given(&owner, &thread, &run).await;
        let held = acks.hold(&owner, &thread, &run);
        acks.given(&owner, &thread, &RunId::new("s").expect("id")).await;
        acks.given(&of("other"), &thread, &run).await;
        assert_eq!(begun.elapsed().as_millis(), 0);
        acks.given(&owner, &thread, &run).await;
        assert_eq!(begun.elapsed(), ACK_FIRST);
        let waits = acks.given(&owner, &thread, &run);
        tokio::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(held);
        waits.await;
        assert_eq!(begun.elapsed(), ACK_FIRST);
        assert!(acks.waiting().is_empty());
    }
}
