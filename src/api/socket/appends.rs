//! Appends of one socket: their runs, each looked up once, and the appends that wait for an answer.

use std::{collections::HashMap, sync::Arc};

use threadline_core::{NewEvents, ThreadId, limits::MAX_SUBSCRIPTIONS};
use threadline_engine::{AppendError, AppendReceipt, ReceiptStream, RunRef, Runs};

use crate::api::socket::{
    answers::{Answer, error_frame, in_thread},
    frames,
};

/// A run that this client appends to.
pub(super) struct AppendTarget {
    run: RunRef,
    /// Start of the answers to this run's appends.
    start: String,
}

struct UnderWay {
    id: Option<String>,
    known: Arc<AppendTarget>,
    bytes: usize,
}

#[derive(Default)]
pub(super) struct Appends {
    receipts: ReceiptStream,
    /// Indexed by ticket; the ticket of an answered append is used again.
    under_way: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    /// Run of the last append, for some threads. A cache: a miss costs one look-up.
    known: HashMap<ThreadId, Arc<AppendTarget>>,
}

impl Appends {
    /// Number of appends that wait for an answer.
    pub(super) fn len(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// Run that was looked up before, if it is still current.
    pub(super) fn known(&self, runs: &Runs, thread: &str, run: &str) -> Option<Arc<AppendTarget>> {
        let known = self.known.get(thread)?;
        (known.run.run_id().as_str() == run && runs.is_current(&known.run)).then(|| known.clone())
    }

    /// Caches a run. A full cache is cleared first.
    pub(super) fn learn(&mut self, run: RunRef) -> Arc<AppendTarget> {
        if self.known.len() >= MAX_SUBSCRIPTIONS && !self.known.contains_key(run.thread_id()) {
            self.known.clear();
        }
        let start = frames::appended_start(run.thread_id(), run.run_id());
        let known = Arc::new(AppendTarget { run, start });
        self.known.insert(known.run.thread_id().clone(), known.clone());
        known
    }

    /// Forgets the run of a thread.
    pub(super) fn forget(&mut self, thread: &ThreadId) {
        self.known.remove(thread);
    }

    /// Submits events that arrived in a frame of `bytes`; the answer follows later.
    pub(super) async fn submit(
        &mut self,
        runs: &Runs,
        known: Arc<AppendTarget>,
        id: Option<String>,
        producer_seq: Option<u64>,
        events: NewEvents,
        bytes: usize,
    ) {
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        self.under_way[ticket] = Some(UnderWay { id, known: known.clone(), bytes });
        runs.submit_to(&known.run, producer_seq, events, self.receipts.reply(ticket)).await;
    }

    pub(super) async fn next(&mut self) -> Option<Answer> {
        let answered = self.receipts.next().await?;
        self.answer(answered)
    }

    /// Next answer, if one is ready.
    pub(super) fn ready(&mut self) -> Option<Answer> {
        let answered = self.receipts.ready()?;
        self.answer(answered)
    }

    fn answer(&mut self, (ticket, result): (usize, Result<AppendReceipt, AppendError>)) -> Option<Answer> {
        let UnderWay { id, known, bytes } = self.under_way.get_mut(ticket)?.take()?;
        self.free.push(ticket);
        let text = match result {
            Ok(receipt) => frames::appended(id.as_deref(), &known.start, &receipt),
            Err(error) => {
                let thread = known.run.thread_id();
                self.known.remove(thread);
                error_frame(id.as_deref(), in_thread(error.into(), thread.as_str()))
            }
        };
        Some(Answer { text, bytes })
    }
}
