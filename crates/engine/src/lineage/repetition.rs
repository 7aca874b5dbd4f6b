//! Repetition of deletions and revocations that the store has lost.

use threadline_core::{
    Cutoff, Footprint, Timestamp,
    limits::{LINEAGE_RETRY, LINEAGE_RETRY_MAX},
};
use threadline_store::{StoreError, StoreResult};
use tokio::time;

use crate::{removals::Removal, usecases::users::Users};

/// Carries out all recent removals again, in their order, until the store has accepted each of them once. A removal
/// that was not lost changes nothing.
pub(crate) async fn run(users: Users) {
    let deps = &users.deps;
    let mut again = 0;
    for removal in deps.removals.recent() {
        let mut pause = LINEAGE_RETRY;
        loop {
            match repeat(&users, &removal).await {
                Ok(was_back) => again += u64::from(was_back),
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(reason, "cannot repeat a deletion or revocation")
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot repeat a deletion or revocation yet; retrying");
                    tokio::select! {
                        () = time::sleep(pause) => {}
                        () = deps.lifecycle.stopped() => return,
                    }
                    pause = (pause * 2).min(LINEAGE_RETRY_MAX);
                    continue;
                }
            }
            break;
        }
    }
    if again > 0 {
        tracing::warn!(again, "deletions, revocations and settings that the store had lost were carried out again");
    }
}

/// True if the store had lost the removal.
async fn repeat(users: &Users, removal: &Removal) -> StoreResult<bool> {
    let store = &users.deps.store;
    match removal {
        Removal::Thread(thread) => {
            let was_back = store.delete_thread(thread.key, None).await?;
            if was_back {
                users.deps.listeners.deleted(thread);
            }
            Ok(was_back)
        }
        Removal::User(project, user) => {
            users.remove(project, user, None).await.map(|erased| erased != Footprint::default())
        }
        Removal::Key(project, key, at) => {
            let stored = store.keys(project).await?;
            let was_back = stored.iter().any(|stored| stored.id == *key && stored.revoked_at.is_none());
            if was_back {
                store.revoke_key(project, key, *at, None).await?;
            }
            Ok(was_back)
        }
        Removal::Cutoff(cutoff) => {
            let same = |stored: &Cutoff| {
                stored.subject == cutoff.subject && stored.project == cutoff.project && stored.kind == cutoff.kind
            };
            let stored = store.cutoffs(Timestamp(i64::MIN)).await?.into_iter().find(same);
            let was_back = stored.is_none_or(|stored| stored.not_before < cutoff.not_before);
            store.put_cutoff(cutoff, None).await?;
            Ok(was_back)
        }
        Removal::Project(project) => store.put_project(project, None).await,
    }
}
