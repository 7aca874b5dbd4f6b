//! Appends to many threads: cut into commits, and tried alone where a commit failed.

use std::{collections::HashSet, ops::Range};

use async_trait::async_trait;

use super::corrupt;
use crate::{
    domain::{RunId, RunStatus, Terminal, Timestamp, limits::COMMIT_MAX_BYTES},
    store::{Append, Appended, Closing, Head, StoreError, StoreResult},
};

/// How a run ends.
pub(in crate::store) struct End {
    pub(in crate::store) status: RunStatus,
    pub(in crate::store) code: Option<String>,
    pub(in crate::store) message: Option<String>,
    pub(in crate::store) usage: Option<String>,
}

impl End {
    /// As its own terminal event says.
    pub(in crate::store) fn by(terminal: &Terminal, stopped: bool) -> Self {
        match terminal.clone() {
            Terminal::Finished { usage } => {
                let status = if stopped { RunStatus::Stopped } else { RunStatus::Finished };
                Self { status, code: None, message: None, usage }
            }
            Terminal::Error { code, message, usage } => Self { status: RunStatus::Error, code, message, usage },
        }
    }

    /// As its closer says.
    pub(in crate::store) fn closing(closing: &Closing) -> Self {
        let (code, message) = (closing.error_code.clone(), closing.error_message.clone());
        Self { status: closing.status, code, message, usage: None }
    }
}

/// The answer to an append that left `head` behind.
pub(in crate::store) fn appended(
    append: &Append,
    head: Head,
    producer_seq: u64,
    run: RunId,
    at: Timestamp,
) -> StoreResult<Appended> {
    let first_seq = (head.tail + 1).checked_sub(append.events.count() as u64);
    let first_seq = first_seq.ok_or_else(|| corrupt("a tail below its own events"))?;
    Ok(Appended { first_seq, at, run, head, producer_seq })
}

/// Cuts a batch into groups that fit into one commit each: no thread twice, and bounded in bytes.
fn groups(batch: &[Append]) -> Vec<Range<usize>> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    let mut seen = HashSet::with_capacity(batch.len());
    for (index, append) in batch.iter().enumerate() {
        let size = append.events.body().len();
        if index > start && (!seen.insert(append.key) || bytes + size > 2 * COMMIT_MAX_BYTES) {
            groups.push(start..index);
            (start, bytes) = (index, 0);
            seen.clear();
        }
        seen.insert(append.key);
        bytes += size;
    }
    groups.push(start..batch.len());
    groups
}

/// A back-end that commits a group: no thread twice, everything of it or nothing.
#[async_trait]
pub(in crate::store) trait GroupCommit: Sync {
    async fn commit_group(&self, group: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure>;
}

/// Why a group was not committed.
pub(in crate::store) struct GroupFailure {
    pub(in crate::store) error: StoreError,
    /// Nothing of it is left, and it may be the fault of a single entry: the others can be tried without it.
    pub(in crate::store) divisible: bool,
}

/// What [`crate::store::LogStore::append`] promises, over a back-end that commits groups.
pub(in crate::store) async fn append_all(
    store: &impl GroupCommit,
    batch: &[Append],
) -> StoreResult<Vec<Option<Appended>>> {
    let mut answers = Vec::with_capacity(batch.len());
    for range in groups(batch).into_iter().filter(|range| !range.is_empty()) {
        let group = &batch[range];
        match store.commit_group(group.to_vec()).await {
            Ok(done) => answers.extend(done),
            Err(GroupFailure { error, divisible }) if batch.len() == 1 || !divisible => return Err(error),
            Err(GroupFailure { error, .. }) => {
                tracing::warn!(%error, threads = group.len(), "a group commit failed; its entries are tried alone");
                answers.extend(append_alone(store, group, error).await?);
            }
        }
    }
    Ok(answers)
}

/// Nothing of a failed group is left: each entry is tried by itself, so that one cannot fail the others. An
/// entry that fails again is answered with `None` if any other was committed: asked again alone it fails with
/// its own error.
async fn append_alone(
    store: &impl GroupCommit,
    group: &[Append],
    first: StoreError,
) -> StoreResult<Vec<Option<Appended>>> {
    let mut answers = Vec::with_capacity(group.len());
    let mut failed = 0;
    for append in group {
        match store.commit_group(vec![append.clone()]).await {
            Ok(mut done) => answers.push(done.pop().flatten()),
            Err(GroupFailure { error, divisible: false }) => return Err(error),
            Err(GroupFailure { error, .. }) => {
                tracing::error!(%error, thread = append.key.0, "an append failed");
                failed += 1;
                answers.push(None);
            }
        }
    }
    if failed == group.len() { Err(first) } else { Ok(answers) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Epoch, Fence, NewEvents, ThreadKey},
        store::Head,
    };

    /// Refuses groups; alone, thread 1 is taken, and what becomes of the others is said by `divisible`.
    struct Refusing {
        divisible: bool,
    }

    #[async_trait]
    impl GroupCommit for Refusing {
        async fn commit_group(&self, group: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure> {
            let failure = |divisible| GroupFailure { error: StoreError::Unavailable("refused".to_owned()), divisible };
            match group.as_slice() {
                [append] if append.key == ThreadKey(1) => {
                    let head =
                        Head { key: append.key, epoch: Epoch::generate(), tail: 1, fence: append.fence, active: None };
                    let run = RunId::new("r").expect("id");
                    Ok(vec![appended(append, head, 1, run, Timestamp(0)).ok()])
                }
                [_] => Err(failure(self.divisible)),
                _ => Err(failure(true)),
            }
        }
    }

    #[tokio::test]
    async fn an_entry_of_unknown_fate_is_not_asked_for_again() {
        let events = NewEvents::from_ndjson(b"{\"type\":\"X\"}\n").expect("events");
        let append = |key| Append { key: ThreadKey(key), fence: Fence(1), producer_seq: None, events: events.clone() };
        let batch = [append(1), append(2)];
        let refused = append_all(&Refusing { divisible: true }, &batch).await.expect("one of them");
        assert_eq!(refused.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        let unknown = append_all(&Refusing { divisible: false }, &batch).await;
        assert!(matches!(unknown, Err(StoreError::Unavailable(_))), "{unknown:?}");
    }
}
