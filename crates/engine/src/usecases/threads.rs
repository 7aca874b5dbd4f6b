//! Use cases of threads: create, read, list, edit, delete.

use std::sync::Arc;

use serde_json::{Map, Value};
use threadline_core::{
    AgentId, CreatedThread, FeedCursor, ListOrder, ListPosition, NameSearch, NameSource, NewThread, Principal, Seq,
    Thread, ThreadId, ThreadPatch, ThreadStatus, Usage, UserId,
    limits::{MAX_PAGE, SEARCH_BYTES, SEARCH_ROWS, SEARCHED_ROW_BYTES},
};
use threadline_store::{DynStore, ListThreads, StoreError, ThreadPage};

use crate::{
    CreateThreadError, EditThreadError, ListError, LookupError, MarkReadError, RunNotice,
    after_commit::Listeners,
    directory::{self, Directory},
    lifecycle::Lifecycle,
    limits::{FairQueue, StoredBytes, Storing},
    records::{ThreadAt, acting_user},
    upkeep::feed_writer::FeedWriter,
    usecases::thread_fields::{canonical, check_metadata, check_name, fingerprint, merged},
};

/// Number of concurrent edits that may overtake an edit before the client must retry.
const EDIT_TRIES: usize = 32;

/// Fields of a thread to create.
#[derive(Debug, Clone, Default)]
pub struct CreateThread {
    /// Id of the thread; generated if absent.
    pub id: Option<ThreadId>,
    /// Owner of the thread, if the principal is a whole project.
    pub user: Option<UserId>,
    /// Agent for which the thread is made.
    pub agent: Option<AgentId>,
    /// Name of the thread: 1 to [`MAX_NAME_BYTES`](threadline_core::limits::MAX_NAME_BYTES) bytes, without U+0000.
    pub name: Option<String>,
    /// JSON object, bounded by [`MAX_METADATA_BYTES`](threadline_core::limits::MAX_METADATA_BYTES); empty if absent.
    pub metadata: Option<Map<String, Value>>,
    /// Idempotency key from which the id is derived, or another text that names the request; `None` for any other id. A thread that
    /// was created with it and deleted is not created again for 24 hours at least.
    pub request: Option<String>,
}

/// Change of a thread; `None` keeps a field.
#[derive(Debug, Clone, Default)]
pub struct EditThread {
    /// New name; `Some(None)` removes the name.
    pub name: Option<Option<String>>,
    /// Merge patch (RFC 7396) for the metadata.
    pub metadata: Option<Map<String, Value>>,
    /// New state of the archive flag.
    pub archived: Option<bool>,
}

/// Request for a page of a thread list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Owner of the threads, if the principal is a whole project.
    pub user: Option<UserId>,
    /// True to include archived threads.
    pub include_archived: bool,
    /// Restricts the page to threads of this agent.
    pub agent: Option<AgentId>,
    /// Restricts the page to threads in this state.
    pub status: Option<ThreadStatus>,
    /// Restricts the page to threads whose name matches.
    pub search: Option<NameSearch>,
    /// Order of the page and its cursor.
    pub order: ListOrder,
    /// Position after which the page begins.
    pub after: Option<ListPosition>,
    /// Most threads in the page, clamped to 1..=[`MAX_PAGE`].
    pub limit: usize,
}

/// Use cases of threads.
#[derive(Clone)]
pub struct Threads {
    pub(crate) deps: Arc<ThreadDeps>,
}

/// Dependencies of [`Threads`], shared by its clones.
pub(crate) struct ThreadDeps {
    pub store: DynStore,
    pub directory: Directory,
    pub feed_writer: Arc<FeedWriter>,
    pub listeners: Listeners,
    pub lifecycle: Lifecycle,
    pub queue: FairQueue,
    pub stored: StoredBytes,
}

impl Threads {
    /// Creates a thread. A repeated identical request returns the existing thread.
    pub async fn create(
        &self,
        principal: &Principal,
        create: CreateThread,
    ) -> Result<CreatedThread, CreateThreadError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let user = acting_user(principal, create.user)?;
        if let Some(name) = &create.name {
            check_name(name)?;
        }
        let metadata = canonical(Value::Object(create.metadata.unwrap_or_default()));
        check_metadata(&metadata)?;
        let created_with = fingerprint(create.agent.as_ref(), create.name.as_deref(), &metadata);
        let new = NewThread {
            project: principal.project.clone(),
            id: create.id.unwrap_or_else(ThreadId::generate),
            // Ids of untrusted clients are unique per user: a creation takes none from other users.
            claimed: !principal.is_untrusted(),
            user,
            agent: create.agent,
            name: create.name,
            metadata,
            created_with,
            request: create.request,
        };
        let (user, created_with, requested) = (new.user.clone(), new.created_with.clone(), new.request.is_some());
        let (project, id) = (new.project.clone(), new.id.clone());
        if requested && self.deps.store.was_request_deleted(&project, &id).await? {
            return Err(CreateThreadError::ThreadDeleted);
        }
        if let Err(refused) = self.deps.stored.admit(principal, Storing::Thread).await
            // A repeated request gets the same answer as before.
            && self.deps.store.thread_of(&project, &user, &id).await?.is_none()
        {
            return Err(refused.into());
        }
        let CreatedThread { thread, created } = self.deps.store.create_thread(new).await?;
        if created {
            self.deps.stored.note(&thread.project, &thread.user, Usage { bytes: 0, threads: 1 });
        }
        // The thread may have been deleted between the two statements.
        if created && requested && self.deps.store.was_request_deleted(&project, &id).await? {
            self.deps.store.delete_thread(thread.key, None).await?;
            return Err(CreateThreadError::ThreadDeleted);
        }
        if !created && (thread.user != user || thread.created_with != created_with) {
            return Err(CreateThreadError::ThreadExists);
        }
        if created {
            // The thread's first run usually follows.
            self.deps.directory.remember(&thread, principal.user.as_ref());
            self.deps.feed_writer.mark(&thread.project, &thread.user);
        }
        Ok(CreatedThread { thread, created })
    }

    /// Returns the thread of this id, and creates it if absent: for APIs whose clients choose ids and never create
    /// threads. `request` is the mark of the request from which the id derives, if it does: see [`CreateThread::request`].
    pub async fn ensure(
        &self,
        principal: &Principal,
        id: &ThreadId,
        agent: Option<&AgentId>,
        request: Option<&str>,
    ) -> Result<Thread, CreateThreadError> {
        match self.get(principal, id).await {
            Err(LookupError::ThreadNotFound) => {}
            Ok(thread) => return Ok(thread),
            Err(LookupError::ThreadAmbiguous) => return Err(CreateThreadError::ThreadAmbiguous),
            Err(LookupError::Store(error)) => return Err(error.into()),
        }
        let create = CreateThread {
            id: Some(id.clone()),
            agent: agent.cloned(),
            request: request.map(str::to_owned),
            ..CreateThread::default()
        };
        match self.create(principal, create).await {
            Ok(made) => Ok(made.thread),
            // A concurrent request created the thread, or another user's thread has claimed the id.
            Err(CreateThreadError::ThreadExists) => match self.get(principal, id).await {
                Ok(thread) => Ok(thread),
                Err(LookupError::ThreadNotFound) => Err(CreateThreadError::ThreadExists),
                Err(LookupError::ThreadAmbiguous) => Err(CreateThreadError::ThreadAmbiguous),
                Err(LookupError::Store(error)) => Err(error.into()),
            },
            Err(error) => Err(error),
        }
    }

    /// Reads a thread from the store.
    pub async fn get(&self, principal: &Principal, id: &ThreadId) -> Result<Thread, LookupError> {
        directory::read(&self.deps.store, principal, id).await
    }

    /// A page of a user's threads. A page of a search may be short, or empty, and still have a next page: names are
    /// checked in order, at most [`SEARCH_ROWS`] of them and about [`SEARCH_BYTES`] for a page.
    pub async fn list(&self, principal: &Principal, request: ListRequest) -> Result<ThreadPage, ListError> {
        let list = ListThreads {
            project: principal.project.clone(),
            user: acting_user(principal, request.user)?,
            include_archived: request.include_archived,
            agent: request.agent,
            status: request.status,
            order: request.order,
            after: request.after,
            limit: request.limit.clamp(1, MAX_PAGE),
        };
        match request.search {
            Some(search) => self.search(principal, list, &search).await,
            None => Ok(self.deps.store.list_threads(list).await?),
        }
    }

    /// Reads pages of a list, each in a slice of the queue, and keeps the threads whose name matches.
    async fn search(
        &self,
        principal: &Principal,
        mut list: ListThreads,
        search: &NameSearch,
    ) -> Result<ThreadPage, ListError> {
        let mut work = self.deps.queue.begin(principal).await?;
        let limit = std::mem::replace(&mut list.limit, MAX_PAGE);
        let (mut found, mut feed_cursor, mut looked_at) = (Vec::new(), None, 0);
        for _ in 0..SEARCH_ROWS / MAX_PAGE {
            work.go_on().await?;
            let page = self.deps.store.list_threads(list.clone()).await?;
            work.done(page.threads.len() * SEARCHED_ROW_BYTES, page.threads.len());
            // The cursor of the first page: changes during later reads are reported after it.
            let feed_cursor = *feed_cursor.get_or_insert(page.feed_cursor);
            let last = page.threads.len();
            for (at, thread) in (1..).zip(page.threads) {
                let name = thread.name.as_deref().unwrap_or_default();
                looked_at += name.len();
                if !search.finds(name) {
                    continue;
                }
                let here = ListPosition::of(&thread, list.order);
                found.push(thread);
                if found.len() == limit {
                    let next = if at == last { page.next } else { Some(here) };
                    return Ok(ThreadPage { threads: found, next, feed_cursor });
                }
            }
            list.after = page.next;
            if list.after.is_none() || looked_at >= SEARCH_BYTES {
                break;
            }
        }
        Ok(ThreadPage { threads: found, next: list.after, feed_cursor: feed_cursor.unwrap_or(FeedCursor::START) })
    }

    /// Moves a thread's read mark forward to `seq`. A mark that is already there or beyond stays: a repeated or late
    /// request changes nothing.
    pub async fn mark_read(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        seq: Seq,
    ) -> Result<Thread, MarkReadError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let at = thread.into();
        let thread = self.get(principal, at.id).await?;
        if at.epoch.is_some_and(|epoch| epoch != thread.epoch) {
            self.deps.directory.head_at::<MarkReadError>(thread.key, at.epoch).await?;
        }
        if seq > thread.tail {
            return Err(MarkReadError::CursorAhead { epoch: Some(thread.epoch), tail: thread.tail });
        }
        if seq <= thread.read_seq {
            return Ok(thread);
        }
        let Some(marked) = self.deps.store.mark_read(thread.key, seq, at.epoch).await? else {
            // The tail only grows: the thread was deleted meanwhile, or its log got another epoch.
            self.deps.directory.head_at::<MarkReadError>(thread.key, at.epoch).await?;
            return Err(MarkReadError::ThreadNotFound);
        };
        self.deps.feed_writer.mark(&marked.project, &marked.user);
        Ok(marked)
    }

    /// Edits a thread. A name given here counts as a person's name.
    pub async fn edit(
        &self,
        principal: &Principal,
        thread: impl Into<ThreadAt<'_>>,
        edit: EditThread,
    ) -> Result<Thread, EditThreadError> {
        let at = thread.into();
        self.deps.lifecycle.refuse_if_draining()?;
        if let Some(Some(name)) = &edit.name {
            check_name(name)?;
        }
        for _ in 0..EDIT_TRIES {
            let thread = self.get(principal, at.id).await?;
            if at.epoch.is_some_and(|epoch| epoch != thread.epoch) {
                self.deps.directory.refuse_other_thread::<EditThreadError>(thread.key, at.epoch).await?;
            }
            let metadata = edit.metadata.as_ref().map(|patch| merged(&thread.metadata, patch)).transpose()?;
            let patch = ThreadPatch {
                name: edit.name.clone().map(|name| name.map(|name| (name, NameSource::Person))),
                metadata,
                archived: edit.archived,
            };
            // No difference, as after a lost answer and a retry: the thread is not written.
            if patch.is_met_by(&thread) {
                return Ok(thread);
            }
            if let Some(thread) = self.deps.store.edit_thread(thread.key, thread.version, patch, at.epoch).await? {
                self.deps.feed_writer.mark(&thread.project, &thread.user);
                return Ok(thread);
            }
        }
        Err(StoreError::Unavailable("the thread is changing too fast; try again".into()).into())
    }

    /// Reads the thread of a run; `None` if this incarnation of the thread was deleted.
    pub async fn of_run(&self, notice: &RunNotice) -> Result<Option<Thread>, StoreError> {
        let thread = self.deps.store.thread_of(&notice.project, &notice.user, &notice.thread).await?;
        Ok(thread.filter(|thread| thread.key == notice.key))
    }

    /// Gives the thread of a run a generated name. True if the thread now has this name. `seen` is the source of the
    /// name when this name was requested. A name by a heuristic is stored only for a thread without a name, or replaces
    /// a seen heuristic name; a name by a model also replaces a heuristic name that was not seen. Neither replaces a
    /// person's name, nor a name that a person removed: both may have happened meanwhile.
    pub async fn name(
        &self,
        notice: &RunNotice,
        name: &str,
        source: NameSource,
        seen: Option<NameSource>,
    ) -> Result<bool, EditThreadError> {
        check_name(name)?;
        for _ in 0..EDIT_TRIES {
            // The thread may have been deleted and created again.
            let Some(thread) = self.of_run(notice).await? else { return Ok(false) };
            let is_wanted = match thread.name_source {
                None => seen.is_none(),
                Some(NameSource::Auto) => source == NameSource::Title || seen == Some(NameSource::Auto),
                Some(NameSource::Title | NameSource::Person) => false,
            };
            if !is_wanted {
                return Ok(false);
            }
            let patch = ThreadPatch { name: Some(Some((name.to_owned(), source))), ..ThreadPatch::default() };
            if let Some(thread) = self.deps.store.edit_thread(thread.key, thread.version, patch, None).await? {
                self.deps.feed_writer.mark(&thread.project, &thread.user);
                return Ok(true);
            }
        }
        Err(StoreError::Unavailable("the thread is changing too fast; it is named after a later run".into()).into())
    }
}
