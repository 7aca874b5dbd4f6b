//! Records that several use cases share.

use threadline_core::{
    Author, Epoch, Fence, Generation, Principal, ProjectId, Run, RunId, Thread, ThreadId, ThreadKey, UserId,
};

use crate::InvalidRequestError;

/// Facts of a thread that never change while it exists. Only `epoch` may change, when the store loses commits.
#[derive(Debug, Clone)]
pub struct ThreadRef {
    /// Key of this incarnation, assigned by the store.
    pub key: ThreadKey,
    /// Incarnation of the thread's log.
    pub epoch: Epoch,
    /// Project that the thread belongs to.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Id of the thread within the project.
    pub id: ThreadId,
}

/// Thread that a write names, and the epoch that its log must have: the writer knows what it has read.
#[derive(Debug, Clone, Copy)]
pub struct ThreadAt<'t> {
    /// Id of the thread.
    pub id: &'t ThreadId,
    /// Epoch that the log must have at the moment of the write; `None` for any.
    pub epoch: Option<Epoch>,
}

impl<'t> From<&'t ThreadId> for ThreadAt<'t> {
    /// A thread with any log.
    fn from(id: &'t ThreadId) -> Self {
        Self { id, epoch: None }
    }
}

/// Run that a write names, and the attempt at it that the writer speaks for.
#[derive(Debug, Clone, Copy)]
pub struct RunAt<'r> {
    /// Id of the run.
    pub id: &'r RunId,
    /// Number of the attempt; `None` for the first one.
    pub attempt: Option<u64>,
}

impl<'r> From<&'r RunId> for RunAt<'r> {
    /// The first attempt at a run.
    fn from(id: &'r RunId) -> Self {
        Self { id, attempt: None }
    }
}

impl From<&Thread> for ThreadRef {
    fn from(thread: &Thread) -> Self {
        Self {
            key: thread.key,
            epoch: thread.epoch,
            project: thread.project.clone(),
            user: thread.user.clone(),
            id: thread.id.clone(),
        }
    }
}

/// A run whose first events, or whose terminal event, were committed by this node.
#[derive(Debug, Clone)]
pub struct RunNotice {
    /// Key of the thread's incarnation.
    pub key: ThreadKey,
    /// Epoch of that incarnation's log.
    pub epoch: Epoch,
    /// Project that the thread belongs to.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Id of the thread within the project.
    pub thread: ThreadId,
    /// Id of the run within the thread.
    pub run: RunId,
    /// Fence of the run.
    pub fence: Fence,
    /// False after the run's first events, while the run continues.
    pub has_ended: bool,
}

/// Facts of a run that never change.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Fence that the run's appends carry.
    pub fence: Fence,
    /// True if the server drives the run.
    pub driven: bool,
    /// Author of the run.
    pub author: Option<Author>,
}

impl From<&Run> for RunFacts {
    fn from(run: &Run) -> Self {
        Self { fence: run.fence, driven: run.driven, author: run.author.clone() }
    }
}

/// Position in a list that is stored beside the log of a thread, with the history that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListCursor {
    /// Epoch of the thread's log.
    pub epoch: Epoch,
    /// Generation of the store, for a list that gives the numbers of lost items again; `None` for one that never does.
    pub generation: Option<Generation>,
    /// Number of the last item seen.
    pub number: u64,
}

/// Page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Items of the page, in the list's order.
    pub items: Vec<T>,
    /// Position of the last item, if the list has items after it.
    pub next: Option<ListCursor>,
}

impl<T> Page<T> {
    /// Page of at most `limit` items; `items` holds one more if the list has more. `at` makes the position of an item.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, at: impl FnOnce(&T) -> ListCursor) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        Self { next: items.last().filter(|_| more).map(at), items }
    }
}

/// The user for whom the principal acts: the principal's own, or, for a whole project, the named one.
pub(crate) fn acting_user(principal: &Principal, named: Option<UserId>) -> Result<UserId, InvalidRequestError> {
    match (&principal.user, named) {
        (Some(user), None) => Ok(user.clone()),
        (Some(user), Some(named)) if *user == named => Ok(named),
        (Some(_), Some(_)) => {
            Err(InvalidRequestError::InvalidRequest("userId names another user than the credential: omit it".into()))
        }
        (None, Some(named)) => Ok(named),
        (None, None) => Err(InvalidRequestError::InvalidRequest(
            "the user is missing: set the header Threadline-User, userId, or --user on the command line".into(),
        )),
    }
}
