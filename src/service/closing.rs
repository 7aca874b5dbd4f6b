//! Ending a run on behalf of a producer that does not: by compare-and-set, looking again on a miss.

use super::{ServiceError, context::Context, directory::ThreadRef};
use crate::{
    domain::{Fence, NewEvents, Run, RunId, RunStatus, Seq, ThreadId, event::cut},
    projection::closing::{Ending, OpenParts},
    store::{CloseOutcome, Closing, Head, ReadFrom, StoreError},
};

/// Misses before the caller is asked to come again. Each one means that the producer appended meanwhile.
const TRIES: usize = 64;

/// Why the server ends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    /// Its producer says that it is done.
    Finished,
    /// Its producer says that it failed.
    Failed { code: String, message: String },
    /// Its producer follows a stop.
    Stopped,
    /// It is due: its lease is over or its stop is overdue.
    Due,
}

impl Why {
    /// A failure that a producer reports, in its words as far as it has any.
    pub(super) fn failed(code: Option<String>, message: Option<String>) -> Self {
        Self::Failed {
            code: cut(code.unwrap_or_else(|| "producer-failed".into())),
            message: cut(message.unwrap_or_else(|| "The producer reported a failure.".into())),
        }
    }

    fn ending(&self, run: &Run) -> (RunStatus, Ending) {
        let stopped = run.stop_requested_at.is_some();
        match self {
            Self::Finished if !stopped => (RunStatus::Finished, Ending::Finished),
            Self::Finished | Self::Stopped => (RunStatus::Stopped, Ending::Finished),
            Self::Due if stopped => (RunStatus::Stopped, Ending::Finished),
            Self::Failed { code, message } => {
                (RunStatus::Error, Ending::Error { code: code.clone(), message: message.clone() })
            }
            Self::Due if run.status == RunStatus::Finishing => {
                error(LOCK_RELEASED, "The run's lock was released and its last events did not come.")
            }
            Self::Due => error(LEASE_EXPIRED, "The producer fell silent and the run's lease ran out."),
        }
    }
}

/// Codes of runs that the server has ended because their producers were taken for gone.
const LEASE_EXPIRED: &str = "lease-expired";
const LOCK_RELEASED: &str = "lock-released";

/// Whether the server has ended a run because its producer was taken for gone.
pub fn evicted(status: RunStatus, code: Option<&str>) -> bool {
    match status {
        RunStatus::Abandoned => true,
        RunStatus::Error => matches!(code, Some(LEASE_EXPIRED | LOCK_RELEASED)),
        RunStatus::Running | RunStatus::Finishing | RunStatus::Finished | RunStatus::Stopped => false,
    }
}

fn error(code: &str, message: &str) -> (RunStatus, Ending) {
    (RunStatus::Error, Ending::Error { code: code.to_owned(), message: message.to_owned() })
}

/// What ends the run that the head names: closers for what its events left open, then the terminal event.
/// Reads on from `parts`, so that a second look costs only what is new.
async fn work_out(
    context: &Context,
    thread: &ThreadRef,
    head: &Head,
    run: &Run,
    why: &Why,
    parts: &mut (OpenParts, Seq),
) -> Result<Option<Closing>, ServiceError> {
    while parts.1 < head.tail {
        context.metrics.store_reads.fold.inc();
        let Some(page) = context.store.read(thread.key, ReadFrom::After(parts.1), usize::MAX).await? else {
            return Ok(None);
        };
        for (_, event, _) in page.slice.between(0, head.tail + 1).events() {
            parts.0.observe(event);
        }
        parts.1 = page.slice.last_seq().unwrap_or(head.tail).min(head.tail);
    }
    let (status, ending) = why.ending(run);
    // Nothing was ever said: then nothing is, unless somebody asked for an end and waits to see it.
    let silent = head.tail < run.first_seq && status == RunStatus::Error && *why == Why::Due;
    let (error_code, error_message) = match &ending {
        Ending::Error { code, message } => (Some(code.clone()), Some(message.clone())),
        Ending::Finished => (None, None),
    };
    Ok(Some(Closing {
        fence: head.fence,
        tail: head.tail,
        events: (!silent).then(|| parts.0.closers(thread.id.as_str(), run.id.as_str(), &ending)),
        status: if silent { RunStatus::Abandoned } else { status },
        error_code,
        error_message,
    }))
}

/// How to close a lapsed predecessor, for a start that does it in its own statement.
pub(super) async fn of_predecessor(
    context: &Context,
    thread: &ThreadRef,
    head: &Head,
    run: &Run,
) -> Result<Option<Closing>, ServiceError> {
    work_out(context, thread, head, run, &Why::Due, &mut (OpenParts::default(), run.first_seq - 1)).await
}

/// Ends a run. The run as it is afterwards, also if it had ended before; `None` if the thread is gone.
/// [`Why::Due`] ends it only if it is due at that moment, by the store's clock.
pub(super) async fn close(
    context: &Context,
    thread: &ThreadRef,
    id: &RunId,
    fence: Fence,
    why: &Why,
) -> Result<Option<Run>, ServiceError> {
    let mut parts = None;
    for _ in 0..TRIES {
        let Some(head) = context.store.heads(&[thread.key]).await?.pop() else { return Ok(None) };
        let Some(run) = context.store.run(thread.key, id).await? else { return Ok(None) };
        if head.fence != fence || head.active.is_none() || !run.status.is_active() {
            return Ok(Some(run));
        }
        let parts = parts.get_or_insert_with(|| (OpenParts::default(), run.first_seq - 1));
        let Some(closing) = work_out(context, thread, &head, &run, why, parts).await? else { return Ok(None) };
        let if_due = *why == Why::Due;
        match context.store.close(thread.key, closing, if_due).await? {
            CloseOutcome::Closed(committed) => {
                context.published(thread, &committed.head, &committed.slice, true);
                context.run_ended(committed.run.status);
                if if_due {
                    context.metrics.runs.reaped.inc();
                }
                return Ok(Some(committed.run));
            }
            // Not due any more, most likely; if it still is, the next sweep comes in a second.
            CloseOutcome::Missed if if_due => return Ok(Some(run)),
            CloseOutcome::Missed => {}
            CloseOutcome::Gone => return Ok(None),
        }
    }
    Err(StoreError::Unavailable("the run is appending too fast to be ended; try again".into()).into())
}

/// Events that end in a terminal one.
pub(super) fn ended(thread: &ThreadId, run: &RunId, events: NewEvents) -> NewEvents {
    if events.terminal().is_some() {
        return events;
    }
    let mut parts = OpenParts::default();
    for event in events.body().split(|byte| *byte == b'\n') {
        parts.observe(event);
    }
    let closers = parts.closers(thread.as_str(), run.as_str(), &Ending::Finished);
    NewEvents::concat(vec![events.clone(), closers]).unwrap_or(events)
}
