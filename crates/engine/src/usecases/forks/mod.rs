//! Use cases of forks: a thread that begins with the first events of another one, and the branches of a conversation.

mod copy;
mod deps;
mod origin;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use threadline_core::{
    Branch, Epoch, Family, Fence, ForkedFrom, Judgement, Principal, Scope, Seq, Thread, ThreadId, hex,
    limits::{MAX_BRANCHES, READ_BRANCHES},
};
use threadline_store::{Arrival, MovedThread, Published, StoreError};

pub(crate) use self::deps::ForkDeps;
pub use self::origin::MessageOrigin;
use crate::{
    BranchError, ForkError, LookupError, authority::require, directory, limits::Storing, records::ThreadAt,
    subscription::ReplacedLog,
};

/// Fork of a thread.
#[derive(Debug, Clone, Default)]
pub struct ForkThread {
    /// Id of the fork; generated if absent.
    pub id: Option<ThreadId>,
    /// Seq of the last event that both threads have; the newest one if absent.
    pub at: Option<Seq>,
    /// True for a copy that is no branch of the conversation: lists show both.
    pub separate: bool,
    /// True for a branch that is not listed yet, see [`Forks::choose`].
    pub unlisted: bool,
    /// Key of the request from which the id is derived; `None` for any other id.
    pub request: Option<String>,
}

/// Fork after a request to make it.
#[derive(Debug, Clone)]
pub struct ForkedThread {
    /// Fork as it is stored.
    pub thread: Thread,
    /// True if the request made it; false if an earlier, equal one did.
    pub created: bool,
}

/// Use cases of forks.
#[derive(Clone)]
pub struct Forks {
    pub(crate) deps: Arc<ForkDeps>,
}

/// Most attempts to make a fork while other requests make and delete it.
const FORK_TRIES: usize = 16;

impl Forks {
    /// Makes a thread of the same user that has the events of this one up to a seq, with the same seqs, in a log with an epoch of
    /// its own. A run that goes on beyond the seq ends there. Name, metadata and agent are the thread's present ones; runs and open
    /// interrupts are those as of the seq; annotations and queued turns are not copied. Without `separate` the fork becomes the
    /// listed branch. A repeated equal request with the same id returns the same fork.
    pub async fn fork(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        fork: ForkThread,
    ) -> Result<ForkedThread, ForkError> {
        let deps = &*self.deps;
        deps.lifecycle.refuse_if_draining()?;
        require(principal, Scope::Chat)?;
        let at = thread.into();
        for _ in 0..FORK_TRIES {
            if let Some(forked) = self.attempt(principal, at, &fork).await? {
                return Ok(forked);
            }
        }
        let reason = "other requests made and deleted the fork at the same time";
        Err(StoreError::Unavailable(reason.to_owned()).into())
    }

    /// Makes a fork. `None` if another request has made it and it has been deleted since: the next attempt may succeed.
    async fn attempt(
        &self,
        principal: &Principal,
        at: ThreadAt<'_>,
        fork: &ForkThread,
    ) -> Result<Option<ForkedThread>, ForkError> {
        let deps = &*self.deps;
        let parent = directory::read(&deps.store, principal, at.id).await?;
        let (epoch, base) = self.judged(&parent, fork.at, at.epoch).await?;
        let made_with = made_with(&parent, fork);
        if let Some(id) = &fork.id
            && let Some(there) = deps.store.thread_of(&parent.project, &parent.user, id).await?
        {
            return self.made_before(there, &made_with, fork).await.map(Some);
        }
        if let (Some(_), Some(id)) = (&fork.request, &fork.id)
            && deps.store.was_request_deleted(&parent.project, id).await?
        {
            return Err(ForkError::ThreadDeleted);
        }
        deps.stored.forget(&parent.project, &parent.user);
        deps.stored.admit(principal, Storing::Thread).await?;
        let child = self.child(principal, &parent, fork, (epoch, base)).await?;
        let made = match deps.copied(principal, &parent, child, base).await? {
            copy::Copied::Staged(key, child) => {
                // Sums in the store include the staged copy.
                deps.stored.forget(&parent.project, &parent.user);
                if let Err(refused) = deps.stored.admit(principal, Storing::Words).await {
                    deps.store.unstage(key).await?;
                    return Err(refused.into());
                }
                let published = deps.store.publish(key, &child, Arrival::Fork { parent: parent.key, epoch }).await?;
                if published == Published::Gone {
                    deps.store.unstage(key).await?;
                }
                (published, child.thread.id)
            }
            copy::Copied::Taken(there) => return self.made_before(*there, &made_with, fork).await.map(Some),
            copy::Copied::Replaced(id) => (Published::Taken, id),
        };
        let there = deps.store.thread_of(&parent.project, &parent.user, &made.1).await?;
        match (made.0, there) {
            (Published::Done, Some(made)) if fork.unlisted => Ok(Some(ForkedThread { thread: made, created: true })),
            (Published::Done, Some(made)) => Ok(Some(ForkedThread { thread: self.shown(made).await?, created: true })),
            // The fork was made here, and its owner has deleted it since: it is not made again.
            (Published::Done, None) => Err(ForkError::ThreadDeleted),
            // An equal request may have made the fork meanwhile.
            (_, Some(there)) => self.made_before(there, &made_with, fork).await.map(Some),
            (_, None) => {
                deps.directory.head_at::<ForkError>(parent.key, Some(epoch)).await?.ok_or(ForkError::ThreadNotFound)?;
                Ok(None)
            }
        }
    }

    /// Finds the run with which a message entered a conversation: the first one whose events begin it, or have it in a list.
    pub async fn origin_of(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        message: &str,
    ) -> Result<MessageOrigin, ForkError> {
        require(principal, Scope::Read)?;
        self.deps.origin_of(principal, thread, message).await
    }

    /// Branches of the conversation that a thread belongs to, oldest first: of one without forks the thread alone.
    pub async fn branches(&self, principal: &Principal, id: &ThreadId) -> Result<Vec<Thread>, LookupError> {
        let thread = directory::read(&self.deps.store, principal, id).await?;
        match thread.branch.family {
            None => Ok(vec![thread]),
            Some(family) => Ok(self.deps.store.branches(&thread.project, &thread.user, family, READ_BRANCHES).await?),
        }
    }

    /// Lists another branch of the conversation that a thread belongs to. A branch that is listed already stays so.
    pub async fn choose(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        chosen: &ThreadId,
    ) -> Result<Thread, BranchError> {
        let deps = &*self.deps;
        deps.lifecycle.refuse_if_draining()?;
        let at = thread.into();
        let thread = directory::read(&deps.store, principal, at.id).await?;
        deps.directory.refuse_other_thread::<BranchError>(thread.key, at.epoch).await?;
        let other = deps.store.thread_of(&thread.project, &thread.user, chosen).await?;
        let is_branch = |other: &Thread| {
            other.key == thread.key || (other.branch.family.is_some() && other.branch.family == thread.branch.family)
        };
        let other = other.filter(is_branch).ok_or_else(|| BranchError::BranchNotFound(chosen.clone()))?;
        Ok(self.shown(other).await?)
    }

    /// The fork that an equal request made before. One that was to be listed is listed, if that request did not get so far and no
    /// run has begun in it since.
    async fn made_before(&self, there: Thread, made_with: &str, fork: &ForkThread) -> Result<ForkedThread, ForkError> {
        if there.created_with != made_with {
            return Err(ForkError::ThreadExists);
        }
        let is_new = there.branch.forked_from.is_some() && there.version <= 1 && !there.branch.listed;
        let thread = if is_new && !fork.unlisted { self.shown(there).await? } else { there };
        Ok(ForkedThread { thread, created: false })
    }

    /// Makes a thread the listed branch of its family.
    async fn shown(&self, thread: Thread) -> Result<Thread, StoreError> {
        let deps = &*self.deps;
        let Some(family) = thread.branch.family else {
            deps.feed_writer.mark(&thread.project, &thread.user);
            return Ok(thread);
        };
        deps.store.list_branch(&thread.project, &thread.user, family, Some(thread.key)).await?;
        deps.feed_writer.mark(&thread.project, &thread.user);
        let now = deps.store.thread_of(&thread.project, &thread.user, &thread.id).await?;
        Ok(now.filter(|now| now.key == thread.key).unwrap_or(thread))
    }

    /// Epoch of the parent's log, and the seq up to which it is read.
    async fn judged(&self, parent: &Thread, at: Option<Seq>, epoch: Option<Epoch>) -> Result<(Epoch, Seq), ForkError> {
        let store = &self.deps.store;
        let head = store.heads(&[parent.key]).await?.pop().ok_or(ForkError::ThreadNotFound)?;
        let tail = head.tail;
        match head.history().judge(tail, epoch, at.unwrap_or(0), store.lineage().generation()) {
            Judgement::Continues | Judgement::Rebased => Ok((head.epoch, at.unwrap_or(tail))),
            Judgement::Replaced { common_up_to } => {
                Err(ReplacedLog { epoch: Some(head.epoch), tail, common_up_to }.into())
            }
            Judgement::Ahead => Err(ForkError::CursorAhead { epoch: Some(head.epoch), tail }),
        }
    }

    /// The fork as it is staged, with the events up to the base. Refused if its family has no room.
    async fn child(
        &self,
        principal: &Principal,
        parent: &Thread,
        fork: &ForkThread,
        (epoch, base): (Epoch, Seq),
    ) -> Result<MovedThread, ForkError> {
        let members = match parent.branch.family {
            None => Vec::new(),
            Some(family) => self.deps.store.branches(&parent.project, &parent.user, family, READ_BRANCHES).await?,
        };
        if !fork.separate && members.len() >= MAX_BRANCHES {
            return Err(ForkError::TooManyBranches);
        }
        let family = parent.branch.family.unwrap_or(Family(parent.epoch.to_i64()));
        let branch = Branch {
            family: (!fork.separate).then_some(family),
            listed: fork.separate,
            forked_from: Some(origin(parent, epoch, base, &members)),
        };
        let now = self.deps.clock.now();
        let thread = Thread {
            id: fork.id.clone().unwrap_or_else(ThreadId::generate),
            // Ids of untrusted clients are unique per user: a creation takes none from other users.
            claimed: !principal.is_untrusted(),
            epoch: Epoch::generate(),
            archived: false,
            created_at: now,
            updated_at: now,
            last_run_at: None,
            version: 1,
            created_with: made_with(parent, fork),
            tail: base,
            read_seq: parent.read_seq.min(base),
            active_run: None,
            last_run: None,
            open_interrupts: 0,
            branch,
            ..parent.clone()
        };
        Ok(MovedThread { thread, fence: Fence(0), interrupts: None, request: fork.request.clone() })
    }
}

/// Thread whose own events a fork shares last: of a fork within what its parent has inherited, the parent's origin, so that all
/// forks at one seq of a conversation name the same one.
fn origin(parent: &Thread, epoch: Epoch, base: Seq, members: &[Thread]) -> ForkedFrom {
    let mut origin = ForkedFrom { thread: parent.id.clone(), epoch, seq: base };
    let mut next = parent.branch.forked_from.as_ref().filter(|_| parent.branch.family.is_some());
    for _ in 0..MAX_BRANCHES {
        let Some(inherited) = next.filter(|from| base <= from.seq) else { break };
        let above = members.iter().find(|member| member.id == inherited.thread);
        next = above.and_then(|member| member.branch.forked_from.as_ref());
        (origin.thread, origin.epoch) = (inherited.thread.clone(), inherited.epoch);
    }
    origin
}

/// Digest of a request to fork a thread, which tells its repetition from another request with the same id, also after an import.
fn made_with(parent: &Thread, fork: &ForkThread) -> String {
    let facts = serde_json::json!(["fork", parent.id.as_str(), parent.created_at.0, fork.at, fork.separate]);
    hex(&Sha256::digest(facts.to_string().as_bytes())[..16])
}
