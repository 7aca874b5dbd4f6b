//! Appends to many threads: split into commits, and retried alone after a commit failed.

use std::{collections::HashSet, ops::Range};

use async_trait::async_trait;
use threadline_core::{QueueState, RunId, RunStatus, Terminal, Timestamp, limits::COMMIT_MAX_BYTES};

use super::corrupt;
use crate::{Append, Appended, Closing, Head, StoreError, StoreResult};

/// The end of a run, as its record keeps it.
pub(crate) struct End {
    pub(crate) status: RunStatus,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) usage: Option<String>,
    /// Interrupts that the end requests, see [`threadline_core::interrupt::requested`].
    pub(crate) interrupts: Option<String>,
}

impl End {
    /// The end that the run's own terminal event describes.
    pub(crate) fn by(terminal: &Terminal, stopped: bool) -> Self {
        let (status, code, message) = terminal.end(stopped);
        Self { status, code, message, usage: None, interrupts: None }.saying(Some(terminal))
    }

    /// The end with what the terminal event says besides.
    fn saying(self, terminal: Option<&Terminal>) -> Self {
        let usage = terminal.and_then(Terminal::usage).map(str::to_owned);
        let interrupts = terminal.and_then(Terminal::interrupts).map(str::to_owned);
        Self { usage, interrupts, ..self }
    }

    /// The end that a closing describes, whose events are the last ones of the run's producer or of its closer.
    pub(crate) fn of_events(closing: &Closing) -> Self {
        Self::closing(closing).saying(closing.events.as_ref().and_then(|events| events.terminal()))
    }

    /// The end that a closing describes.
    pub(crate) fn closing(closing: &Closing) -> Self {
        let (code, message) = (closing.error_code.clone(), closing.error_message.clone());
        Self { status: closing.status, code, message, usage: None, interrupts: None }
    }
}

/// The answer to an append that left `head` behind.
pub(crate) fn appended(
    append: &Append,
    head: Head,
    producer_seq: u64,
    run: RunId,
    at: Timestamp,
) -> StoreResult<Appended> {
    let first_seq = (head.tail + 1).checked_sub(append.events.count() as u64);
    let first_seq = first_seq.ok_or_else(|| corrupt("a tail below its own events"))?;
    let head = Head { queue: QueueState::default(), ..head };
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

/// A back-end that commits a group: no thread twice, all entries or none.
#[async_trait]
pub(crate) trait GroupCommit: Sync {
    async fn commit_group(&self, group: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure>;
}

/// Failure of a group commit.
pub(crate) struct GroupFailure {
    pub(crate) error: StoreError,
    /// True if no entry is committed, and a single entry may be the cause: the others can be tried without it.
    pub(crate) divisible: bool,
}

/// Implements [`crate::LogStore::append`] over a back-end that commits groups.
pub(crate) async fn append_all(store: &impl GroupCommit, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
    let mut answers = Vec::with_capacity(batch.len());
    for range in groups(batch).into_iter().filter(|range| !range.is_empty()) {
        let group = &batch[range];
        match store.commit_group(group.to_vec()).await {
            Ok(done) => answers.extend(done),
            Err(GroupFailure { error, divisible }) if batch.len() == 1 || !divisible => return Err(error),
            Err(GroupFailure { error, .. }) => {
                tracing::warn!(%error, threads = group.len(), "a group commit failed; retrying its entries one by one");
                answers.extend(append_alone(store, group, error).await?);
            }
        }
    }
    Ok(answers)
}

/// Retries each entry of a failed group alone, so that one cannot fail the others: none of the group is committed. An
/// entry that fails again is answered with `None` if any other was committed: appended again alone, it fails with its
/// own error.
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
    use threadline_core::{Epoch, Fence, Generation, NewEvents, ThreadKey};

    use super::*;
    use crate::Head;

    /// Refuses groups. Alone, thread 1 is committed, and every other fails with `divisible` as given.
    struct Refusing {
        divisible: bool,
    }

    #[async_trait]
    impl GroupCommit for Refusing {
        async fn commit_group(&self, group: Vec<Append>) -> Result<Vec<Option<Appended>>, GroupFailure> {
            let failure = |divisible| GroupFailure { error: StoreError::Unavailable("refused".to_owned()), divisible };
            match group.as_slice() {
                [append] if append.key == ThreadKey(1) => {
                    let head = Head {
                        key: append.key,
                        epoch: Epoch::generate(),
                        tail: 1,
                        fence: append.fence.run,
                        driver: append.fence.driver,
                        active: None,
                        generation: Generation::FIRST,
                        prior: None,
                        queue: QueueState::default(),
                    };
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
        let append = |key| Append {
            key: ThreadKey(key),
            fence: Fence(1).into(),
            epoch: None,
            producer_seq: None,
            events: events.clone(),
        };
        let batch = [append(1), append(2)];
        let refused = append_all(&Refusing { divisible: true }, &batch).await.expect("one of them");
        assert_eq!(refused.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        let unknown = append_all(&Refusing { divisible: false }, &batch).await;
        assert!(matches!(unknown, Err(StoreError::Unavailable(_))), "{unknown:?}");
    }
}
