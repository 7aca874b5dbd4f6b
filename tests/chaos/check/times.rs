//! Promises about time: leases are kept, runs end, a 409 is true; and how long it took to be well again.

use std::collections::{BTreeMap, HashMap};

use threadline_client::{Run, RunStatus};

use super::{Found, Log, Spans, log::micros, losses::Losses};
use crate::history::{Class, Fault, Kind, Line, Micros, Outcome, Request, What};

const SECOND: Micros = 1_000_000;
/// Promised on top of the lease (P5).
const GRACE: Micros = 5 * SECOND;
/// Times of the wire are whole milliseconds.
const ROUNDING: Micros = 2_000;
/// An abandoned request may still be executed within this time.
const AFTERLIFE: Micros = 5 * SECOND;
/// Once the store is back, nodes need a moment to find it.
const BACK: Micros = 2 * SECOND;
/// Between the moment that a transaction takes for now and the moment when it shows.
const COMMIT: Micros = 3 * SECOND;

pub(super) fn check(
    name: &str,
    runs: &BTreeMap<&str, Vec<&Request>>,
    log: &Log,
    spans: &Spans<'_>,
    faults: &[&Fault],
    losses: &Losses,
    found: &mut Found,
) {
    for (run, requests) in runs {
        if let Some(record) = log.runs.get(*run)
            && let Some(ended) = record.ended_at.as_deref().map(micros)
        {
            check_lease(name, record, requests, ended, losses, found);
            check_end(name, record, requests, log, spans, ended, faults, found);
        }
        for request in requests {
            // The run that it was refused for may be lost, or its end.
            if !losses.may_void(request) {
                check_conflict(name, request, log, faults, found);
            }
        }
    }
}

/// The lease that a run was given.
fn lease(requests: &[&Request]) -> Option<Micros> {
    requests.iter().find_map(|request| match request.what {
        What::Start { lease } | What::Stream { lease, .. } => Some(lease * SECOND),
        _ => None,
    })
}

/// A run whose producer was heard is not ended for silence before its lease is over.
fn check_lease(name: &str, record: &Run, requests: &[&Request], ended: Micros, losses: &Losses, found: &mut Found) {
    if record.status != RunStatus::Error || record.error_code.as_deref() != Some("lease-expired") {
        return;
    }
    let Some(lease) = lease(requests) else { return };
    // A batch that is sent again may have been stored the first time, which is when it extended the lease.
    let mut first_sent: HashMap<(u64, u64), Micros> = HashMap::new();
    let mut heard = 0;
    for request in requests {
        let sent = match request.what {
            What::Append { from, count, .. } => *first_sent.entry((from, count)).or_insert(request.at),
            What::Start { .. } => *first_sent.entry((0, 0)).or_insert(request.at),
            What::Beat => request.at,
            _ => continue,
        };
        if matches!(request.outcome, Outcome::Done { .. }) && !losses.may_void(request) {
            heard = heard.max(sent);
        }
    }
    if heard > 0 && ended + ROUNDING < heard + lease {
        let early = (heard + lease - ended) / 1_000;
        let what = format!("{name}: run {} was ended for silence {early} ms before its lease was over", record.run_id);
        found.wrong(Class::Interleaved, 1, what);
    }
}

/// It ends in its lease + 5 s after the last sign of life, and as long as there was no store.
#[allow(clippy::too_many_arguments)]
fn check_end(
    name: &str,
    record: &Run,
    requests: &[&Request],
    log: &Log,
    spans: &Spans<'_>,
    ended: Micros,
    faults: &[&Fault],
    found: &mut Found,
) {
    let Some(lease) = lease(requests) else { return };
    let run = record.run_id.as_str();
    let mut heard = micros(&record.started_at);
    for request in requests {
        // A stop is no sign of life of the producer.
        if matches!(request.outcome, Outcome::Refused { .. }) || request.what == What::Stop {
            continue;
        }
        heard = heard.max(request.done);
        if request.outcome.is_open() {
            // It may have been held up wherever it was.
            let held_up =
                faults.iter().filter(|fault| fault.begin < request.done && fault.end + AFTERLIFE > request.at);
            let freed = held_up.map(|fault| fault.end).max().unwrap_or(0);
            heard = heard.max(freed.max(request.done) + AFTERLIFE);
        }
    }
    // An agent is heard by what it says, without any request of a client.
    let (first, end) = spans.get(run).copied().unwrap_or_default();
    let said = log.entries[first..end].iter().rev().map(|entry| entry.at).find(|at| *at < ended);
    heard = heard.max(said.unwrap_or(0));
    let down = |fault: &&&Fault| fault.kind.stops_the_store() && fault.begin < ended && fault.end + BACK > heard;
    let away: Micros = faults.iter().filter(down).map(|fault| fault.end + BACK - fault.begin).sum();
    let took = ended.saturating_sub(heard);
    if took > lease + GRACE + away {
        let what = format!(
            "{name}: run {run} was ended {} ms after it was last heard of, its lease was {} ms, the store \
             was away for {} ms",
            took / 1_000,
            lease / 1_000,
            away / 1_000
        );
        found.wrong(Class::Unfinished, 1, what);
    } else if took > lease && away == 0 {
        found.reaped.push((took - lease) / 1_000);
    }
}

/// A start is refused only because of a run that was active at some moment of the request.
fn check_conflict(name: &str, request: &Request, log: &Log, faults: &[&Fault], found: &mut Found) {
    let Outcome::Refused { slug, active } = &request.outcome else { return };
    if slug != "run-active" {
        return;
    }
    found.conflicts += 1;
    let Some(holder) = active.as_deref().and_then(|active| log.runs.get(active)) else {
        let what = format!("{name}: the start of {} was refused for run {active:?}, which is not there", request.run);
        found.wrong(Class::Interleaved, 1, what);
        return;
    };
    let began = micros(&holder.started_at);
    let ended = holder.ended_at.as_deref().map_or(Micros::MAX, micros);
    // A commit that was held up shows later than the time that it bears.
    let held_up = faults.iter().any(|fault| fault.begin < request.done && fault.end + COMMIT > ended);
    if began > request.done + ROUNDING || (ended.saturating_add(COMMIT) < request.at && !held_up) {
        let what = format!(
            "{name}: the start of {} was refused for run {}, which was not active then",
            request.run, holder.run_id
        );
        found.wrong(Class::Interleaved, 1, what);
    }
}

/// Age of the newest commit of a node that says it is ready (P12).
const READY: Micros = 5 * SECOND;
/// A node that is starved takes in late what the store acknowledged before it stopped.
const LATE: Micros = 2 * SECOND;

/// A node that is ready has committed something: not while Postgres was stopped for longer than that.
pub(super) fn readiness(lines: &[Line], faults: &[&Fault], found: &mut Found) {
    let stops: Vec<_> = faults.iter().filter(|fault| fault.kind == Kind::StopPostgres).collect();
    for line in lines {
        let Line::Ready { at, done, node } = line else { continue };
        if stops.iter().any(|stop| stop.begin + READY + LATE < *at && *done < stop.end) {
            let what = format!("node {node} said that it was ready, and no node can have committed anything for 5 s");
            found.wrong(Class::Lost, 1, what);
        }
    }
}

/// Time after the end of a fault within which a request may be abandoned because of it.
const AFTERMATH: Micros = 4 * SECOND;

/// From each fault to the answers of the requests that it left without one, when they were sent again.
pub(super) fn recoveries(lines: &[Line], faults: &[&Fault], found: &mut Found) {
    let counts = |request: &&Request| !matches!(request.what, What::Stop | What::Whole { .. } | What::Stream { .. });
    let mut requests: Vec<&Request> = Vec::new();
    for line in lines {
        if let Line::Request(request) = line {
            requests.push(request);
        }
    }
    // The other kinds of requests take long by nature.
    requests.retain(counts);
    requests.sort_by_key(|request| request.at);
    let mut again: HashMap<(&str, &str, What), Vec<&Request>> = HashMap::new();
    for request in &requests {
        again.entry((&request.thread, &request.run, request.what)).or_default().push(request);
    }
    // The fault under which a request was sent, else the first one that came while it was under way, else the last one.
    let blamed = |request: &Request| {
        let at_its_node = |fault: &&&Fault| fault.node.is_none_or(|node| node == request.node);
        let under = |fault: &&&Fault| (fault.begin..=fault.end).contains(&request.at);
        let meanwhile = |fault: &&&Fault| (request.at..=request.done).contains(&fault.begin);
        let after = |fault: &&&Fault| (fault.end..fault.end + AFTERMATH).contains(&request.at);
        let found = faults.iter().filter(at_its_node).rfind(under);
        let found = found.or_else(|| faults.iter().filter(at_its_node).find(meanwhile));
        found.or_else(|| faults.iter().filter(at_its_node).rfind(after)).map(|fault| fault.begin)
    };
    let mut hit: HashMap<Micros, Vec<Micros>> = HashMap::new();
    for tries in again.values() {
        let mut fault = None;
        for request in tries {
            match request.outcome {
                // A request that was hit again counts for the later fault.
                Outcome::Unknown => fault = blamed(request).or(fault),
                Outcome::Dropped => {}
                Outcome::Done { .. } | Outcome::Refused { .. } => {
                    if let Some(fault) = fault.take() {
                        hit.entry(fault).or_default().push(request.done);
                    }
                }
            }
        }
    }
    for fault in faults {
        *found.faults.entry(fault.kind).or_default() += 1;
        let mut took = hit.remove(&fault.begin).unwrap_or_default();
        if took.is_empty() {
            // No request was hit: the next acknowledgement of any client counts.
            let acked =
                |request: &&&Request| request.at >= fault.begin && matches!(request.outcome, Outcome::Done { .. });
            took.extend(requests.iter().filter(acked).map(|request| request.done).min());
        }
        let took = took.into_iter().map(|done| done.saturating_sub(fault.begin) / 1_000);
        found.recoveries.entry(fault.kind).or_default().extend(took);
    }
}
