//! The answers to producers compared with the log: acknowledged, unknown, refused; and the order between them.

use std::collections::{BTreeMap, HashSet};

use threadline_client::RunStatus;

use super::{Batch, Found, Log, Spans, batches, losses::Losses};
use crate::{
    healing::is_lost,
    history::{Class, Outcome, Request, What, payload},
};

pub(super) fn check(
    name: &str,
    runs: &BTreeMap<&str, Vec<&Request>>,
    log: &Log,
    spans: &Spans<'_>,
    losses: &Losses,
    found: &mut Found,
) {
    let mut acked = Vec::new();
    for (run, requests) in runs {
        let batches = batches(name, requests, losses, found);
        check_start(name, run, requests, log, losses, found);
        check_refusals(name, run, requests, losses, found);
        let (first, end) = spans.get(run).copied().unwrap_or_default();
        check_batches(name, run, &batches, log, (first, end), found);
        acked
            .extend(batches.into_iter().filter_map(|batch| Some((batch.sent, batch.known, batch.acked?, batch.count))));
    }
    check_order(name, acked, found);
    check_owners(name, log, spans, found);
    let known: HashSet<&str> = runs.keys().copied().collect();
    for foreign in spans.keys().filter(|run| !known.contains(*run)) {
        found.wrong(Class::Duplicated, 1, format!("{name}: run {foreign} is not of this thread"));
    }
    for (run, record) in &log.runs {
        let count = spans.get(run.as_str()).map_or(0, |(first, end)| (end - first) as u64);
        let first = spans.get(run.as_str()).map_or(record.first_seq, |(first, _)| *first as u64 + 1);
        let placed = record.first_seq == first && record.producer_seq == count;
        let ended = record.ended_at.is_some() && record.lease_until.is_none();
        let named = (record.status == RunStatus::Abandoned) == (count == 0);
        if record.status.is_active() || !ended {
            found.wrong(Class::Unfinished, 1, format!("{name}: run {run} has not ended: {record:?}"));
        } else if !placed || !named {
            let what = format!("{name}: run {run} has {count} events from seq {first}, its record is {record:?}");
            found.wrong(Class::Lost, 1, what);
        }
        match count {
            0 => found.abandoned += 1,
            _ => found.ended += 1,
        }
    }
}

/// A run whose beginning was acknowledged is there; one that was only ever refused is not.
fn check_start(name: &str, run: &str, requests: &[&Request], log: &Log, losses: &Losses, found: &mut Found) {
    let begins =
        |what: &What| matches!(what, What::Start { .. } | What::Agent | What::Whole { .. } | What::Stream { .. });
    let mut starts = requests.iter().filter(|request| begins(&request.what)).peekable();
    if starts.peek().is_none() {
        return;
    }
    let starts: Vec<_> = starts.collect();
    let outcomes: Vec<_> = starts.iter().map(|request| &request.outcome).collect();
    let there = log.runs.contains_key(run);
    if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Done { .. })) {
        found.started += 1;
        let holds = |request: &&&Request| matches!(request.outcome, Outcome::Done { .. }) && !losses.may_void(request);
        if !there && starts.iter().any(holds) {
            found.wrong(
                Class::Lost,
                1,
                format!("{name}: the start of run {run} was acknowledged, and it is not there"),
            );
        }
    // A streamed run may also be refused in the middle.
    } else if outcomes.iter().all(|outcome| is_refused(outcome)) && there {
        found.wrong(Class::Duplicated, 1, format!("{name}: the start of run {run} was refused, and it is there"));
    }
}

/// A producer is told that its run lacks events, or is not there, only if a failover has lost them.
fn check_refusals(name: &str, run: &str, requests: &[&Request], losses: &Losses, found: &mut Found) {
    let Some(first) = requests.first().map(|request| request.at) else { return };
    // A client that stops a run does not know whether the run has begun.
    for request in requests.iter().filter(|request| request.what != What::Stop) {
        let Outcome::Refused { slug, .. } = &request.outcome else { continue };
        if !is_lost(slug) {
            continue;
        }
        found.healed += 1;
        if !losses.explain(first, request) {
            let what = format!("{name}: run {run}: {:?} was refused ({slug}), and nothing was lost", request.what);
            found.wrong(Class::Lost, 1, what);
        }
    }
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused { slug, .. } if slug == "run-active")
}

/// A prefix of what the producer sent, then only what the server closed it with.
fn check_batches(name: &str, run: &str, batches: &[Batch<'_>], log: &Log, span: (usize, usize), found: &mut Found) {
    let events = &log.entries[span.0..span.1];
    let ends_at = batches.iter().find(|batch| batch.terminal).map(|batch| batch.from + batch.count - 1);
    let sent = batches.iter().map(|batch| batch.from + batch.count - 1).max().unwrap_or(0);
    let matches = |number: &u64| {
        let event = events.get(*number as usize - 1);
        event.is_some_and(|event| event.payload == payload(run, *number, ends_at == Some(*number)))
    };
    let own = (1..=sent).take_while(matches).count() as u64;
    let mark = format!(r#""id":"{run}#"#);
    for (at, entry) in events.iter().enumerate().skip(own as usize) {
        let Some((_, id)) = entry.payload.split_once(&mark) else { continue };
        let number: u64 = id.split('"').next().and_then(|id| id.parse().ok()).unwrap_or(0);
        let (class, how) =
            if number <= own { (Class::Duplicated, "twice") } else { (Class::Lost, "after a gap, or changed") };
        found.wrong(class, 1, format!("{name}: run {run}: event {number} stands at {} {how}", span.0 + at + 1));
    }
    for batch in batches {
        let (before, last) = (batch.from - 1, batch.from + batch.count - 1);
        let missing = last - own.clamp(before, last);
        match (batch.acked, batch.refused) {
            (Some(seq), _) => {
                found.acknowledged += batch.count;
                if missing > 0 {
                    let what = format!(
                        "{name}: run {run}: {missing} of {} events from {} were acknowledged and are not there; \
                         the log has {own} of the run",
                        batch.count, batch.from
                    );
                    found.wrong(Class::Lost, missing, what);
                } else if seq != span.0 as u64 + batch.from {
                    let what = format!(
                        "{name}: run {run}: events from {} were acknowledged at seq {seq}, they stand at {}",
                        batch.from,
                        span.0 as u64 + batch.from
                    );
                    found.wrong(Class::Interleaved, 1, what);
                }
            }
            // Lost if its producer is gone; else the producer has sent it again.
            (None, _) if batch.voidable => {
                found.acknowledged += batch.count;
                found.voided += missing;
            }
            (None, Some(slug)) if !batch.streamed => {
                found.refused += 1;
                if missing < batch.count {
                    let what = format!(
                        "{name}: run {run}: {} events from {} were refused ({slug}) and are there",
                        batch.count - missing,
                        batch.from
                    );
                    found.wrong(Class::Duplicated, batch.count - missing, what);
                }
            }
            _ if missing == 0 => found.present += 1,
            _ if missing == batch.count => found.absent += 1,
            _ => {
                found.torn += 1;
                if !batch.streamed {
                    let what = format!(
                        "{name}: run {run}: {missing} of {} events from {} are not there: a torn batch",
                        batch.count, batch.from
                    );
                    found.wrong(Class::Lost, missing, what);
                }
            }
        }
    }
}

/// What was acknowledged before something was sent stands before it.
fn check_order(name: &str, mut batches: Vec<(u64, u64, u64, u64)>, found: &mut Found) {
    let mut by_known: Vec<_> = batches.iter().map(|(_, known, first, count)| (*known, first + count - 1)).collect();
    by_known.sort_unstable();
    batches.sort_unstable();
    let mut known = by_known.into_iter().peekable();
    let mut reached = 0;
    for (sent, _, first, _) in batches {
        while let Some((_, last)) = known.next_if(|(known, _)| *known < sent) {
            reached = reached.max(last);
        }
        if first <= reached {
            let what = format!("{name}: events at {first} were sent after those up to {reached} were acknowledged");
            found.wrong(Class::Interleaved, 1, what);
        }
    }
}

/// Each event stands in the run that sent it.
fn check_owners(name: &str, log: &Log, spans: &Spans<'_>, found: &mut Found) {
    for (run, (first, end)) in spans {
        for (at, entry) in log.entries[*first..*end].iter().enumerate() {
            let Some((_, id)) = entry.payload.split_once(r#""id":""#) else { continue };
            let Some((owner, _)) = id.split('"').next().and_then(|id| id.rsplit_once('#')) else { continue };
            if owner != *run {
                let what = format!("{name}: an event of run {owner} stands at {} in run {run}", first + at + 1);
                found.wrong(Class::Interleaved, 1, what);
            }
        }
    }
}
