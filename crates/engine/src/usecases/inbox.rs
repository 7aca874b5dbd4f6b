//! Inbox of a user: the interrupts that wait for an answer, over all threads.

use threadline_core::{
    AgentId, FeedCursor, ListOrder, ListPosition, OpenInterrupt, Principal, Thread, ThreadStatus, UserId,
    limits::{INBOX_BYTES, INBOX_CHUNK, MAX_INBOX_PAGE},
};
use threadline_store::ListThreads;

use super::threads::Threads;
use crate::{ListError, records::acting_user};

/// Request for a page of an inbox.
#[derive(Debug, Clone, Default)]
pub struct InboxRequest {
    /// Owner of the threads, if the principal is a whole project.
    pub user: Option<UserId>,
    /// Restricts the page to threads of this agent.
    pub agent: Option<AgentId>,
    /// Position after which the page begins.
    pub after: Option<ListPosition>,
    /// Most threads in the page, clamped to 1..=[`MAX_INBOX_PAGE`].
    pub limit: usize,
}

/// Page of an inbox.
#[derive(Debug, Clone)]
pub struct InboxPage {
    /// Threads that wait, the most recent first, each with its open interrupts, oldest first.
    pub threads: Vec<(Thread, Vec<OpenInterrupt>)>,
    /// Position for the next page; `None` at the end.
    pub next: Option<ListPosition>,
    /// Position of the feed: the page plus the feed after it is complete.
    pub feed_cursor: FeedCursor,
}

impl Threads {
    /// A page of the interrupts that wait for an answer in the threads of a user that are not archived. Expired interrupts
    /// are left out. A page ends early after [`INBOX_BYTES`] of interrupts.
    pub async fn inbox(&self, principal: &Principal, request: InboxRequest) -> Result<InboxPage, ListError> {
        let limit = request.limit.clamp(1, MAX_INBOX_PAGE);
        let list = ListThreads {
            project: principal.project.clone(),
            user: acting_user(principal, request.user)?,
            include_archived: false,
            agent: request.agent,
            status: Some(ThreadStatus::Waiting),
            order: ListOrder::Recent,
            after: request.after,
            limit,
        };
        let page = self.deps.store.list_threads(list).await?;
        let now = self.deps.store.clock().now();
        let (mut threads, mut bytes) = (Vec::with_capacity(page.threads.len()), 0);
        let mut rest = page.threads.into_iter().peekable();
        while rest.peek().is_some() && bytes < INBOX_BYTES {
            let chunk: Vec<Thread> = rest.by_ref().take(INBOX_CHUNK).collect();
            let keys: Vec<_> = chunk.iter().map(|thread| thread.key).collect();
            let mut open = self.deps.store.open_interrupts(&keys).await?;
            for thread in chunk {
                // The last interrupt may have been answered since the list was read.
                let of_thread = open.iter().position(|(key, _)| *key == thread.key).map(|at| open.swap_remove(at).1);
                let mut of_thread = of_thread.unwrap_or_default();
                of_thread.retain(|interrupt| !interrupt.has_expired(now));
                bytes += of_thread.iter().map(|interrupt| interrupt.body.len()).sum::<usize>();
                threads.push((thread, of_thread));
            }
        }
        let cut = rest.peek().and_then(|_| threads.last()).map(|(last, _)| ListPosition::of(last, ListOrder::Recent));
        threads.retain(|(_, open)| !open.is_empty());
        Ok(InboxPage { threads, next: cut.or(page.next), feed_cursor: page.feed_cursor })
    }
}
