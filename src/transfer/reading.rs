//! Reads a file of an export line by line: every line and the complete file are validated, with little memory.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::{BufRead, BufReader, Read},
    mem,
    sync::Arc,
};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use threadline_core::{
    Author, Batch, NewEvents, Run, RunId, RunStatus, Seq, Timestamp,
    event::BatchBuilder,
    hex,
    interrupt::{self, RunCommit},
    limits::{
        MAX_BLOB_BYTES, MAX_CHANNEL_BYTES, MAX_CHANNEL_VERSION_BYTES, MAX_CHECKPOINT_CHANNELS,
        MAX_CHECKPOINT_METADATA_BYTES, MAX_EVENT_BYTES, ROW_BYTES,
    },
};
use threadline_store::MovedThread;

use super::{
    directory::{Directory, Facts},
    error::Damage,
    format::{EventLine, RunLine, ThreadFacts, ThreadLine},
    manifest::ThreadEntry,
};

/// Longest line in bytes: a checkpoint, whose own bytes are in Base64, with all of its channels and metadata. An event in its envelope is
/// shorter.
const MAX_LINE: usize = MAX_BLOB_BYTES.div_ceil(3) * 4
    + MAX_CHECKPOINT_CHANNELS * 2 * (MAX_CHANNEL_BYTES + MAX_CHANNEL_VERSION_BYTES)
    + MAX_CHECKPOINT_METADATA_BYTES
    + 64 * 1_024;
const _: () = assert!(MAX_LINE > MAX_EVENT_BYTES + 64 * 1_024);

/// File that is read once, from its beginning to its end.
pub struct Lines<'n> {
    name: &'n str,
    expected: Facts,
    file: BufReader<File>,
    digest: Sha256,
    bytes: u64,
    number: u64,
    line: Vec<u8>,
}

impl<'n> Lines<'n> {
    /// Opens the file `name`, which must match the facts in the manifest.
    pub fn open(directory: &Directory, name: &'n str, expected: Facts) -> Result<Self, Damage> {
        let file = File::open(directory.at(name)).map_err(|error| Damage::whole(name, error))?;
        let file = BufReader::with_capacity(256 * 1_024, file);
        Ok(Self { name, expected, file, digest: Sha256::new(), bytes: 0, number: 0, line: Vec::new() })
    }

    /// Moves to the next line; false at the end of the file. Fails if the file does not match the manifest.
    pub fn advance(&mut self) -> Result<bool, Damage> {
        self.line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = (&mut self.file).take(limit).read_until(b'\n', &mut self.line);
        read.map_err(|error| Damage::at(self.name, self.number + 1, error))?;
        if self.line.is_empty() {
            self.end()?;
            return Ok(false);
        }
        self.number += 1;
        self.digest.update(&self.line);
        self.bytes += self.line.len() as u64;
        if self.line.pop_if(|last| *last == b'\n').is_none() {
            return Err(if self.line.len() as u64 >= limit {
                self.damage(format_args!("the line exceeds {MAX_LINE} bytes"))
            } else {
                let (found, expected) = (self.bytes, self.expected.bytes);
                self.damage(format_args!("the file is truncated here: it has {found} bytes instead of {expected}"))
            });
        }
        Ok(true)
    }

    fn end(&self) -> Result<(), Damage> {
        let Facts { bytes, sha256 } = &self.expected;
        if self.bytes < *bytes {
            let (found, number) = (self.bytes, self.number);
            let what = format!("the file is truncated after this line: it has {found} bytes instead of {bytes}");
            return Err(Damage { file: self.name.to_owned(), line: Some(number), what });
        }
        if self.bytes > *bytes || hex(&self.digest.clone().finalize()) != *sha256 {
            return Err(Damage::whole(
                self.name,
                "it was changed after the export: its SHA-256 differs from the manifest",
            ));
        }
        Ok(())
    }

    /// Parses the line as JSON.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Damage> {
        serde_json::from_slice(&self.line).map_err(|error| self.damage(error))
    }

    /// Damage at the current line.
    pub fn damage(&self, what: impl fmt::Display) -> Damage {
        Damage::at(self.name, self.number, what)
    }
}

/// Finds an inconsistency of a run with its thread, and with the run in the line before.
fn fault(run: &Run, moved: &MovedThread, above: Option<&Run>) -> Option<&'static str> {
    let behind = run.first_seq.checked_add(run.producer_seq);
    if run.first_seq == 0 || behind.is_none_or(|behind| behind > moved.thread.tail + 1) {
        Some("the run has events that the thread does not have")
    } else if run.fence.0 < 1 || run.fence > moved.fence || above.is_some_and(|above| run.fence >= above.fence) {
        Some("the fences of the runs fall from line to line, from that of the thread on")
    } else if run.status.is_active() && run.fence != moved.fence || run.status.is_active() != run.ended_at.is_none() {
        Some("only the newest run can be active, and only an active one has no end")
    } else {
        None
    }
}

/// Run of a thread, as far as its events concern it.
struct Span {
    first: Seq,
    last: Seq,
    status: RunStatus,
    author: Option<Author>,
}

/// Reader of a thread's file, positioned after its runs.
pub struct ThreadFile<'n> {
    lines: Lines<'n>,
    pub moved: MovedThread,
    /// Runs of the thread, newest first.
    pub runs: Vec<Run>,
    spans: HashMap<RunId, Span>,
    /// True if the current line is an event.
    ahead: bool,
    next: Seq,
}

impl<'n> ThreadFile<'n> {
    /// Opens the file of an entry, and reads the lines before the events.
    pub fn open(directory: &Directory, entry: &'n ThreadEntry) -> Result<Self, Damage> {
        let mut lines = Lines::open(directory, &entry.file, entry.facts())?;
        if !lines.advance()? {
            return Err(Damage::whole(&entry.file, "it is empty"));
        }
        let facts: ThreadFacts = lines.parse::<ThreadLine>()?.thread;
        if let Some(fault) = facts.fault() {
            return Err(lines.damage(fault));
        }
        let mut moved = facts.thread(None);
        let (thread, same) = (&moved.thread, &entry.thread_id);
        if (&thread.project, &thread.id, thread.epoch, thread.tail, thread.version)
            != (&entry.project_id, same, entry.epoch, entry.tail, entry.version)
        {
            return Err(lines.damage("the manifest names another thread"));
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut spans = HashMap::new();
        let (mut ahead, mut events) = (false, 0u64);
        while lines.advance()? {
            if !lines.line.starts_with(b"{\"run\":") {
                ahead = true;
                break;
            }
            let run = lines.parse::<RunLine>()?.run.run();
            if let Some(fault) = fault(&run, &moved, runs.last()) {
                return Err(lines.damage(fault));
            }
            let span =
                Span { first: run.first_seq, last: run.last_seq(), status: run.status, author: run.author.clone() };
            if spans.insert(run.id.clone(), span).is_some() {
                return Err(lines.damage("an earlier line has a run with this ID"));
            }
            events = events.saturating_add(run.producer_seq);
            runs.push(run);
        }
        if events != thread.tail {
            return Err(lines.damage(format_args!("the runs have {events} events, the thread has {}", thread.tail)));
        }
        // The row of a thread says of its runs what they say themselves.
        if let Some(newest) = runs.first() {
            moved.thread.last_run_at = Some(newest.ended_at.unwrap_or(newest.started_at));
        }
        moved.thread.active_run = runs.first().filter(|run| run.status.is_active()).cloned();
        Ok(Self { lines, moved, runs, spans, ahead, next: 1 })
    }

    /// Reads the next batch: events of one run and one commit time, of bounded size. `None` at the end of an intact
    /// file.
    pub fn next_batch(&mut self) -> Result<Option<Arc<Batch>>, Damage> {
        let mut batch = BatchBuilder::default();
        let mut shared: Option<(RunId, Timestamp)> = None;
        let first = self.next;
        while self.ahead {
            let event: EventLine<'_> =
                serde_json::from_slice(&self.lines.line).map_err(|error| self.lines.damage(error))?;
            let fits = shared.as_ref().is_none_or(|(run, at)| (run, at) == (&event.run_id, &event.at));
            if !fits || (!batch.is_empty() && batch.len() + event.event.get().len() >= ROW_BYTES) {
                break;
            }
            if event.seq != self.next {
                return Err(self.lines.damage(format_args!("seq {}, but expected {}", event.seq, self.next)));
            }
            let span = self.spans.get(&event.run_id);
            if span.is_none_or(|span| event.seq < span.first || event.seq > span.last) {
                return Err(self.lines.damage(format_args!("seq {} is not an event of its run", event.seq)));
            }
            let text = event.event.get();
            batch.push_server_line(text.as_bytes()).map_err(|error| self.lines.damage(error.kind))?;
            shared.get_or_insert((event.run_id, event.at));
            self.next += 1;
            self.ahead = self.lines.advance()?;
        }
        let tail = self.moved.thread.tail;
        if !self.ahead && self.next != tail + 1 {
            return Err(self.lines.damage(format_args!("the log ends at seq {} instead of {tail}", self.next - 1)));
        }
        let Some((run, at)) = shared else { return Ok(None) };
        let events = batch.finish().map_err(|error| self.lines.damage(error.kind))?;
        self.note_interrupts(&run, at, &events);
        Ok(Some(Arc::new(Batch::new(first, self.next - 1, run, at, events.body().clone()))))
    }

    /// Notes what the events that were read last do to the open interrupts of the thread.
    fn note_interrupts(&mut self, run: &RunId, at: Timestamp, events: &NewEvents) {
        let Some(span) = self.spans.get(run) else { return };
        let end = (span.last, span.status);
        let commit = RunCommit::of(run, span.author.as_ref(), end, events, (self.next - 1, at));
        self.moved.interrupts = interrupt::after(self.moved.interrupts.as_deref(), &commit);
    }

    /// Open interrupts of the thread after the events that were read.
    pub fn into_interrupts(self) -> Option<String> {
        self.moved.interrupts
    }

    /// Moves the runs out.
    pub fn take_runs(&mut self) -> Vec<Run> {
        mem::take(&mut self.runs)
    }
}
