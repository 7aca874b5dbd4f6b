//! What to answer to an append that did not match its head: it was stored before, it comes too early or too late,
//! or only the moment was wrong.

use super::{
    ServiceError,
    committer::{Receipt, Request, publish},
    context::Context,
    directory::ThreadRef,
};
use crate::{
    domain::{Fence, NewEvents, Run, RunId, RunStatus, Seq, ThreadKey},
    planted::{Bug, planted},
    projection::closing::{Ending, OpenParts},
    store::{Append, ReadFrom, StoreError, segment::join_bodies},
};

/// Looks at the head may be overtaken by another append this often before the producer is asked to come again.
const TRIES: usize = 16;

/// Answers appends of one run, in order.
pub(super) async fn resolve(context: Context, requests: Vec<Request>) {
    for request in requests {
        let Request { thread, run, fence, producer_seq, events, reply } = request;
        let answer = resolve_one(&context, &thread, &run, fence, producer_seq, &events).await;
        match &answer {
            Ok(_) => {}
            Err(ServiceError::Store(_)) => drop(context.metrics.appends.failed.inc()),
            Err(_) => drop(context.metrics.appends.refused.inc()),
        }
        reply.send(answer);
    }
}

async fn resolve_one(
    context: &Context,
    thread: &ThreadRef,
    run_id: &RunId,
    fence: Fence,
    producer_seq: Option<u64>,
    events: &NewEvents,
) -> Result<Receipt, ServiceError> {
    for _ in 0..TRIES {
        let Some(run) = context.store.run(thread.key, run_id).await? else {
            context.directory.forget(thread);
            return Err(ServiceError::ThreadNotFound);
        };
        if planted(Bug::FenceBeforeDuplicate) && !run.status.is_active() {
            return Err(ServiceError::RunFenced(Box::new(run)));
        }
        let from = producer_seq.unwrap_or(run.producer_seq + 1);
        let stored = match stored_prefix(context, thread.key, &run, from, events).await {
            Ok(stored) => stored,
            Err(ServiceError::ProducerSeqConflict { producer_seq }) => {
                return Err(if is_ours(context, thread, &run, producer_seq).await? {
                    ServiceError::RunFenced(Box::new(run))
                } else {
                    ServiceError::ProducerSeqConflict { producer_seq }
                });
            }
            Err(error) => return Err(error),
        };
        let first_seq = run.first_seq + from - 1;
        let Some(rest) = events.skip(stored) else {
            context.metrics.appends.repeated.inc();
            return Ok(receipt(thread, &run, first_seq, events.count() as u64, from));
        };
        if !run.status.is_active() || run.stop_overdue(context.clock.now()) {
            return Err(ServiceError::RunFenced(Box::new(run)));
        }
        if from > run.producer_seq + 1 {
            return Err(ServiceError::ProducerSeqGap { expected: run.producer_seq + 1 });
        }
        let next = producer_seq.map(|_| from + stored as u64);
        let append = Append { key: thread.key, fence, producer_seq: next, events: rest };
        if let Some(appended) = context.store.append(std::slice::from_ref(&append)).await?.pop().flatten() {
            publish(context, thread, &append, &appended);
            context.metrics.appends.committed.inc();
            let first_seq = appended.first_seq - stored as u64;
            let count = events.count() as u64;
            return Ok(Receipt::committed(thread, &appended.head, first_seq, count, appended.producer_seq));
        }
    }
    Err(StoreError::Unavailable("the thread is changing too fast; send the same append again".into()).into())
}

fn receipt(thread: &ThreadRef, run: &Run, first_seq: Seq, count: u64, from: u64) -> Receipt {
    Receipt {
        epoch: thread.epoch,
        first_seq,
        last_seq: first_seq + count - 1,
        producer_seq: from + count - 1,
        stop_requested: run.stop_requested_at.is_some() && run.status.is_active(),
        lease_until: run.lease_until,
    }
}

/// Whether the run's events from this producer_seq on are those with which the server ended it. Then the producer,
/// which may never have noticed, uses these numbers for something new: that is late, not a conflict.
async fn is_ours(context: &Context, thread: &ThreadRef, run: &Run, producer_seq: u64) -> Result<bool, ServiceError> {
    let ending = match (run.status, &run.error_code, &run.error_message) {
        (RunStatus::Finished | RunStatus::Stopped, ..) => Ending::Finished,
        (RunStatus::Error, Some(code), Some(message)) => Ending::Error { code: code.clone(), message: message.clone() },
        _ => return Ok(false),
    };
    // Replayed up to here, what is left to close is exactly what follows.
    let (mut parts, mut closers) = (OpenParts::default(), None);
    let (mut cursor, end, turn) = (run.first_seq - 1, run.last_seq(), run.first_seq + producer_seq - 1);
    while cursor < end {
        context.metrics.store_reads.retry.inc();
        let Some(page) = context.store.read(thread.key, ReadFrom::After(cursor), usize::MAX).await? else {
            return Err(ServiceError::ThreadNotFound);
        };
        for (seq, event, _) in page.slice.between(0, end + 1).events() {
            if seq < turn {
                parts.observe(event);
                continue;
            }
            let closers = closers.get_or_insert_with(|| parts.closers(thread.id.as_str(), run.id.as_str(), &ending));
            let same = closers.body().split(|byte| *byte == b'\n').nth((seq - turn) as usize) == Some(event);
            if closers.count() as u64 != end + 1 - turn || !same {
                return Ok(false);
            }
        }
        cursor = page.slice.last_seq().unwrap_or(end);
    }
    Ok(closers.is_some())
}

/// How many of `events` the run has stored already, from producer_seq `from` on: all their bytes are compared.
pub(super) async fn stored_prefix(
    context: &Context,
    key: ThreadKey,
    run: &Run,
    from: u64,
    events: &NewEvents,
) -> Result<usize, ServiceError> {
    let overlap = (run.producer_seq + 1).saturating_sub(from).min(events.count() as u64);
    let first_seq = run.first_seq + from - 1;
    let mut compared = 0u64;
    while compared < overlap {
        let wanted = usize::try_from(overlap - compared).unwrap_or(usize::MAX);
        context.metrics.store_reads.retry.inc();
        let Some(page) = context.store.read(key, ReadFrom::After(first_seq + compared - 1), wanted).await? else {
            return Err(ServiceError::ThreadNotFound);
        };
        let count = page.slice.count();
        if page.slice.first_seq() != Some(first_seq + compared) {
            return Err(StoreError::Corrupt(format!("events of run {} are missing", run.id)).into());
        }
        let rest = events.skip(compared as usize);
        let sent = rest.as_ref().map(|rest| rest.head(count as usize)).unwrap_or_default();
        if join_bodies(&page.slice.0) != sent {
            let same =
                page.slice.events().zip(sent.split(|byte| *byte == b'\n')).take_while(|(a, b)| a.1 == *b).count();
            return Err(ServiceError::ProducerSeqConflict { producer_seq: from + compared + same as u64 });
        }
        compared += count;
    }
    Ok(overlap as usize)
}
