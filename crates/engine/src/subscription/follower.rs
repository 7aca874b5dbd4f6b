//! Followers of a thread on this node, as administrators see them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use threadline_core::{Principal, RunId, Seq, Timestamp, UserId};

/// Transport by which a reader gets its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FollowMethod {
    /// WebSocket of the native API.
    Socket,
    /// Event stream of the native API.
    Sse,
    /// Request that waits for the next events.
    LongPoll,
    /// Lines of JSON, for as long as the request lasts.
    Ndjson,
    /// Run over the HTTP of AG-UI.
    AgUi,
    /// Message of a chat of the Vercel AI SDK.
    AiSdk,
    /// Thread over the streaming protocol of LangGraph.
    #[serde(rename = "langgraph")]
    LangGraph,
    /// Response of the OpenAI API.
    Openai,
    /// Live read of a stream of the Durable Streams protocol.
    DurableStreams,
    /// Pages and runners of CopilotKit, through its runtime or its Intelligence API.
    Copilotkit,
}

/// Reader of a thread, as it was when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reader {
    /// Transport of the events.
    pub via: FollowMethod,
    /// The end user; `None` if the reader is a whole project.
    pub user: Option<UserId>,
    /// Label of the credential: `development`, `operator`, `key:<id>`, `lent` (a page that acts with a key's rights),
    /// `user`.
    pub credential: String,
    /// The run that the reader is bounded to.
    pub run: Option<RunId>,
    /// Time at which the reader began.
    pub since: Timestamp,
}

impl Reader {
    /// A reader that begins at `since`.
    pub fn new(principal: &Principal, via: FollowMethod, run: Option<&RunId>, since: Timestamp) -> Self {
        let credential = principal.credential.label();
        Self { via, user: principal.user.clone(), credential, run: run.cloned(), since }
    }
}

/// Reader of a thread with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Follower {
    /// The reader as it was when it began.
    #[serde(flatten)]
    pub reader: Reader,
    /// Seq of the last event that was delivered to the reader.
    pub cursor: Seq,
}

/// Followers of one thread on this node, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Roll {
    entries: Mutex<(u64, BTreeMap<u64, Arc<Entry>>)>,
}

#[derive(Debug)]
struct Entry {
    reader: Reader,
    cursor: AtomicU64,
}

/// Entry in the [`Roll`]; must be removed with [`Roll::leave`].
#[derive(Debug)]
pub(super) struct FollowerEntry {
    number: u64,
    entry: Arc<Entry>,
}

impl FollowerEntry {
    /// Sets the seq up to which the reader has received events.
    pub(super) fn at(&self, cursor: Seq) {
        self.entry.cursor.store(cursor, Ordering::Relaxed);
    }
}

impl Roll {
    fn entries(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Entry>>)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, reader: Reader, cursor: Seq) -> FollowerEntry {
        let entry = Arc::new(Entry { reader, cursor: AtomicU64::new(cursor) });
        let mut entries = self.entries();
        entries.0 += 1;
        let number = entries.0;
        entries.1.insert(number, entry.clone());
        FollowerEntry { number, entry }
    }

    pub(super) fn leave(&self, place: &FollowerEntry) {
        self.entries().1.remove(&place.number);
    }

    /// At most `most` followers, and their total number.
    pub(super) fn list(&self, most: usize) -> (Vec<Follower>, usize) {
        let entries = self.entries();
        let listed = entries
            .1
            .values()
            .take(most)
            .map(|entry| Follower { reader: entry.reader.clone(), cursor: entry.cursor.load(Ordering::Relaxed) });
        (listed.collect(), entries.1.len())
    }
}
