//! Erasing a user.

use sha2::{Digest, Sha256};

use super::{ServiceError, context::Context, directory::ThreadRef};
use crate::{
    bus::Hint,
    domain::{
        AuditEntry, Footprint, Principal, ProjectId, Timestamp, UserId,
        limits::{MAX_PAGE, PURGE_ROWS},
    },
    store::{ListOrder, ListThreads, StoreError},
};

/// While a user goes on making threads there is no end; this often it is looked whether something is left.
const ERASE_ROUNDS: usize = 8;

/// The receipt of an erasure.
#[derive(Debug, Clone)]
pub struct Erasure {
    /// SHA-256 of the user's id, in hexadecimal: it can be shown that a user was erased without keeping who it was.
    pub user_digest: String,
    /// When it was done.
    pub at: Timestamp,
    /// What went.
    pub erased: Footprint,
}

/// The use cases of users.
#[derive(Clone)]
pub struct Users {
    pub(super) context: Context,
}

impl Users {
    /// Removes everything of a user of the principal's project, and answers once it is gone from the store. Asked again,
    /// it removes what has come since. Of two who ask at the same time both are answered once it is gone, and each may count
    /// in its receipt what the other has removed.
    pub async fn erase(&self, principal: &Principal, user: &UserId) -> Result<Erasure, ServiceError> {
        self.context.refuse_if_draining()?;
        let (store, project) = (&self.context.store, &principal.project);
        let mut erased = Footprint::default();
        for round in 0.. {
            let left = store.footprint(project, user).await?;
            // The first round is for what no footprint counts, too.
            if round > 0 && left == Footprint::default() {
                break;
            }
            if round >= ERASE_ROUNDS {
                let reason = "the user goes on making threads; take their tokens away, and try again";
                return Err(StoreError::Unavailable(reason.into()).into());
            }
            if round == 0 {
                erased = left;
            }
            self.delete_threads(principal, user).await?;
            while store.purge(PURGE_ROWS).await? {}
            store.forget_user(project, user).await?;
        }
        self.end_feed(project, user).await;
        let at = self.context.clock.now();
        while store.sweep_tickets(at).await? {}
        let user_digest: String = Sha256::digest(user.as_str()).iter().map(|byte| format!("{byte:02x}")).collect();
        let facts = serde_json::json!({ "userDigest": user_digest, "erased": erased });
        store.record(&AuditEntry::by(principal, project, at, "user.erased", &facts)).await?;
        Ok(Erasure { user_digest, at, erased })
    }

    /// Ends the subscriptions of a feed that is gone, on all nodes. One that is missed ends with the next recheck.
    async fn end_feed(&self, project: &ProjectId, user: &UserId) {
        let feed = (project.clone(), user.clone());
        let recheck = self.context.hub.recheck_feeds(self.context.store.as_ref(), std::slice::from_ref(&feed));
        if let Err(error) = recheck.await {
            tracing::warn!(%error, "the followed feed of an erased user is ended later");
        }
        self.context.bus.tell(Hint::Feed(feed.0, feed.1, 0));
    }

    async fn delete_threads(&self, principal: &Principal, user: &UserId) -> Result<(), ServiceError> {
        loop {
            let list = ListThreads {
                project: principal.project.clone(),
                user: user.clone(),
                include_archived: true,
                agent: None,
                order: ListOrder::Created,
                after: None,
                limit: MAX_PAGE,
            };
            let page = self.context.store.list_threads(list).await?;
            for thread in &page.threads {
                let thread = ThreadRef::from(thread);
                self.context.store.delete_thread(thread.key).await?;
                self.context.deleted(&thread);
            }
            if page.threads.is_empty() {
                return Ok(());
            }
        }
    }
}
