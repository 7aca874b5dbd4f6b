//! Sealing and packing: rows become segments. Rows are read and compressed outside of a transaction, and swapped in one
//! short commit that touches log rows only.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{
    Seq, ThreadKey,
    limits::{JOB_CLAIM, SEAL_BYTES, SEGMENT_MIN_EVENTS},
};

use super::{
    columns::{Cells, Columns},
    pages::Cap,
};
use crate::{
    Packing, StoreError, StoreResult,
    packing::{self, Part, Plan},
    segment::{LogRow, Segment},
};

// The statements that end a run put a job if the run passed a multiple of 256 seqs.
const _: () = assert!(SEGMENT_MIN_EVENTS == 256);

/// State of a thread that may be packed.
pub(crate) struct IdleSince {
    active: bool,
    tail: Seq,
    /// Time since the last run began or ended.
    idle: Duration,
}

impl IdleSince {
    pub(crate) fn of<R: Cells>(rows: &[R]) -> StoreResult<Option<Self>> {
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(row);
        let (active, tail, idle) = (columns.flag()?, columns.count()?, columns.int()?);
        Ok(Some(Self { active, tail, idle: Duration::from_millis(u64::try_from(idle).unwrap_or(0)) }))
    }
}

/// Operations of a back-end that sealing needs.
#[async_trait]
pub(crate) trait Sealing: Sync {
    /// Largest number of rows that one step replaces.
    const ROWS: usize;

    /// Seq up to which sealing has decided: before the first open segment.
    async fn decided(&self, key: ThreadKey) -> StoreResult<Seq>;

    /// State of the thread; `None` if it is gone.
    async fn idle_since(&self, key: ThreadKey) -> StoreResult<Option<IdleSince>>;

    /// Rows after a seq; `None` if the thread is gone.
    async fn rows_after(&self, key: ThreadKey, after: Seq, cap: Cap) -> StoreResult<Option<Vec<LogRow>>>;

    /// Replaces exactly the rows that the segments were made of, and decides up to a seq. False, and nothing is changed,
    /// if any of the rows is gone.
    async fn swap(&self, key: ThreadKey, segments: Vec<Segment>, decided: Option<Seq>) -> StoreResult<bool>;

    /// Decides that rows up to `upto` stay as they are.
    async fn decide(&self, key: ThreadKey, upto: Seq) -> StoreResult<()>;
}

/// The rows that no step has decided on.
struct Undecided {
    upto: Seq,
    parts: Vec<Part>,
    /// More rows may follow.
    more: bool,
}

/// `None` if the thread is gone, or another step has closed some of the rows in the meantime.
async fn undecided<S: Sealing>(store: &S, key: ThreadKey) -> StoreResult<Option<Undecided>> {
    let upto = store.decided(key).await?;
    let cap = Cap { bytes: SEAL_BYTES, rows: S::ROWS, events: usize::MAX };
    let Some(rows) = store.rows_after(key, upto, cap).await? else { return Ok(None) };
    let mut parts = rows.into_iter().map(Part::of).collect::<StoreResult<Vec<_>>>()?;
    // A segment of rows on both sides of a gap would have events under wrong seqs.
    if let Some(gap) = parts.windows(2).position(|pair| pair[0].last_seq() + 1 != pair[1].first_seq()) {
        parts.truncate(gap + 1);
    }
    let more = parts.len() >= S::ROWS || parts.iter().map(Part::bytes).sum::<usize>() >= SEAL_BYTES;
    Ok(Some(Undecided { upto, parts, more }).filter(|found| !found.parts.iter().any(Part::is_closed)))
}

async fn aside(plan: impl FnOnce() -> StoreResult<Plan> + Send + 'static) -> StoreResult<Plan> {
    let planned = tokio::task::spawn_blocking(plan);
    planned.await.map_err(|error| StoreError::Unavailable(format!("sealing: {error}")))?
}

/// Implements [`crate::LogStore::seal`] over the operations of a back-end.
pub(crate) async fn seal<S: Sealing>(store: &S, key: ThreadKey) -> StoreResult<bool> {
    loop {
        let Some(Undecided { parts, more, .. }) = undecided(store, key).await? else { return Ok(false) };
        // A complete window without a segment: its rows are too large to share one with their neighbours. Only the last
        // row may still get neighbours.
        let passed = match parts.as_slice() {
            [.., last, _] => last.last_seq(),
            [only] => only.last_seq(),
            [] => return Ok(false),
        };
        let Plan { segments, decided } = aside(move || packing::seal(&parts)).await?;
        if !segments.is_empty() {
            return store.swap(key, segments, decided).await;
        }
        if !more {
            return Ok(false);
        }
        store.decide(key, passed).await?;
    }
}

/// Implements [`crate::LogStore::pack`] over the operations of a back-end.
pub(crate) async fn pack<S: Sealing>(store: &S, key: ThreadKey, idle: Duration) -> StoreResult<Packing> {
    let Some(state) = store.idle_since(key).await? else { return Ok(Packing::Gone) };
    if state.active {
        return Ok(Packing::Active);
    }
    if state.idle < idle {
        return Ok(Packing::Recent(idle - state.idle));
    }
    let Some(Undecided { upto, parts, more }) = undecided(store, key).await? else {
        return Ok(Packing::Recent(JOB_CLAIM));
    };
    let Plan { segments, decided } = aside(move || packing::pack(&parts, more)).await?;
    let decided = decided.filter(|decided| *decided > upto);
    if !segments.is_empty() {
        let swapped = store.swap(key, segments, decided).await?;
        return Ok(if swapped { Packing::More } else { Packing::Recent(JOB_CLAIM) });
    }
    match decided {
        Some(decided) => store.decide(key, decided).await.map(|()| Packing::More),
        None => Ok(Packing::Packed(state.tail)),
    }
}
