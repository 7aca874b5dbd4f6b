//! Queues: each turn that was accepted has begun or was removed, and turns have begun in the order that was committed last.

use std::collections::{BTreeMap, HashMap};

use super::{Found, Log, losses::Losses};
use crate::history::{Class, Line, Micros, Outcome, Request, What};

/// The order of a queue, as its only client saw it.
struct Seen<'a> {
    asked: Micros,
    at: Micros,
    version: u64,
    runs: &'a [String],
}

pub(super) fn check(
    name: &str,
    runs: &BTreeMap<&str, Vec<&Request>>,
    orders: &[&Line],
    log: &Log,
    losses: &Losses,
    found: &mut Found,
) {
    for (run, requests) in runs {
        check_turn(name, run, requests, log, losses, found);
    }
    let mut orders: Vec<_> = orders.iter().filter_map(|line| seen(line)).collect();
    orders.sort_by_key(|seen| seen.asked);
    check_order(name, runs, &orders, log, losses, found);
    if log.queued > 0 {
        let what = format!("{name}: {} turns are queued in the end, and nothing holds the load any more", log.queued);
        found.wrong(Class::Unfinished, 1, what);
    }
}

fn seen<'a>(line: &'a Line) -> Option<Seen<'a>> {
    match line {
        Line::Order { asked, at, version, runs, .. } => Some(Seen { asked: *asked, at: *at, version: *version, runs }),
        _ => None,
    }
}

/// A turn that was accepted is a run, unless it was removed; one that was removed is none.
fn check_turn(name: &str, run: &str, requests: &[&Request], log: &Log, losses: &Losses, found: &mut Found) {
    let of = |what: What| requests.iter().filter(move |request| request.what == what);
    let holds = |request: &&&Request| matches!(request.outcome, Outcome::Done { .. }) && !losses.may_void(request);
    let is_open = |request: &&Request| request.outcome.is_open() || losses.may_void(request);
    let there = log.runs.contains_key(run);
    if of(What::Enqueue).any(|request| holds(&request)) {
        found.queued += 1;
        found.begun += u64::from(there);
        let removed = of(What::Remove).any(|request| !matches!(request.outcome, Outcome::Refused { .. }));
        if !there && !removed {
            let what = format!("{name}: the turn {run} was accepted, and it has neither begun nor been removed");
            found.wrong(Class::Lost, 1, what);
        }
    }
    // A request that comes late may queue the turn again.
    if there && of(What::Remove).any(|request| holds(&request)) && !of(What::Enqueue).any(is_open) {
        found.wrong(Class::Duplicated, 1, format!("{name}: the turn {run} was removed, and it has begun"));
    }
}

/// Order of two turns that were seen in the same queue: the one that was before the other the last time has begun before it.
fn check_order(
    name: &str,
    runs: &BTreeMap<&str, Vec<&Request>>,
    orders: &[Seen<'_>],
    log: &Log,
    losses: &Losses,
    found: &mut Found,
) {
    let mut last: HashMap<(&str, &str), (&Seen<'_>, bool)> = HashMap::new();
    for seen in orders {
        for (at, first) in seen.runs.iter().enumerate() {
            for second in &seen.runs[at + 1..] {
                let ordered = first < second;
                let pair = if ordered { (first.as_str(), second.as_str()) } else { (second.as_str(), first.as_str()) };
                last.insert(pair, (seen, ordered));
            }
        }
    }
    let is_refused = |request: &Request| matches!(request.outcome, Outcome::Refused { .. });
    let has_moved = |run: &str, seen: &Seen<'_>| {
        let requests = runs.get(run).map(Vec::as_slice).unwrap_or_default();
        requests.iter().filter(|request| !is_refused(request)).any(|request| match request.what {
            // The answer shows the queue of a moment later, in which the turn may have begun.
            What::Move { version } => losses.may_void(request) || version >= seen.version,
            // A turn that was removed and queued again by a late request has another place.
            What::Remove => true,
            _ => false,
        })
    };
    for ((one, other), (seen, ordered)) in last {
        let (Some(begun), Some(begun_other)) = (log.runs.get(one), log.runs.get(other)) else { continue };
        // A failover may have taken the last change of the order back.
        let void = losses.any(|failover| seen.at >= failover.loss.since && seen.asked <= failover.loss.until);
        // A run that was abandoned has no place of its own.
        if void || begun.first_seq == begun_other.first_seq || has_moved(one, seen) || has_moved(other, seen) {
            continue;
        }
        found.pairs += 1;
        if (begun.first_seq < begun_other.first_seq) != ordered {
            let (first, second) = if ordered { (one, other) } else { (other, one) };
            let what = format!(
                "{name}: {first} was before {second} in version {} of the queue, the last with both, and began after it",
                seen.version
            );
            found.wrong(Class::Interleaved, 1, what);
        }
    }
}
