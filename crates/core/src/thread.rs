//! Threads, the durable containers of conversations.

use serde::{Deserialize, Serialize};

use super::{AgentId, Branch, Epoch, LastRun, ProjectId, QueueState, Run, ThreadId, ThreadKey, Timestamp, UserId};
use crate::seq::Seq;

/// Source of a thread's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameSource {
    /// Threadline, by a heuristic.
    Auto,
    /// Threadline, by a model.
    Title,
    /// A person, or a program on a person's behalf. Threadline never overwrites such a name.
    Person,
}

impl NameSource {
    /// All sources, in the order of their stored numbers from 0.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Title, Self::Person];

    /// Source with this stored number; `None` if there is none.
    pub fn from_i64(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Thread as its owner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Number that the store gives to this incarnation of the thread.
    pub key: ThreadKey,
    /// Project that the thread belongs to.
    pub project: ProjectId,
    /// Id of the thread, unique among the threads of its user, and among the claimed ids of its project.
    pub id: ThreadId,
    /// True if no other thread of the project can claim the id: a key made the thread, and not an untrusted client.
    pub claimed: bool,
    /// Incarnation of the thread's log.
    pub epoch: Epoch,
    /// User who owns the thread.
    pub user: UserId,
    /// Agent that the thread was made for, else the agent of its first run that has one.
    pub agent: Option<AgentId>,
    /// Name of the thread; `None` if it has none.
    pub name: Option<String>,
    /// Source of the name; `None` if there is no name.
    pub name_source: Option<NameSource>,
    /// True if the thread is archived, which hides it from lists.
    pub archived: bool,
    /// Metadata: a JSON object, as text.
    pub metadata: String,
    /// Time at which the thread was made.
    pub created_at: Timestamp,
    /// Time of the last edit; an append is no edit.
    pub updated_at: Timestamp,
    /// Time at which a run of the thread last began or ended; `None` if it had no run.
    pub last_run_at: Option<Timestamp>,
    /// Number that grows with every change of this row; edits compare it.
    pub version: i64,
    /// Digest of the request that made the thread: the same create again is the same thread.
    pub created_with: String,
    /// Seq of the newest event, 0 if there is none.
    pub tail: Seq,
    /// Seq up to which the owner has read the thread, 0 if never; at most the tail. Only moves forward.
    pub read_seq: Seq,
    /// Run that holds the thread; `None` if no run is active.
    pub active_run: Option<Run>,
    /// State of the newest run, which is the active one if there is one; `None` if the thread had no run.
    pub last_run: Option<LastRun>,
    /// Number of interrupts that wait for an answer, see [`interrupt`](crate::interrupt).
    pub open_interrupts: u64,
    /// State of the queue of turns.
    pub queue: QueueState,
    /// Place among the branches of the conversation.
    pub branch: Branch,
}

/// State of a thread, by its newest run and its open interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadStatus {
    /// A run is active.
    Running,
    /// No run is active, and an interrupt is open.
    Waiting,
    /// No run is active, no interrupt is open, and the last run failed ([`RunStatus::is_failure`](crate::RunStatus::is_failure)).
    Failed,
    /// None of these: the last run finished or was stopped, or there was none.
    Idle,
}

impl Thread {
    /// State of the thread, by its newest run and its open interrupts.
    pub fn status(&self) -> ThreadStatus {
        match &self.last_run {
            _ if self.active_run.is_some() => ThreadStatus::Running,
            _ if self.open_interrupts > 0 => ThreadStatus::Waiting,
            Some(last) if last.status.is_failure() => ThreadStatus::Failed,
            _ => ThreadStatus::Idle,
        }
    }
}

/// Thread after a request to create it.
#[derive(Debug, Clone)]
pub struct CreatedThread {
    /// Thread as it is stored.
    pub thread: Thread,
    /// True if the request created it; false if the id was taken.
    pub created: bool,
}

/// Thread that is to be made.
#[derive(Debug, Clone)]
pub struct NewThread {
    /// Project that the thread is to belong to.
    pub project: ProjectId,
    /// Id of the thread. The user has no other thread of this id.
    pub id: ThreadId,
    /// True to claim the id in the project, see [`Thread::claimed`].
    pub claimed: bool,
    /// User who is to own the thread.
    pub user: UserId,
    /// Agent that the thread is made for, if any.
    pub agent: Option<AgentId>,
    /// Name of the thread, given by a person; `None` for no name.
    pub name: Option<String>,
    /// Metadata: a JSON object, as text.
    pub metadata: String,
    /// Digest of the request; see [`Thread::created_with`].
    pub created_with: String,
    /// Idempotency key of the request, from which the id is derived; `None` if the request has none.
    pub request: Option<String>,
}

impl NewThread {
    /// Source of the name, which is always a person; `None` if there is no name.
    pub fn name_source(&self) -> Option<NameSource> {
        self.name.as_ref().map(|_| NameSource::Person)
    }

    /// Thread as it is stored, with the key and the epoch that its store gives it.
    pub fn made(self, key: ThreadKey, epoch: Epoch, now: Timestamp) -> Thread {
        Thread {
            key,
            epoch,
            name_source: self.name_source(),
            project: self.project,
            id: self.id,
            claimed: self.claimed,
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
            last_run: None,
            open_interrupts: 0,
            queue: QueueState::default(),
            branch: Branch::default(),
        }
    }
}

/// New values for some of a thread's fields; `None` leaves a field as it is.
#[derive(Debug, Clone, Default)]
pub struct ThreadPatch {
    /// Name and its source; `Some(None)` removes the name.
    pub name: Option<Option<(String, NameSource)>>,
    /// Complete new metadata object, as JSON text.
    pub metadata: Option<String>,
    /// True archives the thread, false makes it visible in lists again.
    pub archived: Option<bool>,
}

impl ThreadPatch {
    /// True if the thread has all of these values already.
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
