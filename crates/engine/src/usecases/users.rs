//! Erasure of a user, with the receipt.

use std::sync::Arc;

use threadline_core::{
    AuditEntry, FeedCursor, Footprint, ListOrder, Principal, ProjectId, Timestamp, UserId, hex,
    limits::{CUTOFF_KNOWN, MAX_PAGE, PURGE_ROWS, TOMBSTONE_PAGE},
};
use threadline_store::{DynStore, ListThreads, Purging, StoreClock, StoreError, StoreResult};

use crate::{
    EraseError,
    after_commit::Listeners,
    cluster::bus::{DynBus, Hint},
    credentials::Cutoffs,
    lifecycle::Lifecycle,
    nodes::{self, NodeState},
    records::ThreadRef,
    removals::{Removal, Removals},
    subscription::Hub,
};

/// Rounds after which an erasure fails: a user who continues to create threads would prevent its end.
const ERASE_ROUNDS: usize = 8;

/// Receipt of an erasure.
#[derive(Debug, Clone)]
pub struct Erasure {
    /// Keyed digest of the project's and the user's id, in hexadecimal: names the user to whoever erases the same id again, and
    /// to nobody who has only the receipts.
    pub user_digest: String,
    /// Time at which the erasure completed.
    pub at: Timestamp,
    /// Amount of data that was erased.
    pub erased: Footprint,
}

/// Use cases of users.
#[derive(Clone)]
pub struct Users {
    pub(crate) deps: Arc<UserDeps>,
}

/// Dependencies of [`Users`], shared by its clones.
pub(crate) struct UserDeps {
    pub store: DynStore,
    pub clock: StoreClock,
    pub hub: Arc<Hub>,
    pub bus: DynBus,
    pub listeners: Listeners,
    pub removals: Arc<Removals>,
    pub cutoffs: Arc<Cutoffs>,
    pub lifecycle: Lifecycle,
}

impl Users {
    /// Erases all data of a user of the principal's project, and returns once the data is removed from the store. A
    /// repeated call removes data created since. Of two concurrent calls, both return after the removal, and each
    /// receipt may count data that the other call removed.
    pub async fn erase(&self, principal: &Principal, user: &UserId) -> Result<Erasure, EraseError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let (store, project) = (&self.deps.store, &principal.project);
        let user_digest = hex(&store.digest_key("erasure")?.digest(&[project.as_str(), user.as_str()]));
        let entry = |at, action, erased: &Footprint| {
            let facts = serde_json::json!({ "userDigest": user_digest, "erased": erased });
            AuditEntry::by(principal, project, at, action, &facts)
        };
        // A token that is still valid would create what is being removed.
        self.deps.cutoffs.end_tokens(principal, project, user).await?;
        self.wait_for_other_nodes().await?;
        // A retry finds less: this entry has what the request found, even if it fails in between.
        let begins = |found: &Footprint| entry(self.deps.clock.now(), "user.erases", found);
        let erased = self.remove(project, user, Some(&begins)).await?;
        self.deps.removals.note(Removal::User(project.clone(), user.clone()));
        let at = self.deps.clock.now();
        while store.sweep_tickets(at).await? {}
        store.record(&entry(at, "user.erased", &erased)).await?;
        Ok(Erasure { user_digest, at, erased })
    }

    /// Waits until all nodes know the cutoff that this one has just stored, if there are others: they accept the user's tokens
    /// until their next look, and what is written then would stay.
    async fn wait_for_other_nodes(&self) -> StoreResult<()> {
        let nodes = nodes::listed(&self.deps.store).await?;
        let answering = nodes.iter().filter(|(_, state)| matches!(state, NodeState::Live | NodeState::Leaving));
        if answering.count() > 1 {
            tokio::time::sleep(CUTOFF_KNOWN).await;
        }
        Ok(())
    }

    /// Removes all data of a user from the store, and ends the feed. Returns what was there at first. If anything was,
    /// the entry that `begins` makes is recorded before it is removed.
    pub(crate) async fn remove(
        &self,
        project: &ProjectId,
        user: &UserId,
        begins: Option<&(dyn Fn(&Footprint) -> AuditEntry + Send + Sync)>,
    ) -> StoreResult<Footprint> {
        let store = &self.deps.store;
        let mut erased = Footprint::default();
        for round in 0.. {
            let left = store.footprint(project, user).await?;
            // The first round also removes data that no footprint counts.
            if round > 0 && left == Footprint::default() {
                break;
            }
            if round >= ERASE_ROUNDS {
                let reason = "the user continues to create threads: revoke their tokens, and try again";
                return Err(StoreError::Unavailable(reason.into()));
            }
            if round == 0 {
                erased = left;
                if let Some(begins) = begins.filter(|_| left != Footprint::default()) {
                    store.record(&begins(&left)).await?;
                }
            }
            self.delete_threads(project, user).await?;
            self.empty_trash(project, user).await?;
            self.purge_threads(project, user).await?;
            store.forget_user(project, user).await?;
        }
        self.end_feed(project, user).await;
        Ok(erased)
    }

    /// Ends the subscriptions to a deleted feed on all nodes. A subscription that misses the hint ends with the next
    /// recheck.
    async fn end_feed(&self, project: &ProjectId, user: &UserId) {
        let feed = (project.clone(), user.clone());
        let recheck = self.deps.hub.recheck_feeds(self.deps.store.as_ref(), std::slice::from_ref(&feed));
        if let Err(error) = recheck.await {
            tracing::warn!(%error, "cannot end the followed feed of an erased user; it ends later");
        }
        self.deps.bus.tell(Hint::Feed(feed.0, feed.1, FeedCursor::START));
    }

    /// Removes the rows of the user's deleted threads. A node that purges one of them at the same time has taken rows that
    /// this call does not wait for, so the threads are listed until none is left.
    async fn purge_threads(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        loop {
            let keys = self.deps.store.tombstones(project, user, TOMBSTONE_PAGE).await?;
            for key in &keys {
                while self.deps.store.purge(*key, PURGE_ROWS).await? == Purging::More {}
            }
            if keys.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes the user's threads out of the trash for good.
    async fn empty_trash(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        loop {
            let keys = self.deps.store.trash_of(project, user, TOMBSTONE_PAGE).await?;
            for key in &keys {
                self.deps.store.discard(*key, true).await?;
            }
            if keys.is_empty() {
                return Ok(());
            }
        }
    }

    async fn delete_threads(&self, project: &ProjectId, user: &UserId) -> StoreResult<()> {
        loop {
            let list = ListThreads {
                project: project.clone(),
                user: user.clone(),
                include_archived: true,
                agent: None,
                status: None,
                order: ListOrder::Created,
                after: None,
                limit: MAX_PAGE,
            };
            let mut threads = self.deps.store.list_threads(list).await?.threads;
            threads.extend(self.deps.store.unlisted(project, user, MAX_PAGE).await?);
            for thread in &threads {
                let thread = ThreadRef::from(thread);
                self.deps.store.delete_thread(thread.key, None).await?;
                self.deps.listeners.deleted(&thread);
            }
            if threads.is_empty() {
                return Ok(());
            }
        }
    }
}
