//! The table of jobs.

use std::collections::BTreeMap;

use threadline_core::{ThreadKey, Timestamp};

use crate::{JobKind, JobSubject};

/// A job that waits or is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) due_at: Timestamp,
    pub(super) tries: u64,
}

/// The jobs, at most one of a kind for a subject.
#[derive(Debug, Clone, Default)]
pub(super) struct Jobs {
    pub(super) all: BTreeMap<(JobKind, JobSubject), Stored>,
}

impl Jobs {
    /// Puts a job, unless there is one.
    pub(super) fn put(&mut self, kind: JobKind, key: ThreadKey, due_at: Timestamp) {
        self.all.entry((kind, JobSubject::Thread(key))).or_insert(Stored { due_at, tries: 0 });
    }

    /// Puts a job in place of the one there is.
    pub(super) fn put_anew(&mut self, kind: JobKind, key: ThreadKey, due_at: Timestamp) {
        self.all.insert((kind, JobSubject::Thread(key)), Stored { due_at, tries: 0 });
    }

    /// Removes all jobs of a thread.
    pub(super) fn forget(&mut self, key: ThreadKey) {
        self.all.retain(|(_, other), _| *other != JobSubject::Thread(key));
    }

    /// The jobs of a kind.
    pub(super) fn of(&self, kind: JobKind) -> impl Iterator<Item = &Stored> {
        self.all.iter().filter(move |((other, _), _)| *other == kind).map(|(_, stored)| stored)
    }
}
