//! Moves threads from one back-end to another, byte for byte: the basis of `threadline export` and `import`.
//!
//! A thread keeps its epoch, seqs, fences, records of runs and times. An import stages it, see
//! [`staging`](crate::staging).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use threadline_core::{AgentId, ApiKey, Digest, Epoch, ProjectId, RunId, ThreadId, ThreadKey, UserId};

use crate::{error::StoreResult, port::Store, staging::MovedThread, streams::StreamTransfer};

/// A thread that has annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedThread {
    /// The store's number of this incarnation.
    pub key: ThreadKey,
    /// Project (tenant) of the thread.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Public id of the thread.
    pub id: ThreadId,
    /// True if the thread has claimed its id.
    pub claimed: bool,
    /// The incarnation of the thread's log.
    pub epoch: Epoch,
}

/// A user's complete feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedImage {
    /// The newest position of the feed.
    pub head: u64,
    /// Epoch of the feed; [`Epoch::NONE`] if it has no entry, or if the export was made before feeds had one.
    pub epoch: Epoch,
    /// Position and thread, in order of the positions; at most one per thread.
    pub entries: Vec<(u64, ThreadId)>,
}

/// Interface for export: all of a store, page by page.
#[async_trait]
pub trait ExportStore: Send + Sync {
    /// Number of threads of all projects.
    async fn count_threads(&self) -> StoreResult<u64>;

    /// A page of the threads of all projects, in the order of their keys. Each thread is read as of one moment.
    async fn all_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<MovedThread>>;

    /// A page of the active turns, in the order of their threads' keys: the key and the run.
    async fn turns(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<(ThreadKey, RunId)>>;

    /// A page of the threads that have annotations, in the order of their keys.
    async fn annotated_threads(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<AnnotatedThread>>;

    /// The agents of all projects, in order of project and id.
    async fn all_agents(&self) -> StoreResult<Vec<(ProjectId, AgentId, String)>>;

    /// The API keys of all projects with their digests, valid or not, in order of project and id.
    async fn all_keys(&self) -> StoreResult<Vec<(ApiKey, Digest)>>;

    /// A page of the users who have a feed, in order of project and user.
    async fn all_feeds(
        &self,
        after: Option<&(ProjectId, UserId)>,
        limit: usize,
    ) -> StoreResult<Vec<(ProjectId, UserId)>>;

    /// A user's complete feed, as it is now.
    async fn feed_image(&self, project: &ProjectId, user: &UserId) -> StoreResult<FeedImage>;
}

/// Interface for export and import, in addition to [`Store`].
#[async_trait]
pub trait TransferStore: Store + ExportStore + StreamTransfer {
    /// Takes over a feed as [`FeedImage::taking`] says; false if nothing had to change. Entries of threads that are not
    /// the user's in this store report these threads as deleted. Published threads without an entry get a new position.
    async fn put_feed(&self, project: &ProjectId, user: &UserId, moved: &FeedImage) -> StoreResult<bool>;
}

impl Default for FeedImage {
    fn default() -> Self {
        Self { head: 0, epoch: Epoch::NONE, entries: Vec::new() }
    }
}

impl FeedImage {
    /// The content of this feed after `moved` is merged into it; `None` if it holds all of `moved` already.
    ///
    /// An empty feed becomes the other one, including its epoch and positions: cursors that readers hold stay valid. Otherwise
    /// both feeds have given the same positions to different changes, and a reader cannot say which feed issued its
    /// cursor. Then every entry gets a position above all that either feed has given: a reader with any cursor receives
    /// every thread once more, and misses none.
    pub fn taking(&self, moved: &Self) -> Option<Self> {
        if self.holds(moved) {
            return None;
        }
        if self.head == 0 {
            return Some(moved.clone());
        }
        let shift = self.head.max(moved.head);
        let known: BTreeSet<&ThreadId> = self.entries.iter().map(|entry| &entry.1).collect();
        let mut entries: Vec<_> = self.entries.iter().map(|(pos, id)| (pos + shift, id.clone())).collect();
        let mut head = self.head + shift;
        for (_, id) in moved.entries.iter().filter(|entry| !known.contains(&entry.1)) {
            head += 1;
            entries.push((head, id.clone()));
        }
        Some(Self { head, epoch: self.epoch, entries })
    }

    /// True if a reader of `moved` may continue here: later changes are above its head, all other entries are the same.
    fn holds(&self, moved: &Self) -> bool {
        let theirs: BTreeMap<u64, &ThreadId> = moved.entries.iter().map(|(pos, id)| (*pos, id)).collect();
        let mut ours = HashMap::with_capacity(self.entries.len());
        for (pos, id) in &self.entries {
            if *pos <= moved.head && theirs.get(pos) != Some(&id) {
                return false;
            }
            ours.insert(id, *pos);
        }
        self.head >= moved.head
            && moved.entries.iter().all(|(pos, id)| ours.get(id).is_some_and(|own| own == pos || *own > moved.head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(head: u64, entries: &[(u64, &str)]) -> FeedImage {
        let entries = entries.iter().map(|(pos, id)| (*pos, ThreadId::new(id).expect("id")));
        FeedImage { head, epoch: Epoch::from_i64(5), entries: entries.collect() }
    }

    #[test]
    fn an_empty_feed_becomes_the_one_that_comes() {
        let moved = feed(7, &[(3, "a"), (7, "b")]);
        assert_eq!(FeedImage::default().taking(&moved), Some(moved.clone()));
        assert_eq!(moved.taking(&moved), None);
        assert_eq!(FeedImage::default().taking(&FeedImage::default()), None);
    }

    #[test]
    fn a_feed_that_went_on_since_is_left_alone() {
        let moved = feed(7, &[(3, "a"), (7, "b")]);
        assert_eq!(feed(9, &[(7, "b"), (8, "new"), (9, "a")]).taking(&moved), None);
        // The feed lacks one of the changes, or holds another at a position that the readers have passed.
        assert!(feed(9, &[(7, "b"), (8, "new")]).taking(&moved).is_some());
        assert!(feed(9, &[(2, "x"), (7, "b"), (9, "a")]).taking(&moved).is_some());
    }

    #[test]
    fn two_feeds_become_one_above_both() {
        let (own, moved) = (feed(4, &[(2, "x"), (4, "a")]), feed(7, &[(3, "a"), (7, "b")]));
        let both = own.taking(&moved).expect("something to do");
        assert_eq!(both, feed(12, &[(9, "x"), (11, "a"), (12, "b")]));
        assert_eq!(both.taking(&moved), None, "and again");
    }
}
