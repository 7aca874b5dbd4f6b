//! Who follows a thread here: what is shown to people who look after it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};

use crate::domain::{Principal, RunId, Seq, Timestamp, UserId};

/// How a reader gets its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The native socket.
    Socket,
    /// An event stream.
    Sse,
    /// A request that waits for the next events.
    LongPoll,
    /// Lines, as long as the request lasts.
    Ndjson,
    /// A run over AG-UI's HTTP.
    AgUi,
    /// CopilotKit's pages and runners, through either door.
    Copilotkit,
}

/// A reader, as it was when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reader {
    /// How.
    pub via: Via,
    /// The end user, unless it is a whole project.
    pub user: Option<UserId>,
    /// What it was let in by: `development`, `operator`, `key:<id>`, `lent` (a page that acts with a key's rights), `user`.
    pub credential: String,
    /// The run that it is bounded to.
    pub run: Option<RunId>,
    /// Since when.
    pub since: Timestamp,
}

impl Reader {
    /// A reader that begins now.
    pub fn new(principal: &Principal, via: Via, run: Option<&RunId>, since: Timestamp) -> Self {
        let credential = principal.credential.label();
        Self { via, user: principal.user.clone(), credential, run: run.cloned(), since }
    }
}

/// A reader and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Follower {
    /// Who.
    #[serde(flatten)]
    pub reader: Reader,
    /// Seq of the last event that was handed on to it.
    pub cursor: Seq,
}

/// The followers of one thread on this node, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Roll {
    entries: Mutex<(u64, BTreeMap<u64, Arc<Entry>>)>,
}

#[derive(Debug)]
struct Entry {
    reader: Reader,
    cursor: AtomicU64,
}

/// A place on the [`Roll`]; to be given back with [`Roll::leave`].
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    entry: Arc<Entry>,
}

impl Place {
    /// The reader has come this far.
    pub(super) fn at(&self, cursor: Seq) {
        self.entry.cursor.store(cursor, Ordering::Relaxed);
    }
}

impl Roll {
    fn entries(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Arc<Entry>>)> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, reader: Reader, cursor: Seq) -> Place {
        let entry = Arc::new(Entry { reader, cursor: AtomicU64::new(cursor) });
        let mut entries = self.entries();
        entries.0 += 1;
        let number = entries.0;
        entries.1.insert(number, entry.clone());
        Place { number, entry }
    }

    pub(super) fn leave(&self, place: &Place) {
        self.entries().1.remove(&place.number);
    }

    /// Up to so many, and how many there are.
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
