//! Threads: the durable container of a conversation.

use serde::{Deserialize, Serialize};

use super::{AgentId, Epoch, ProjectId, Run, Seq, ThreadId, ThreadKey, Timestamp, UserId};

/// Who gave a thread its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameSource {
    /// Threadline, by a heuristic.
    Auto,
    /// Threadline, by a model.
    Title,
    /// A person or a program of theirs; never overwritten by us.
    Person,
}

impl NameSource {
    /// All of them, in the order of their stored numbers.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Title, Self::Person];

    /// From the stored number.
    pub fn from_i64(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A thread as its owner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// The store's own number for this incarnation.
    pub key: ThreadKey,
    /// Its tenant.
    pub project: ProjectId,
    /// Its id, unique in the project.
    pub id: ThreadId,
    /// The incarnation of its log.
    pub epoch: Epoch,
    /// Its owner.
    pub user: UserId,
    /// The agent it was made for, or that of its first run which has one.
    pub agent: Option<AgentId>,
    /// Its name.
    pub name: Option<String>,
    /// Who gave the name.
    pub name_source: Option<NameSource>,
    /// Whether it is hidden from lists.
    pub archived: bool,
    /// A JSON object, as text.
    pub metadata: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last edited (not: appended to).
    pub updated_at: Timestamp,
    /// When a run of it last began or ended.
    pub last_run_at: Option<Timestamp>,
    /// Counts the changes of this row; edits compare it.
    pub version: i64,
    /// Digest of the request that made it: the same create again is the same thread.
    pub created_with: String,
    /// Seq of its newest event, 0 if none.
    pub tail: Seq,
    /// Up to which event its owner has read it, 0 if never; at most the tail. Only moves forward.
    pub read_seq: Seq,
    /// The run that holds it.
    pub active_run: Option<Run>,
}

/// What is needed to make a thread.
#[derive(Debug, Clone)]
pub struct NewThread {
    /// Its tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: ThreadId,
    /// Its owner.
    pub user: UserId,
    /// The agent it is made for.
    pub agent: Option<AgentId>,
    /// Its name, given by a person.
    pub name: Option<String>,
    /// A JSON object, as text.
    pub metadata: String,
    /// See [`Thread::created_with`].
    pub created_with: String,
}

impl NewThread {
    /// Who gave the name, if there is one.
    pub fn name_source(&self) -> Option<NameSource> {
        self.name.as_ref().map(|_| NameSource::Person)
    }

    /// The thread that is made of it, with the key and the epoch that its store gives it.
    pub fn made(self, key: ThreadKey, epoch: Epoch, now: Timestamp) -> Thread {
        Thread {
            key,
            epoch,
            name_source: self.name_source(),
            project: self.project,
            id: self.id,
            user: self.user,
            agent: self.agent,
            name: self.name,
            archived: false,
            metadata: self.metadata,
            created_at: now,
            updated_at: now,
            last_run_at: None,
            version: 1,
            created_with: self.created_with,
            tail: 0,
            read_seq: 0,
            active_run: None,
        }
    }
}

/// New values for some of a thread's fields; `None` leaves a field alone.
#[derive(Debug, Clone, Default)]
pub struct ThreadPatch {
    /// The name and who gave it; `Some(None)` takes the name away.
    pub name: Option<Option<(String, NameSource)>>,
    /// The whole new metadata object, as text.
    pub metadata: Option<String>,
    /// Archived or not.
    pub archived: Option<bool>,
}

impl ThreadPatch {
    /// Whether the thread has all of these values already.
    pub fn is_met_by(&self, thread: &Thread) -> bool {
        let named = |name: &Option<(String, NameSource)>| {
            (&thread.name, thread.name_source)
                == (&name.as_ref().map(|name| name.0.clone()), name.as_ref().map(|name| name.1))
        };
        self.name.as_ref().is_none_or(named)
            && self.metadata.as_ref().is_none_or(|metadata| *metadata == thread.metadata)
            && self.archived.is_none_or(|archived| archived == thread.archived)
    }
}
