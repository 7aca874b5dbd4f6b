//! Planted bugs: the simulation is of use only if it finds each of them.

use threadline_store::{Append, Appended, DynStore, StoreResult};

/// The simulated product: the real one, or one with a planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    Real,
    /// An append is acknowledged, but not stored.
    AcksBeforeCommit,
    /// An append of a run that is over goes into the log of the one that is active.
    NoFenceCheck,
    /// No node ends runs that are due.
    NoReaper,
    /// A node keeps the first head of a thread that it reads, and never reads a newer one.
    StaleHeads,
    /// A reader that reconnects requests its last event again.
    InclusiveCursor,
    /// A reader that reconnects skips an event after its cursor.
    SkipsAhead,
    /// A reader drops some frames, and does not check the seqs.
    DropsFrames,
    /// A producer resends a batch without an answer under a new producerSeq.
    RetriesAsNew,
}

impl Design {
    /// All designs with a planted bug.
    pub const PLANTED: [Self; 8] = [
        Self::AcksBeforeCommit,
        Self::NoFenceCheck,
        Self::NoReaper,
        Self::StaleHeads,
        Self::InclusiveCursor,
        Self::SkipsAhead,
        Self::DropsFrames,
        Self::RetriesAsNew,
    ];
}

/// Acknowledges the appends without storing them.
pub async fn only_say(store: &DynStore, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
    let mut answers = Vec::new();
    for append in batch {
        let head = store.heads(&[append.key]).await?.pop();
        let run = store.runs(append.key, None, 1).await?.pop();
        let good = |run: &threadline_core::Run| {
            run.status.is_active()
                && run.fence == append.fence.run
                && append.producer_seq.is_none_or(|seq| seq == run.producer_seq + 1)
        };
        answers.push(head.zip(run.filter(good)).map(|(mut head, run)| {
            let count = append.events.count() as u64;
            head.tail += count;
            Appended {
                first_seq: head.tail - count + 1,
                at: run.started_at,
                producer_seq: run.producer_seq + count,
                run: run.id,
                head,
            }
        }));
    }
    Ok(answers)
}

/// Appends to the active run, regardless of the fence.
pub async fn with_any_fence(store: &DynStore, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
    let mut batch = batch.to_vec();
    for append in &mut batch {
        if let Some(head) = store.heads(&[append.key]).await?.pop()
            && head.active.is_some()
            && head.write_fence() != append.fence
        {
            (append.fence, append.producer_seq) = (head.write_fence(), None);
        }
    }
    store.append(&batch).await
}
