//! Ids of threads, and which threads have them.

use std::collections::{BTreeMap, HashMap};

use threadline_core::{ProjectId, Thread, ThreadId, ThreadKey, UserId};

/// Threads by project and id, then by user: no user has two threads of one id.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids(HashMap<(ProjectId, ThreadId), BTreeMap<UserId, ThreadKey>>);

impl Ids {
    pub(super) fn insert(&mut self, thread: &Thread) {
        let users = self.0.entry((thread.project.clone(), thread.id.clone())).or_default();
        users.insert(thread.user.clone(), thread.key);
    }

    pub(super) fn remove(&mut self, thread: &Thread) {
        let id = (thread.project.clone(), thread.id.clone());
        let Some(users) = self.0.get_mut(&id) else { return };
        users.remove(&thread.user);
        if users.is_empty() {
            self.0.remove(&id);
        }
    }

    /// The thread that a user has under an id.
    pub(super) fn of(&self, project: &ProjectId, user: &UserId, id: &ThreadId) -> Option<ThreadKey> {
        self.0.get(&(project.clone(), id.clone()))?.get(user).copied()
    }

    /// Threads of all users that have an id.
    pub(super) fn all(&self, project: &ProjectId, id: &ThreadId) -> impl Iterator<Item = ThreadKey> {
        let users = self.0.get(&(project.clone(), id.clone()));
        users.into_iter().flatten().map(|(_, key)| *key)
    }
}
