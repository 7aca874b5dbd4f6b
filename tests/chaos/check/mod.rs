//! The checker: compares the requests and answers of all clients with the final logs. Linear, because every event carries
//! an id of its own and a thread is one total order.

mod bodies;
mod calls;
mod found;
mod log;
mod losses;
mod queue;
mod readers;
mod runs;
#[cfg(test)]
mod tests;
mod times;

use std::collections::{BTreeMap, HashMap};

use self::{bodies::Bodies, losses::Losses};
pub use self::{
    found::Found,
    log::{Entry, Log},
};
use super::{
    healing::is_lost,
    history::{Class, Fault, Line, Micros, Outcome, Request, What},
};

/// All observations of one thread.
#[derive(Default)]
struct Thread<'a> {
    /// Of each run, in the order of their beginnings.
    runs: BTreeMap<&'a str, Vec<&'a Request>>,
    readers: BTreeMap<&'a str, Vec<&'a Line>>,
    /// Orders of its queue, as clients saw them.
    orders: Vec<&'a Line>,
}

/// Compares histories with the logs of the threads that they name. `log` fetches one; `None` if it is not there.
pub fn check(lines: &[Line], mut log: impl FnMut(&str) -> Option<Log>) -> Found {
    let mut found = Found::default();
    let mut threads: BTreeMap<&str, Thread<'_>> = BTreeMap::new();
    let mut faults: Vec<&Fault> = Vec::new();
    let mut fences: HashMap<(&str, u64), (&str, u64)> = HashMap::new();
    for line in lines {
        match line {
            Line::Request(request) => {
                let thread = threads.entry(&request.thread).or_default();
                thread.runs.entry(&request.run).or_default().push(request);
            }
            Line::Joined { thread, reader, .. }
            | Line::Read { thread, reader, .. }
            | Line::Rebased { thread, reader, .. }
            | Line::Replaced { thread, reader, .. }
            | Line::Stood { thread, reader, .. } => {
                threads.entry(thread).or_default().readers.entry(reader).or_default().push(line);
            }
            Line::Order { thread, .. } => threads.entry(thread).or_default().orders.push(line),
            Line::Fault(fault) => faults.push(fault),
            Line::Fence { thread, fence, run, started } => {
                let given = *fences.entry((thread, *fence)).or_insert((run, *started));
                if given != (run.as_str(), *started) {
                    let what = format!("{thread}: fence {fence} was given to {} and to {run}", given.0);
                    found.wrong(Class::Duplicated, 1, what);
                }
            }
            Line::Ready { .. } => found.probes += 1,
            Line::Called { .. } | Line::Effect { .. } => {}
            Line::Wrong { class, what } => found.wrong(*class, 1, what.clone()),
            Line::Sample { runs, readers } => found.sample(*runs, *readers),
        }
    }
    faults.sort_by_key(|fault| fault.begin);
    let losses = Losses::of(&faults);
    for (name, thread) in &mut threads {
        for requests in thread.runs.values_mut() {
            requests.sort_by_key(|request| request.at);
        }
        let Some(log) = log(name) else {
            found.wrong(Class::Lost, 1, format!("{name}: the thread is not there"));
            continue;
        };
        found.threads += 1;
        found.events += log.entries.len() as u64;
        let spans = log.spans(name, &mut found);
        let mut bodies = Bodies::of(name, &log, &thread.runs, &thread.readers, &mut found);
        runs::check(name, &thread.runs, &log, &spans, &losses, &mut found);
        times::check(name, &thread.runs, &log, &spans, &faults, &losses, &mut found);
        queue::check(name, &thread.runs, &thread.orders, &log, &losses, &mut found);
        readers::check(name, &thread.readers, &log, &losses, &mut bodies, &mut found);
    }
    calls::check(lines, &losses, &mut found);
    times::readiness(lines, &faults, &mut found);
    times::recoveries(lines, &faults, &mut found);
    found
}

/// Where the runs of a log stand: `first..end`, counted from 0.
type Spans<'a> = HashMap<&'a str, (usize, usize)>;

/// What is known of events that were sent together, of all the times that they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Batch<'a> {
    from: u64,
    count: u64,
    terminal: bool,
    /// It may be torn between any two events.
    streamed: bool,
    /// Seq of its first event, if it was acknowledged and cannot have been lost since.
    acked: Option<u64>,
    /// True if the history that acknowledged it may have been lost.
    voidable: bool,
    /// The slug of a clear no.
    refused: Option<&'a str>,
    /// When it was sent first, and when the first acknowledgement came that holds.
    sent: Micros,
    known: Micros,
}

/// The batches of a run.
fn batches<'a>(name: &str, requests: &[&'a Request], losses: &Losses, found: &mut Found) -> Vec<Batch<'a>> {
    let mut batches: Vec<Batch<'a>> = Vec::new();
    for request in requests {
        let (from, count, terminal, streamed) = match request.what {
            What::Append { from, count, terminal } => (from, count, terminal, false),
            What::Whole { count, terminal } => (1, count, terminal, false),
            What::Stream { from, count, terminal, .. } => (from, count, terminal, true),
            _ => continue,
        };
        let same = batches.iter_mut().find(|batch| batch.from == from && batch.count == count);
        let batch = match same {
            Some(batch) => batch,
            None => {
                let (sent, known) = (request.at, Micros::MAX);
                batches.push(Batch {
                    from,
                    count,
                    terminal,
                    streamed,
                    acked: None,
                    voidable: false,
                    refused: None,
                    sent,
                    known,
                });
                batches.last_mut().expect("just pushed")
            }
        };
        match &request.outcome {
            Outcome::Done { first, ended, .. } => {
                if streamed && !ended {
                    // Stopped before its end: what is there of it shows only in the log.
                    continue;
                }
                if losses.may_void(request) {
                    batch.voidable = true;
                    continue;
                }
                if batch.acked.is_some_and(|acked| acked != *first) {
                    let what =
                        format!("{name}: {} from {from} was told seq {:?}, then {first}", request.run, batch.acked);
                    found.wrong(Class::Interleaved, 1, what);
                }
                batch.acked = Some(*first);
                batch.known = batch.known.min(request.done);
            }
            // The batch is sent again once what is missing before it has been.
            Outcome::Refused { slug, .. } if is_lost(slug) => {}
            Outcome::Refused { slug, .. } => batch.refused = Some(slug),
            Outcome::Unknown | Outcome::Dropped => {}
        }
    }
    batches
}
