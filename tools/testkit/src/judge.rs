//! Checks a log against the records of its producers. The check is linear, because every event has an id and a thread
//! is one total order.

use std::{collections::HashMap, fmt};

use serde_json::Value;

use crate::{
    record::{Fate, Lane, RunRecord, Tally},
    seen::envelope,
};

/// An event of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub run: String,
    pub payload: String,
}

/// Result of the check of some logs.
#[derive(Debug, Default)]
pub struct Found {
    pub logs: HashMap<String, Vec<Event>>,
    pub events: usize,
    pub acked: usize,
    pub present: usize,
    pub absent: usize,
    pub torn: usize,
    pub refused: usize,
    pub runs: usize,
    pub ended: usize,
    pub abandoned: usize,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = self.present + self.absent + self.torn;
        write!(
            f,
            "{} events in {} threads, {} of them acked ones of these logs (0 lost, 0 duplicated); {unknown} unknown \
             batches ({} present, {} absent, {} torn), {} refused (0 present); {} runs, {} ended by one terminal \
             event, {} abandoned without any",
            self.events,
            self.logs.len(),
            self.acked,
            self.present,
            self.absent,
            self.torn,
            self.refused,
            self.runs,
            self.ended,
            self.abandoned
        )
    }
}

impl Found {
    /// Compares the records of a thread's producers with its log (NDJSON), the thread itself and its runs. No request
    /// may be under way.
    pub fn judge(
        &mut self,
        lane: &Lane,
        epoch: &str,
        text: &str,
        thread: &Value,
        runs: &HashMap<String, Value>,
        tally: &Tally,
    ) {
        let wrong = |what: String| tally.violation(format!("{}: {what}", lane.thread));
        let mut log = Vec::new();
        for line in text.lines() {
            let (seq, event) = envelope(line);
            log.push(event);
            if seq != log.len() as u64 {
                wrong(format!("seq {seq} is at the position of seq {}", log.len()));
            }
        }
        if thread["tail"] != log.len() || thread["epoch"] != epoch {
            wrong(format!("the log of epoch {epoch} has {} events, the thread says {thread}", log.len()));
        }
        let spans = spans(&log, &wrong);
        for (id, record) in lane.runs().iter() {
            let Some(run) = runs.get(id) else {
                if record.started || spans.contains_key(id.as_str()) {
                    wrong(format!("run {id} was acknowledged, but does not exist"));
                }
                continue;
            };
            let (first, end) = spans.get(id.as_str()).copied().unwrap_or((0, 0));
            check_record(run, &log[first..end], first, &wrong);
            check_run(id, record, &log[first..end], first, &wrong, self);
            self.runs += 1;
            match end - first {
                0 => self.abandoned += 1,
                _ => self.ended += 1,
            }
        }
        if let Some(foreign) = spans.keys().find(|id| !lane.runs().contains_key(**id)) {
            wrong(format!("run {foreign} belongs to another thread"));
        }
        self.events += log.len();
        self.logs.insert(lane.thread.clone(), log);
    }
}

/// Returns the range of each run, `first..end`. Each run must be contiguous and have one terminal event, at its end.
fn spans<'a>(log: &'a [Event], wrong: &impl Fn(String)) -> HashMap<&'a str, (usize, usize)> {
    let mut spans = HashMap::new();
    let mut first = 0;
    for at in 0..log.len() {
        let last = log.get(at + 1).is_none_or(|next| next.run != log[at].run);
        let event: Value = serde_json::from_str(&log[at].payload).expect("JSON");
        let terminal = matches!(event["type"].as_str(), Some("RUN_FINISHED" | "RUN_ERROR"));
        if terminal != last {
            wrong(format!("seq {} of run {}: terminal {terminal}, last {last}", at + 1, log[at].run));
        }
        if last {
            if spans.insert(log[at].run.as_str(), (first, at + 1)).is_some() {
                wrong(format!("run {} is not contiguous", log[at].run));
            }
            first = at + 1;
        }
    }
    spans
}

/// Checks a run against its events.
fn check_record(run: &Value, events: &[Event], first: usize, wrong: &impl Fn(String)) {
    let count = events.len() as u64;
    let placed = count == 0 || (run["firstSeq"] == first as u64 + 1 && run["lastSeq"] == first as u64 + count);
    let status = run["status"].as_str().unwrap_or_default();
    let ended = !run["endedAt"].is_null() && run["leaseUntil"].is_null();
    let named = (status == "abandoned") == (count == 0) && !matches!(status, "running" | "finishing");
    if !placed || !ended || !named || run["producerSeq"] != count {
        wrong(format!("{count} events from seq {}, but the run's record is {run}", first + 1));
    }
}

/// Checks the producer's events against the log: the log has a prefix of them, and after it only the server's own
/// events that close the run.
fn check_run(id: &str, record: &RunRecord, events: &[Event], first: usize, wrong: &impl Fn(String), found: &mut Found) {
    let own = events.iter().zip(&record.events).take_while(|(event, sent)| event.payload == **sent).count();
    let mark = format!(r#""id":"{id}#"#);
    if let Some(twice) = events[own..].iter().find(|event| event.payload.contains(&mark)) {
        wrong(format!("run {id}: after {own} events, out of order, changed or twice: {}", twice.payload));
    }
    for (number, sent) in record.batches.iter().enumerate() {
        let whole = own >= sent.to;
        let none = own <= sent.from;
        match sent.fate {
            Fate::Acked(seq) => {
                if !whole || seq != (first + sent.from) as u64 + 1 {
                    wrong(format!(
                        "run {id}: batch {number} {sent:?} was acked, the log has {own} of the run from {}",
                        first + 1
                    ));
                }
                found.acked += sent.to - sent.from;
            }
            Fate::Refused => {
                found.refused += 1;
                if !none {
                    wrong(format!("run {id}: batch {number} {sent:?} was refused, the log has {own} of the run"));
                }
            }
            Fate::Unknown if whole => found.present += 1,
            Fate::Unknown if none => found.absent += 1,
            Fate::Unknown => {
                found.torn += 1;
                if !record.streamed {
                    wrong(format!("run {id}: batch {number} {sent:?} is incomplete, the log has {own} of the run"));
                }
            }
        }
    }
    if record.ended && events.is_empty() {
        wrong(format!("run {id}: its end was acknowledged, but the log has no events of it"));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::rng::Rng;

    /// Returns the findings of the check for a run of two batches, of which the first one was acknowledged.
    fn verdict(second: Fate, change: impl FnOnce(&mut Vec<Event>)) -> Vec<String> {
        let mut record = RunRecord { started: true, ..RunRecord::default() };
        let mut rng = Rng::new(1, 1);
        record.prepare("r", 3, false, &mut rng);
        record.prepare("r", 3, true, &mut rng);
        record.batches[0].fate = Fate::Acked(1);
        record.batches[1].fate = second;
        let event = |payload: &String| Event { run: "r".into(), payload: payload.clone() };
        let mut log = record.events.iter().map(event).collect();
        change(&mut log);
        let said = RefCell::new(Vec::new());
        let wrong = |what| said.borrow_mut().push(what);
        spans(&log, &wrong);
        check_run("r", &record, &log, 0, &wrong, &mut Found::default());
        said.into_inner()
    }

    /// Negative control: the check must find every kind of error.
    #[test]
    fn the_check_sees_losses_doubles_changes_tears_and_ghosts() {
        let close = |log: &mut Vec<Event>, left: usize| {
            log.truncate(left);
            log.push(Event { run: "r".into(), payload: r#"{"type":"RUN_ERROR"}"#.into() });
        };
        assert!(verdict(Fate::Acked(4), |_| ()).is_empty());
        assert!(verdict(Fate::Unknown, |_| ()).is_empty());
        assert!(verdict(Fate::Unknown, |log| close(log, 3)).is_empty());
        assert!(verdict(Fate::Refused, |log| close(log, 3)).is_empty());
        let seen = |second, change: &dyn Fn(&mut Vec<Event>)| assert!(!verdict(second, change).is_empty());
        seen(Fate::Acked(4), &|log| close(log, 3));
        seen(Fate::Acked(5), &|_| ());
        seen(Fate::Unknown, &|log| close(log, 2));
        seen(Fate::Unknown, &|log| close(log, 4));
        seen(Fate::Refused, &|_| ());
        seen(Fate::Acked(4), &|log| log.swap(1, 2));
        seen(Fate::Acked(4), &|log| log.insert(3, log[2].clone()));
        seen(Fate::Acked(4), &|log| log[1].payload = log[1].payload.replace("xx", "xy"));
        seen(Fate::Unknown, &|log| drop(log.pop()));
        seen(Fate::Acked(4), &|log| log.push(Event { run: "r".into(), payload: r#"{"type":"RUN_ERROR"}"#.into() }));
    }
}
