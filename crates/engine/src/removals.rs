//! Changes that take something away: deleted threads, erased users, revoked keys, sign-outs, settings of projects. A store that loses
//! commits brings back what they removed, so each node keeps its recent removals, and repeats them after a loss.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use threadline_core::{
    Cutoff, KeyId, ProjectId, Timestamp, UserId,
    limits::{REMOVAL_MEMORY, REMOVALS_KEPT},
};
use threadline_store::StoredProject;
use tokio::time::Instant;

use crate::{after_commit::AfterCommit, records::ThreadRef};

/// A change that takes something away.
#[derive(Debug, Clone)]
pub enum Removal {
    /// A thread was deleted. Keys are never given out twice, so the key names no other thread.
    Thread(ThreadRef),
    /// A user was erased.
    User(ProjectId, UserId),
    /// An API key was revoked at this time.
    Key(ProjectId, KeyId, Timestamp),
    /// A user, the tokens of a key, or a complete project was signed out.
    Cutoff(Cutoff),
    /// A project has these settings and secrets now.
    Project(StoredProject),
}

/// Recent removals of this node, the oldest first: those of the last [`REMOVAL_MEMORY`], at most [`REMOVALS_KEPT`].
#[derive(Debug, Default)]
pub struct Removals(Mutex<VecDeque<(Instant, Removal)>>);

impl Removals {
    /// Notes a removal that the store has committed.
    pub fn note(&self, removal: Removal) {
        let now = Instant::now();
        let mut kept = self.kept();
        let too_many = (kept.len() + 1).saturating_sub(REMOVALS_KEPT);
        let old = kept.iter().take_while(|(at, _)| now.duration_since(*at) > REMOVAL_MEMORY).count();
        kept.drain(..too_many.max(old));
        kept.push_back((now, removal));
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Instant, Removal)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recent removals, the oldest first.
    pub(crate) fn recent(&self) -> Vec<Removal> {
        let now = Instant::now();
        let kept = self.kept();
        kept.iter().filter(|(at, _)| now.duration_since(*at) <= REMOVAL_MEMORY).map(|(_, kept)| kept.clone()).collect()
    }
}

impl AfterCommit for Removals {
    fn deleted(&self, thread: &ThreadRef) {
        self.note(Removal::Thread(thread.clone()));
    }

    /// A thread that comes back from the trash with lost commits is no harm, and must not be deleted for good.
    fn trashed(&self, _thread: &ThreadRef) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_newest_removals_are_kept() {
        let removals = Removals::default();
        let user = |n: usize| UserId::new(format!("u{n}")).expect("an id");
        let erased = |n| Removal::User(ProjectId::new("p").expect("an id"), user(n));
        let users = || -> Vec<_> {
            let name = |removal| if let Removal::User(_, user) = removal { user } else { panic!("{removal:?}") };
            removals.recent().into_iter().map(name).collect()
        };
        (0..=REMOVALS_KEPT).for_each(|n| removals.note(erased(n)));
        let kept = users();
        assert_eq!((kept.len(), &kept[0], &kept[REMOVALS_KEPT - 1]), (REMOVALS_KEPT, &user(1), &user(REMOVALS_KEPT)));
        tokio::time::advance(REMOVAL_MEMORY).await;
        removals.note(erased(7));
        assert_eq!(users().len(), REMOVALS_KEPT);
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        assert_eq!(users(), [user(7)]);
        removals.note(erased(8));
        assert_eq!(removals.kept().len(), 2, "what is too old takes no memory");
    }
}
