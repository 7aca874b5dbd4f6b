//! Bugs that are put in on purpose: the simulation is worth something only if it finds each of them.

use threadline_store::{Append, Appended, DynStore, StoreResult};

/// What runs: the product as it is, or with a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    Real,
    /// An append is acknowledged, and was never stored.
    AcksBeforeCommit,
    /// An append of a run that is over goes into the log of the one that is active.
    NoFenceCheck,
    /// Nobody looks for runs that are due.
    NoReaper,
    /// A node knows a thread's head as it was when it first asked.
    StaleHeads,
    /// A reader asks for its last event once more when it comes again.
    InclusiveCursor,
    /// A reader passes over what came while its connection was away.
    SkipsAhead,
    /// A reader drops a frame now and then, and does not look at the seqs.
    DropsFrames,
    /// A producer sends what has no answer under a new number.
    RetriesAsNew,
}

impl Design {
    /// Those with a bug.
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

/// Says that it was done.
pub async fn only_say(store: &DynStore, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
    let mut answers = Vec::new();
    for append in batch {
        let head = store.heads(&[append.key]).await?.pop();
        let run = store.runs(append.key, None, 1).await?.pop();
        let good = |run: &threadline_core::Run| {
            run.status.is_active()
                && run.fence == append.fence
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

/// Appends behind whatever run is active.
pub async fn with_any_fence(store: &DynStore, batch: &[Append]) -> StoreResult<Vec<Option<Appended>>> {
    let mut batch = batch.to_vec();
    for append in &mut batch {
        if let Some(head) = store.heads(&[append.key]).await?.pop()
            && head.active.is_some()
            && head.fence != append.fence
        {
            (append.fence, append.producer_seq) = (head.fence, None);
        }
    }
    store.append(&batch).await
}
