//! Ends runs on behalf of their producers: by compare-and-set, with a new read after a miss.

use std::sync::Arc;

use threadline_core::{
    Epoch, NewEvents, ReadFrom, Run, RunId, RunStatus, Seq, ThreadId, WriteFence,
    event::cut,
    lines,
    projection::closing::{Ending, OpenParts},
};
use threadline_store::{CloseOutcome, CloseWhen, Closing, DynStore, Head, StoreError};

use crate::{
    after_commit::{Commit, Listeners, RowChange},
    metrics::Metrics,
    records::ThreadRef,
    run_counts::count_ended,
    runs::advance::Queues,
};

/// Number of misses before the caller must retry. Each miss means that the producer appended meanwhile.
const TRIES: usize = 64;

/// Reason why the server ends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The producer reports the run as finished. The run ends only if it has stored the producer's events up to this
    /// number; 0 if the producer names none.
    Finished { producer_seq: u64 },
    /// The producer reports a failure.
    Failed { code: String, message: String },
    /// The producer obeys a stop.
    Stopped,
    /// The run is due: its lease has expired or its stop is overdue.
    Due,
}

impl CloseReason {
    /// A failure reported by a producer; absent texts get defaults.
    pub(crate) fn failed(code: Option<String>, message: Option<String>) -> Self {
        Self::Failed {
            code: cut(code.unwrap_or_else(|| "producer-failed".into())),
            message: cut(message.unwrap_or_else(|| "The producer reported a failure.".into())),
        }
    }

    /// True if the run lacks events that its producer knows to be stored: the store has lost them.
    fn lacks_events(&self, run: &Run) -> bool {
        matches!(self, Self::Finished { producer_seq } if *producer_seq > run.producer_seq)
    }

    fn ending(&self, run: &Run) -> (RunStatus, Ending) {
        let stopped = run.stop_requested_at.is_some();
        match self {
            Self::Finished { .. } if !stopped => (RunStatus::Finished, Ending::Finished),
            Self::Finished { .. } | Self::Stopped => (RunStatus::Stopped, Ending::Finished),
            Self::Due if stopped => (RunStatus::Stopped, Ending::Finished),
            Self::Failed { code, message } => {
                (RunStatus::Error, Ending::Error { code: code.clone(), message: message.clone() })
            }
            Self::Due if run.status == RunStatus::Finishing => error(
                LOCK_RELEASED,
                "The run's lock was released, and its last events did not arrive before the timeout.",
            ),
            Self::Due => {
                error(LEASE_EXPIRED, "The run's lease expired: the producer sent neither events nor heartbeats.")
            }
        }
    }
}

/// Error codes of runs that the server ended because their producers did not respond.
const LEASE_EXPIRED: &str = "lease-expired";
const LOCK_RELEASED: &str = "lock-released";

/// True if the server ended the run because its producer did not respond.
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

/// Ends runs in place of their producers.
#[derive(Clone)]
pub(crate) struct Closer {
    pub store: DynStore,
    pub metrics: Metrics,
    pub listeners: Listeners,
    pub queues: Arc<Queues>,
}

impl Closer {
    /// Closing of the run that the head names: closers for the parts left open, then the terminal event. Reads on from
    /// `parts`, so that a second attempt reads only new events.
    async fn work_out(
        &self,
        thread: &ThreadRef,
        head: &Head,
        run: &Run,
        reason: &CloseReason,
        parts: &mut (OpenParts, Seq),
    ) -> Result<Option<Closing>, StoreError> {
        while parts.1 < head.tail {
            self.metrics.store_reads.fold.inc();
            let Some(page) = self.store.read(thread.key, ReadFrom::After(parts.1), usize::MAX).await? else {
                return Ok(None);
            };
            for (_, event, _) in page.slice.between(0, head.tail + 1).events() {
                parts.0.observe(event);
            }
            parts.1 = page.slice.last_seq().unwrap_or(head.tail).min(head.tail);
        }
        let (status, ending) = reason.ending(run);
        // A run that expired without any event ends without one. Other ends are visible, since a caller waits for them.
        let silent = head.tail < run.first_seq && status == RunStatus::Error && *reason == CloseReason::Due;
        let (error_code, error_message) = match &ending {
            Ending::Error { code, message } => (Some(code.clone()), Some(message.clone())),
            Ending::Finished => (None, None),
        };
        Ok(Some(Closing {
            fence: head.write_fence(),
            tail: head.tail,
            epoch: None,
            events: (!silent).then(|| parts.0.closers(thread.id.as_str(), run.id.as_str(), &ending)),
            status: if silent { RunStatus::Abandoned } else { status },
            error_code,
            error_message,
        }))
    }

    /// Closing of an expired predecessor, for a start that ends the predecessor in its own statement.
    pub async fn of_predecessor(
        &self,
        thread: &ThreadRef,
        head: &Head,
        run: &Run,
    ) -> Result<Option<Closing>, StoreError> {
        self.work_out(thread, head, run, &CloseReason::Due, &mut (OpenParts::default(), run.first_seq - 1)).await
    }

    /// A run that this end has closed.
    fn counted(&self, run: Run, when: CloseWhen) -> Run {
        if when == CloseWhen::IfDue {
            self.metrics.runs.reaped.inc();
        }
        run
    }

    /// Ends a run. Returns the run afterwards, also if it had ended before; `None` if the thread was deleted, or its log
    /// has another epoch than the one that is named.
    /// [`CloseReason::Due`] ends the run only if it is due at that moment, by the store's clock. A run that lacks events
    /// of its producer stays active, and so does one that has another driver than the one whose fence is given.
    pub async fn close(
        &self,
        thread: &ThreadRef,
        id: &RunId,
        fence: WriteFence,
        epoch: Option<Epoch>,
        reason: &CloseReason,
    ) -> Result<Option<Run>, StoreError> {
        let mut parts = None;
        for _ in 0..TRIES {
            let Some(head) = self.store.heads(&[thread.key]).await?.pop() else { return Ok(None) };
            let Some(run) = self.store.run(thread.key, id).await? else { return Ok(None) };
            if epoch.is_some_and(|epoch| epoch != head.epoch) {
                return Ok(None);
            }
            if head.write_fence() != fence || head.active.is_none() || !run.status.is_active() {
                return Ok(Some(run));
            }
            if reason.lacks_events(&run) {
                return Ok(Some(run));
            }
            let parts = parts.get_or_insert_with(|| (OpenParts::default(), run.first_seq - 1));
            let Some(closing) = self.work_out(thread, &head, &run, reason, parts).await? else { return Ok(None) };
            let closing = Closing { epoch, ..closing };
            let when = if *reason == CloseReason::Due { CloseWhen::IfDue } else { CloseWhen::Always };
            if head.queue.queued > 0 {
                match self.queues.end(thread, &run, closing, when).await? {
                    Some(advanced) => return Ok(Some(self.counted(advanced.committed.run, when))),
                    None if when == CloseWhen::IfDue => return Ok(Some(run)),
                    None => continue,
                }
            }
            match self.store.close(thread.key, closing, when).await? {
                CloseOutcome::Closed(committed) => {
                    let (head, slice) = (&committed.head, &committed.slice);
                    self.listeners.committed(&Commit { thread, head, slice, row: RowChange::Changed });
                    count_ended(&self.metrics, committed.run.status);
                    return Ok(Some(self.counted(committed.run, when)));
                }
                // The run is probably not due any more; if it still is, the next sweep follows within a second.
                CloseOutcome::Missed if when == CloseWhen::IfDue => return Ok(Some(run)),
                CloseOutcome::Missed => {}
                CloseOutcome::Gone => return Ok(None),
            }
        }
        Err(StoreError::Unavailable("the run cannot be ended while it appends this fast: try again".into()))
    }
}

/// Appends closers and RUN_FINISHED if the events have no terminal event.
pub(crate) fn ended(thread: &ThreadId, run: &RunId, events: NewEvents) -> NewEvents {
    if events.terminal().is_some() {
        return events;
    }
    let mut parts = OpenParts::default();
    for event in lines(events.body()) {
        parts.observe(event);
    }
    let closers = parts.closers(thread.as_str(), run.as_str(), &Ending::Finished);
    NewEvents::concat(vec![events.clone(), closers]).unwrap_or(events)
}
