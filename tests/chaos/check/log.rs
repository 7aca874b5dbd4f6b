//! A log as it was read at the end, and what must hold of it by itself.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use threadline_client::Run;

use super::{Found, Spans};
use crate::history::{Class, Micros, digest};

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub run: String,
    pub at: Micros,
    pub payload: String,
}

/// All that the servers have of a thread.
#[derive(Debug, Clone, Default)]
pub struct Log {
    pub epoch: String,
    /// The tail that the thread's row names.
    pub tail: u64,
    /// Turns that wait.
    pub queued: u64,
    pub entries: Vec<Entry>,
    pub runs: HashMap<String, Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    seq: u64,
    run_id: String,
    at: &'a str,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// A time of the wire.
pub fn micros(at: &str) -> Micros {
    let at: jiff::Timestamp = at.parse().unwrap_or_else(|error| panic!("{at}: {error}"));
    at.as_microsecond() as Micros
}

impl Log {
    /// Takes in NDJSON; what is wrong with its seqs.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines() {
            let Envelope { seq, run_id, at, event } =
                serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            self.entries.push(Entry { run: run_id, at: micros(at), payload: event.get().to_owned() });
            if seq != self.entries.len() as u64 {
                return Err(format!("seq {seq} stands where {} should", self.entries.len()));
            }
        }
        Ok(())
    }

    /// The digest of each event.
    pub fn digests(&self) -> Vec<u32> {
        self.entries.iter().map(|entry| digest(&entry.run, entry.payload.as_bytes())).collect()
    }

    /// Where each run stands: in one piece, with one terminal event, at its end.
    pub(super) fn spans(&self, name: &str, found: &mut Found) -> Spans<'_> {
        let mut spans = Spans::new();
        let mut first = 0;
        if self.tail != self.entries.len() as u64 {
            let what = format!("{name}: the thread's tail is {}, its log has {}", self.tail, self.entries.len());
            found.wrong(Class::Lost, 1, what);
        }
        for (at, entry) in self.entries.iter().enumerate() {
            let next = self.entries.get(at + 1);
            let last = next.is_none_or(|next| next.run != entry.run);
            match (is_terminal(&entry.payload), last) {
                (true, false) => {
                    let what = format!("{name}: run {} goes on after its terminal event at {}", entry.run, at + 1);
                    found.wrong(Class::Interleaved, 1, what);
                }
                (false, true) if next.is_none() => {
                    let what = format!("{name}: the last run {} has no terminal event", entry.run);
                    found.wrong(Class::Unfinished, 1, what);
                }
                (false, true) => {
                    let what = format!("{name}: run {} is broken off at {} by another one", entry.run, at + 1);
                    found.wrong(Class::Interleaved, 1, what);
                }
                _ => {}
            }
            if last {
                if spans.insert(entry.run.as_str(), (first, at + 1)).is_some() {
                    found.wrong(Class::Interleaved, 1, format!("{name}: run {} is in pieces", entry.run));
                }
                first = at + 1;
            }
        }
        spans
    }
}

/// Whether an event ends its run. The type comes first in what the tests write, and in what the server closes with.
pub fn is_terminal(payload: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        r#type: std::borrow::Cow<'a, str>,
    }
    if !payload.contains("RUN_FINISHED") && !payload.contains("RUN_ERROR") {
        return false;
    }
    serde_json::from_str::<Kind<'_>>(payload).is_ok_and(|kind| matches!(&*kind.r#type, "RUN_FINISHED" | "RUN_ERROR"))
}
