//! Threads: create, look, list, edit, delete.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{RunNotice, ServiceError, context::Context, directory::ThreadRef};
use crate::{
    domain::{
        AgentId, NameSearch, NameSource, NewThread, Principal, Seq, Thread, ThreadId, ThreadPatch, UserId,
        limits::{MAX_METADATA_BYTES, MAX_NAME_BYTES, MAX_PAGE, SEARCH_BYTES, SEARCH_ROWS},
    },
    store::{ListOrder, ListPosition, ListThreads, StoreError, ThreadPage},
};

/// An edit may be overtaken by another this often before the client is asked to come again.
const EDIT_TRIES: usize = 32;

/// What is wanted of a new thread.
#[derive(Debug, Clone, Default)]
pub struct CreateThread {
    /// Its id; made up if absent.
    pub id: Option<ThreadId>,
    /// Its owner, if the principal is a whole project.
    pub user: Option<UserId>,
    /// The agent it is made for.
    pub agent: Option<AgentId>,
    /// Its name.
    pub name: Option<String>,
    /// Its metadata.
    pub metadata: Option<Map<String, Value>>,
}

/// A change of a thread; `None` leaves a field alone.
#[derive(Debug, Clone, Default)]
pub struct EditThread {
    /// A new name; `Some(None)` takes the name away.
    pub name: Option<Option<String>>,
    /// A merge patch (RFC 7396) for the metadata.
    pub metadata: Option<Map<String, Value>>,
    /// Archived or not.
    pub archived: Option<bool>,
}

/// A request for a page of a thread list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Whose threads, if the principal is a whole project.
    pub user: Option<UserId>,
    /// Whether archived ones are shown.
    pub include_archived: bool,
    /// Only those of this agent.
    pub agent: Option<AgentId>,
    /// Only those whose name is found.
    pub search: Option<NameSearch>,
    /// The order.
    pub order: ListOrder,
    /// Where to go on.
    pub after: Option<ListPosition>,
    /// Most threads.
    pub limit: usize,
}

/// The use cases of threads.
#[derive(Clone)]
pub struct Threads {
    pub(super) context: Context,
}

impl Threads {
    /// Makes a thread; `(thread, true)`. The same create again is the same thread: `(it, false)`.
    pub async fn create(&self, principal: &Principal, create: CreateThread) -> Result<(Thread, bool), ServiceError> {
        self.context.refuse_if_draining()?;
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
            user,
            agent: create.agent,
            name: create.name,
            metadata,
            created_with,
        };
        let (user, created_with) = (new.user.clone(), new.created_with.clone());
        let (thread, created) = self.context.store.create_thread(new).await?;
        if !created && (thread.user != user || thread.created_with != created_with) {
            return Err(ServiceError::ThreadExists);
        }
        if created {
            // Most often its first run follows.
            self.context.directory.remember(&thread);
            self.context.feed_writer.mark(&thread.project, &thread.user);
        }
        Ok((thread, created))
    }

    /// The thread of this id, made if there is none: for doors whose clients choose ids and never create.
    pub async fn ensure(
        &self,
        principal: &Principal,
        id: &ThreadId,
        agent: Option<&AgentId>,
    ) -> Result<Thread, ServiceError> {
        match self.get(principal, id).await {
            Err(ServiceError::ThreadNotFound) => {}
            found => return found,
        }
        let create = CreateThread { id: Some(id.clone()), agent: agent.cloned(), ..CreateThread::default() };
        match self.create(principal, create).await {
            Ok((thread, _)) => Ok(thread),
            // Somebody was quicker: the same principal, or the id is another's.
            Err(ServiceError::ThreadExists) => match self.get(principal, id).await {
                Err(ServiceError::ThreadNotFound) => Err(ServiceError::ThreadExists),
                found => found,
            },
            Err(error) => Err(error),
        }
    }

    /// A thread as it is now.
    pub async fn get(&self, principal: &Principal, id: &ThreadId) -> Result<Thread, ServiceError> {
        let thread = self.context.store.thread(&principal.project, id).await?;
        thread.filter(|thread| principal.may_access_thread(thread)).ok_or(ServiceError::ThreadNotFound)
    }

    /// A page of a user's threads. One of a search may be short, or empty, and have another one behind it: names are looked
    /// at in order, at most [`SEARCH_ROWS`] of them and about [`SEARCH_BYTES`] for a page.
    pub async fn list(&self, principal: &Principal, request: ListRequest) -> Result<ThreadPage, ServiceError> {
        let list = ListThreads {
            project: principal.project.clone(),
            user: acting_user(principal, request.user)?,
            include_archived: request.include_archived,
            agent: request.agent,
            order: request.order,
            after: request.after,
            limit: request.limit.clamp(1, MAX_PAGE),
        };
        match request.search {
            Some(search) => self.search(list, &search).await,
            None => Ok(self.context.store.list_threads(list).await?),
        }
    }

    /// Pages through a list for the threads whose name is found.
    async fn search(&self, mut list: ListThreads, search: &NameSearch) -> Result<ThreadPage, ServiceError> {
        let limit = std::mem::replace(&mut list.limit, MAX_PAGE);
        let (mut found, mut feed_cursor, mut looked_at) = (Vec::new(), None, 0);
        for _ in 0..SEARCH_ROWS / MAX_PAGE {
            let page = self.context.store.list_threads(list.clone()).await?;
            // That of the first page: what changes while others are read is told after it.
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
        Ok(ThreadPage { threads: found, next: list.after, feed_cursor: feed_cursor.unwrap_or(0) })
    }

    /// Moves the mark of up to where a thread was read forward to `seq`. One that is as far already stays where it is: sent
    /// again, or late, it changes nothing.
    pub async fn mark_read(&self, principal: &Principal, id: &ThreadId, seq: Seq) -> Result<Thread, ServiceError> {
        self.context.refuse_if_draining()?;
        let thread = self.get(principal, id).await?;
        if seq > thread.tail {
            return Err(ServiceError::CursorAhead { epoch: Some(thread.epoch), tail: thread.tail });
        }
        if seq <= thread.read_seq {
            return Ok(thread);
        }
        // A tail only grows: if this one is not found any more, its thread was deleted meanwhile.
        let marked = self.context.store.mark_read(thread.key, seq).await?.ok_or(ServiceError::ThreadNotFound)?;
        self.context.feed_writer.mark(&marked.project, &marked.user);
        Ok(marked)
    }

    /// Changes a thread. A name given here is a person's.
    pub async fn edit(&self, principal: &Principal, id: &ThreadId, edit: EditThread) -> Result<Thread, ServiceError> {
        self.context.refuse_if_draining()?;
        if let Some(Some(name)) = &edit.name {
            check_name(name)?;
        }
        for _ in 0..EDIT_TRIES {
            let thread = self.get(principal, id).await?;
            let metadata = edit.metadata.as_ref().map(|patch| merged(&thread.metadata, patch)).transpose()?;
            let patch = ThreadPatch {
                name: edit.name.clone().map(|name| name.map(|name| (name, NameSource::Person))),
                metadata,
                archived: edit.archived,
            };
            // Nothing to change, as when an answer was lost and the edit comes again: then nothing is.
            if patch.is_met_by(&thread) {
                return Ok(thread);
            }
            if let Some(thread) = self.context.store.edit_thread(thread.key, thread.version, patch).await? {
                self.context.feed_writer.mark(&thread.project, &thread.user);
                return Ok(thread);
            }
        }
        Err(StoreError::Unavailable("the thread is changing too fast; try again".into()).into())
    }

    /// The thread of a run, as it is now; `None` if this incarnation of it is gone.
    pub async fn of_run(&self, notice: &RunNotice) -> Result<Option<Thread>, ServiceError> {
        let thread = self.context.store.thread(&notice.project, &notice.thread).await?;
        Ok(thread.filter(|thread| thread.key == notice.key))
    }

    /// Gives the thread of a run a name of ours; whether it has it now. `seen` is who had named it when this name was asked
    /// for. A name by a heuristic comes only where there is none, or in place of one like it that was seen, one by a model also
    /// in place of that, and neither in place of a person's, or where a person took one away: both may have come meanwhile.
    pub async fn name(
        &self,
        notice: &RunNotice,
        name: &str,
        source: NameSource,
        seen: Option<NameSource>,
    ) -> Result<bool, ServiceError> {
        check_name(name)?;
        for _ in 0..EDIT_TRIES {
            // It may have been deleted, and made again.
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
            if let Some(thread) = self.context.store.edit_thread(thread.key, thread.version, patch).await? {
                self.context.feed_writer.mark(&thread.project, &thread.user);
                return Ok(true);
            }
        }
        Err(StoreError::Unavailable("the thread is changing too fast; it is named after a later run".into()).into())
    }

    /// Deletes a thread and all of its log. An active run is over. A user who deletes their thread again is told the
    /// same again.
    pub async fn delete(&self, principal: &Principal, id: &ThreadId) -> Result<(), ServiceError> {
        self.context.refuse_if_draining()?;
        match self.get(principal, id).await {
            Ok(thread) => {
                let thread = ThreadRef::from(&thread);
                // False if another delete was quicker: gone it is.
                self.context.store.delete_thread(thread.key).await?;
                self.context.deleted(&thread);
                Ok(())
            }
            Err(ServiceError::ThreadNotFound) => {
                let Some(user) = &principal.user else { return Err(ServiceError::ThreadNotFound) };
                let again = self.context.store.was_deleted(&principal.project, user, id).await?;
                if again { Ok(()) } else { Err(ServiceError::ThreadNotFound) }
            }
            Err(error) => Err(error),
        }
    }
}

/// On whose behalf the principal acts: itself, or, if it is a whole project, the user it names.
pub(super) fn acting_user(principal: &Principal, named: Option<UserId>) -> Result<UserId, ServiceError> {
    match (&principal.user, named) {
        (Some(user), None) => Ok(user.clone()),
        (Some(user), Some(named)) if *user == named => Ok(named),
        (Some(_), Some(_)) => {
            Err(ServiceError::InvalidRequest("userId names another user than the one who asks; leave it out".into()))
        }
        (None, Some(named)) => Ok(named),
        (None, None) => Err(ServiceError::InvalidRequest(
            "say for which user: the header Threadline-User, userId, or --user of the command line".into(),
        )),
    }
}

fn check_name(name: &str) -> Result<(), ServiceError> {
    // Postgres keeps no text with U+0000, and the rule is the same everywhere.
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(ServiceError::InvalidRequest(format!("name has 1 to {MAX_NAME_BYTES} bytes, and no U+0000")));
    }
    Ok(())
}

fn check_metadata(metadata: &str) -> Result<(), ServiceError> {
    if metadata.len() > MAX_METADATA_BYTES {
        return Err(ServiceError::InvalidRequest(format!("metadata has at most {MAX_METADATA_BYTES} bytes of JSON")));
    }
    Ok(())
}

/// Digest of what a create asks for, so that its repetition is told from another create of the same id.
fn fingerprint(agent: Option<&AgentId>, name: Option<&str>, metadata: &str) -> String {
    let asked = serde_json::json!([agent, name, metadata]).to_string();
    let digest = Sha256::digest(asked.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn merged(metadata: &str, patch: &Map<String, Value>) -> Result<String, ServiceError> {
    let mut value = serde_json::from_str(metadata)
        .map_err(|error| StoreError::Corrupt(format!("metadata is not JSON: {error}")))?;
    merge(&mut value, patch);
    let text = canonical(value);
    check_metadata(&text)?;
    Ok(text)
}

/// The text of metadata, the same in whatever order its members came: a repeated request is known by it.
fn canonical(mut metadata: Value) -> String {
    metadata.sort_all_objects();
    metadata.to_string()
}

/// RFC 7396: members of the patch replace or, where null, remove; objects are merged.
fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(name);
            }
            Value::Object(inner) => merge(target.entry(name.clone()).or_insert(Value::Null), inner),
            other => {
                target.insert(name.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_follows_rfc_7396() {
        let cases = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":"foo"}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
        ];
        for (mut target, patch, want) in cases {
            merge(&mut target, patch.as_object().expect("object"));
            assert_eq!(target, want);
        }
    }
}
