//! Answers to appends that did not match their head: the append was stored before, leaves a gap, comes after the run's
//! end, or was overtaken.

use std::sync::Arc;

use threadline_core::{
    DriverFence, Epoch, NewEvents, ReadFrom, Run, RunStatus, Seq, Terminal, ThreadKey, WriteFence, lines,
    projection::closing::{Ending, OpenParts},
};
use threadline_store::{Append, CloseWhen, Closing, DynStore, Head, StoreError, segment::join_bodies};

use crate::{
    AppendError, LookupError,
    commit::{
        pipeline::Pipeline,
        receipt::AppendReceipt,
        requests::{Request, unconfirmed},
    },
    errors::CompareError,
    metrics::Metrics,
    records::ThreadRef,
};

/// Number of concurrent appends that may overtake an attempt before the producer must retry.
const TRIES: usize = 16;

/// Answers appends of one run, in their order.
pub(crate) async fn resolve(pipeline: &Pipeline, requests: Vec<Request>) {
    for request in requests {
        let answer = resolve_one(pipeline, &request).await;
        match &answer {
            Ok(_) => {}
            Err(AppendError::Store(_) | AppendError::OutcomeUnknown) => drop(pipeline.metrics.appends.failed.inc()),
            Err(_) => drop(pipeline.metrics.appends.refused.inc()),
        }
        request.reply.send(answer);
    }
}

async fn resolve_one(pipeline: &Pipeline, request: &Request) -> Result<AppendReceipt, AppendError> {
    let Request { thread, run: run_id, fence, epoch, producer_seq, events, .. } = request;
    let (mut thread, mut fence, epoch, producer_seq) = (thread.clone(), *fence, *epoch, *producer_seq);
    for _ in 0..TRIES {
        if epoch.is_some() {
            pipeline.directory.head_at::<AppendError>(thread.key, epoch).await?;
        }
        let Some(run) = pipeline.store.run(thread.key, run_id).await? else {
            pipeline.directory.forget(&thread);
            let present = present(pipeline, &thread).await?.ok_or(AppendError::ThreadNotFound)?;
            if present.key == thread.key {
                // The store has lost the start of the run: the producer starts it again.
                return Err(AppendError::RunNotFound);
            }
            // Another node has deleted the thread and created it again, perhaps with the same run.
            thread = present;
            let run = pipeline.store.run(thread.key, run_id).await?.ok_or(AppendError::RunNotFound)?;
            if run.driven {
                return Err(AppendError::RunDriven { thread: thread.id.clone(), run: Box::new(run) });
            }
            // The first attempt at a run has another number if it began in another generation.
            fence = if fence == fence.run.into() { run.fence.into() } else { WriteFence { run: run.fence, ..fence } };
            continue;
        };
        let from = producer_seq.unwrap_or(run.producer_seq + 1);
        let stored = match stored_prefix(&pipeline.store, &pipeline.metrics, thread.key, &run, from, events).await {
            Ok(stored) => stored,
            Err(CompareError::ProducerSeqConflict { producer_seq }) => {
                let is_late = has_another_attempt(&run, fence);
                return Err(if is_late || is_ours(pipeline, &thread, &run, producer_seq).await? {
                    AppendError::RunFenced(Box::new(run))
                } else {
                    AppendError::ProducerSeqConflict { producer_seq }
                });
            }
            Err(CompareError::ThreadNotFound) => return Err(AppendError::ThreadNotFound),
            Err(CompareError::Store(error)) => return Err(error.into()),
        };
        let first_seq = run.first_seq + from - 1;
        let Some(rest) = events.skip(stored) else {
            pipeline.metrics.appends.repeated.inc();
            let Some(head) = pipeline.store.heads(&[thread.key]).await?.pop() else {
                return Err(AppendError::ThreadNotFound);
            };
            return Ok(receipt(&head, &run, first_seq, events.count() as u64, from));
        };
        // The store has refused the append. Its clock may be ahead of what this node expects.
        if !run.status.is_active() || run.stop_overdue(pipeline.clock.bound()) {
            return Err(AppendError::RunFenced(Box::new(run)));
        }
        if has_another_attempt(&run, fence) {
            return Err(AppendError::RunFenced(Box::new(run)));
        }
        if is_displaced(&pipeline.store, thread.key, fence).await? {
            // Perhaps since the run was read.
            let now = pipeline.store.run(thread.key, run_id).await?.unwrap_or(run);
            return Err(AppendError::RunFenced(Box::new(now)));
        }
        if from > run.producer_seq + 1 {
            return Err(AppendError::ProducerSeqGap { expected: run.producer_seq + 1 });
        }
        if let Some(terminal) = rest.terminal() {
            let head = pipeline.store.heads(&[thread.key]).await?.pop();
            let as_read = |head: &Head| {
                let at = head.active.as_ref().map(|active| active.producer_seq + 1);
                head.write_fence() == fence && at == Some(from + stored as u64)
            };
            if let Some(head) = head.filter(|head| head.queue.queued > 0 && as_read(head)) {
                let closing = last_of(terminal, &run, &head, epoch, rest.clone());
                let Some(advanced) = pipeline.queues.end(&thread, &run, closing, CloseWhen::Always).await? else {
                    continue;
                };
                pipeline.metrics.appends.committed.inc();
                let ended = advanced.committed.run;
                let (count, newest) = (events.count() as u64, ended.producer_seq);
                return Ok(AppendReceipt::committed(&advanced.committed.head, first_seq, count, newest));
            }
        }
        let next = producer_seq.map(|_| from + stored as u64);
        let append = Append { key: thread.key, fence, epoch, producer_seq: next, events: rest };
        let answers = pipeline.store.append(std::slice::from_ref(&append)).await;
        let answers = answers.map_err(|error| unconfirmed(producer_seq, error));
        if let Some(appended) = answers?.pop().flatten() {
            pipeline.publish(&thread, &append, &appended);
            pipeline.metrics.appends.committed.inc();
            let first_seq = appended.first_seq - stored as u64;
            let count = events.count() as u64;
            return Ok(AppendReceipt::committed(&appended.head, first_seq, count, appended.producer_seq));
        }
    }
    Err(StoreError::Unavailable("the thread is changing too fast; send the same append again".into()).into())
}

/// Closing of a run by the last events of its producer.
fn last_of(terminal: &Terminal, run: &Run, head: &Head, epoch: Option<Epoch>, events: NewEvents) -> Closing {
    let (status, error_code, error_message) = terminal.end(run.stop_requested_at.is_some());
    let events = Some(events);
    Closing { fence: head.write_fence(), tail: head.tail, epoch, events, status, error_code, error_message }
}

/// True if the run of a producer is in another attempt than the one that appends. Numbers behind the events of the latter then belong to
/// those that ended it.
fn has_another_attempt(run: &Run, fence: WriteFence) -> bool {
    !run.driven && DriverFence::of_attempt(run.attempt) != fence.driver
}

/// True if the run has another driver by now, or another run has followed.
async fn is_displaced(store: &DynStore, key: ThreadKey, fence: WriteFence) -> Result<bool, StoreError> {
    let head = store.heads(&[key]).await?.pop();
    Ok(head.is_some_and(|head| head.write_fence() != fence))
}

/// The thread that the owner has under this id now.
async fn present(pipeline: &Pipeline, gone: &ThreadRef) -> Result<Option<Arc<ThreadRef>>, StoreError> {
    let found = pipeline.store.thread_of(&gone.project, &gone.user, &gone.id).await?;
    Ok(found.map(|found| pipeline.directory.remember(&found, Some(&gone.user))))
}

fn receipt(head: &Head, run: &Run, first_seq: Seq, count: u64, from: u64) -> AppendReceipt {
    AppendReceipt {
        epoch: head.epoch,
        first_seq,
        last_seq: first_seq + count - 1,
        producer_seq: from + count - 1,
        stop_requested: run.stop_requested_at.is_some() && run.status.is_active(),
        lease_until: run.lease_until,
    }
}

/// True if the run's events from this producer_seq on are those with which the server ended it. Then the producer,
/// which may not have noticed the end, uses these numbers for new events: the append is late, not a conflict.
async fn is_ours(pipeline: &Pipeline, thread: &ThreadRef, run: &Run, producer_seq: u64) -> Result<bool, LookupError> {
    let ending = match (run.status, &run.error_code, &run.error_message) {
        (RunStatus::Finished | RunStatus::Stopped, ..) => Ending::Finished,
        (RunStatus::Error, Some(code), Some(message)) => Ending::Error { code: code.clone(), message: message.clone() },
        _ => return Ok(false),
    };
    // After a replay up to this point, the closers must equal the events that follow.
    let (mut parts, mut closers) = (OpenParts::default(), None);
    let (mut cursor, end, turn) = (run.first_seq - 1, run.last_seq(), run.first_seq + producer_seq - 1);
    while cursor < end {
        pipeline.metrics.store_reads.retry.inc();
        let Some(page) = pipeline.store.read(thread.key, ReadFrom::After(cursor), usize::MAX).await? else {
            return Err(LookupError::ThreadNotFound);
        };
        for (seq, event, _) in page.slice.between(0, end + 1).events() {
            if seq < turn {
                parts.observe(event);
                continue;
            }
            let closers = closers.get_or_insert_with(|| parts.closers(thread.id.as_str(), run.id.as_str(), &ending));
            let same = lines(closers.body()).nth((seq - turn) as usize) == Some(event);
            if closers.count() as u64 != end + 1 - turn || !same {
                return Ok(false);
            }
        }
        cursor = page.slice.last_seq().unwrap_or(end);
    }
    Ok(closers.is_some())
}

/// Number of `events` that the run has stored already, from producer_seq `from` on. All their bytes are compared.
pub(crate) async fn stored_prefix(
    store: &DynStore,
    metrics: &Metrics,
    key: ThreadKey,
    run: &Run,
    from: u64,
    events: &NewEvents,
) -> Result<usize, CompareError> {
    let overlap = (run.producer_seq + 1).saturating_sub(from).min(events.count() as u64);
    let first_seq = run.first_seq + from - 1;
    let mut compared = 0u64;
    while compared < overlap {
        let wanted = usize::try_from(overlap - compared).unwrap_or(usize::MAX);
        metrics.store_reads.retry.inc();
        let Some(page) = store.page(key, ReadFrom::After(first_seq + compared - 1), wanted).await? else {
            return Err(CompareError::ThreadNotFound);
        };
        let count = page.slice.count();
        if page.slice.first_seq() != Some(first_seq + compared) {
            return Err(StoreError::Corrupt(format!("events of run {} are missing", run.id)).into());
        }
        let rest = events.skip(compared as usize);
        let sent = rest.as_ref().map(|rest| rest.head(count as usize)).unwrap_or_default();
        if join_bodies(&page.slice.0) != sent {
            let same = page.slice.events().zip(lines(sent)).take_while(|(a, b)| a.1 == *b).count();
            return Err(CompareError::ProducerSeqConflict { producer_seq: from + compared + same as u64 });
        }
        compared += count;
    }
    Ok(overlap as usize)
}
