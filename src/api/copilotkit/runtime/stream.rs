//! Events of one run for a stock client, until the run has ended.

use std::{borrow::Cow, collections::HashSet, time::Duration};

use axum::body::Bytes;
use serde_json::{Value, json};
use threadline_core::{
    LogSlice, RunId, ThreadId, json as text,
    limits::{MAX_OPEN_PARTS, PAGE_BYTES, RUN_END_TIMEOUT},
};
use threadline_engine::{
    StoreError,
    subscription::{Delivery, EndReason, Subscription},
};
use threadline_http::{
    observe,
    sse::{EventSource, Farewell},
};

use super::acceptable;
use crate::api::{ApiState, run_agent::AguiClient};

/// Writes an event in SSE format.
pub fn write(out: &mut Vec<u8>, event: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(event);
    out.extend_from_slice(b"\n\n");
}

/// Writes an event that Threadline generates.
pub fn write_value(out: &mut Vec<u8>, event: &Value) {
    write(out, event.to_string().as_bytes());
}

/// Makes `RUN_STARTED` or `RUN_FINISHED` of a run.
pub fn bound(kind: &str, thread: &ThreadId, run: &RunId) -> Value {
    json!({ "type": kind, "threadId": thread.as_str(), "runId": run.as_str() })
}

/// Filter of a run's events: only events that the client accepts are sent, and RUN_STARTED once, before all others.
pub struct Telling {
    thread: ThreadId,
    run: RunId,
    begun: bool,
    /// Ids of messages and calls whose start was left out; their other events are left out too.
    unsaid: HashSet<String>,
}

impl Telling {
    /// Makes the filter of a run. `begun` is true if RUN_STARTED was sent before.
    pub fn new(thread: ThreadId, run: RunId, begun: bool) -> Self {
        Self { thread, run, begun, unsaid: HashSet::new() }
    }

    /// Writes the next event, if the client accepts it.
    pub fn tell(&mut self, out: &mut Vec<u8>, event: &[u8]) {
        let Some(event) = self.acceptable(event) else { return };
        let starts =
            std::str::from_utf8(&event).ok().and_then(|event| text::member(event, "type")) == Some("\"RUN_STARTED\"");
        if starts && self.begun {
            return;
        }
        self.begin(out, starts);
        write(out, &event);
    }

    fn acceptable<'a>(&mut self, event: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let sent = acceptable::event(event, self.thread.as_str(), self.run.as_str());
        if sent.is_some() && self.unsaid.is_empty() {
            return sent;
        }
        let whole = std::str::from_utf8(event).ok()?;
        let kind = text::string_member(whole, "type")?;
        let id = ["toolCallId", "messageId"].iter().find_map(|name| text::string_member(whole, name));
        match (sent, id) {
            (None, Some(id)) if kind.ends_with("_START") && self.unsaid.len() < MAX_OPEN_PARTS => {
                self.unsaid.insert(id);
                None
            }
            (None, _) => None,
            (sent, Some(id)) if self.unsaid.contains(&id) => match &*kind {
                kind if kind.ends_with("_END") => {
                    self.unsaid.remove(&id);
                    None
                }
                kind if kind.ends_with("_CONTENT") || kind.ends_with("_ARGS") => None,
                _ => sent,
            },
            (sent, _) => sent,
        }
    }

    /// Writes RUN_STARTED before the first event of a run that does not start with one.
    fn begin(&mut self, out: &mut Vec<u8>, starts: bool) {
        if !self.begun && !starts {
            write_value(out, &bound("RUN_STARTED", &self.thread, &self.run));
        }
        self.begun = true;
    }

    /// Writes events one by one. If `past` is true, consecutive pieces of one text are merged, because a client spends
    /// long on each event.
    fn slice(&mut self, slice: &LogSlice, past: bool) -> Bytes {
        let mut out = Vec::with_capacity(slice.bytes() + slice.count() as usize * 8);
        let mut gathered: Option<Gathered<'_>> = None;
        for (_, event, _) in slice.events() {
            let piece = Gathered::of(event).filter(|_| past);
            if let (Some(gathered), Some(piece)) = (&mut gathered, &piece)
                && gathered.takes(piece)
            {
                continue;
            }
            if let Some(gathered) = gathered.take() {
                self.tell(&mut out, &gathered.event());
            }
            match piece {
                Some(piece) => gathered = Some(piece),
                None => self.tell(&mut out, event),
            }
        }
        if let Some(gathered) = gathered {
            self.tell(&mut out, &gathered.event());
        }
        out.into()
    }

    /// Writes a RUN_ERROR for a run whose terminal event cannot be read: it was deleted with the thread, lost or damaged.
    fn gone(&mut self, reason: EndReason) -> Bytes {
        let mut out = Vec::new();
        self.begin(&mut out, false);
        let (message, code) = match reason {
            EndReason::LogReplaced(_) => ("The store has lost events of the run.", "HISTORY_LOST"),
            EndReason::LogDamaged { .. } => ("Events of the run are damaged in the store.", "LOG_DAMAGED"),
            EndReason::ThreadDeleted | EndReason::RunEnded => ("The thread was deleted.", "THREAD_DELETED"),
        };
        let error = json!({ "type": "RUN_ERROR", "message": message, "code": code });
        write_value(&mut out, &error);
        out.into()
    }
}

/// Merged pieces of one text. The events differ only in the piece.
struct Gathered<'a> {
    before: &'a str,
    /// Concatenated contents of JSON strings, still escaped: a character may be split between two strings.
    text: String,
    after: &'a str,
}

impl<'a> Gathered<'a> {
    /// Parses a piece of a text; `None` if the event has none.
    fn of(event: &'a [u8]) -> Option<Self> {
        let event = std::str::from_utf8(event).ok()?;
        let kind = text::member(event, "type")?;
        if !matches!(kind, "\"TEXT_MESSAGE_CONTENT\"" | "\"REASONING_MESSAGE_CONTENT\"" | "\"TOOL_CALL_ARGS\"") {
            return None;
        }
        let delta = text::member(event, "delta")?;
        let inside = delta.strip_prefix('"')?.strip_suffix('"')?;
        // The slice borrows from the event, so the text around it can be compared and sent.
        let start = inside.as_ptr() as usize - event.as_ptr() as usize;
        Some(Self { before: event.get(..start)?, text: inside.to_owned(), after: event.get(start + inside.len()..)? })
    }

    /// Appends a piece that continues this one. Returns false if it does not, or if the result would exceed a page.
    fn takes(&mut self, next: &Self) -> bool {
        let fits = self.text.len() + next.text.len() <= PAGE_BYTES;
        let same = fits && self.before == next.before && self.after == next.after;
        if same {
            self.text.push_str(&next.text);
        }
        same
    }

    fn event(&self) -> Vec<u8> {
        [self.before, &self.text, self.after].concat().into_bytes()
    }
}

/// Stream of a run to a client. Clients treat a stream that ends cleanly as the end of the run, so the stream of a run
/// that has not ended is aborted.
pub struct Run {
    /// Bytes that are sent first.
    first: Option<Bytes>,
    /// Events that follow, if a run is active.
    rest: Option<(Subscription, Telling)>,
    /// Requester of the run, if this request started it.
    requester: Option<AguiClient>,
    counted: observe::DeliveryMetrics,
    live: bool,
}

impl Run {
    /// Makes the stream of a run.
    pub fn new(
        state: &ApiState,
        first: Option<Bytes>,
        rest: Option<(Subscription, Telling)>,
        requester: Option<AguiClient>,
    ) -> Self {
        Self { first, rest, requester, counted: observe::DeliveryMetrics::new(&state.http), live: false }
    }

    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }
}

impl EventSource for Run {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while let Some((subscription, telling)) = &mut self.rest {
            let delivery = subscription.next().await?;
            if let Some(delivery) = &delivery {
                self.counted.delivers(delivery);
            }
            match delivery {
                Some(Delivery::Events(slice)) => {
                    let told = telling.slice(&slice, !self.live);
                    if !told.is_empty() {
                        return Ok(Some(told));
                    }
                }
                Some(Delivery::CaughtUp(_)) => self.live = true,
                Some(Delivery::FellBehind(_)) => self.live = false,
                Some(Delivery::Rebased { .. } | Delivery::Queue(_)) => {}
                Some(Delivery::Ended(
                    reason @ (EndReason::ThreadDeleted | EndReason::LogReplaced(_) | EndReason::LogDamaged { .. }),
                )) => {
                    let gone = telling.gone(reason);
                    self.rest = None;
                    self.leave();
                    return Ok(Some(gone));
                }
                Some(Delivery::Ended(EndReason::RunEnded)) | None => self.rest = None,
            }
        }
        self.leave();
        Ok(None)
    }

    fn tail(&self) -> u64 {
        self.rest.as_ref().map_or(0, |(subscription, _)| subscription.tail())
    }

    fn failed(&mut self, _: StoreError) -> Option<Bytes> {
        self.leave();
        None
    }

    /// Time for a run to end after shutdown has begun: the server ends the runs of its agents, and clients must receive
    /// that end.
    fn grace(&self) -> Duration {
        RUN_END_TIMEOUT
    }

    fn goodbye(&mut self, _: Farewell) -> Option<Bytes> {
        self.leave();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(events: &[&str]) -> Option<String> {
        let mut all = Gathered::of(events[0].as_bytes())?;
        let taken = events[1..].iter().all(|event| Gathered::of(event.as_bytes()).is_some_and(|next| all.takes(&next)));
        taken.then(|| String::from_utf8(all.event()).expect("text"))
    }

    #[test]
    fn pieces_of_one_text_are_put_together_and_no_others() {
        let piece = |id: &str, text: &str| {
            format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"{id}","delta":"{text}","x":1}}"#)
        };
        let all = gathered(&[&piece("m", r#"a\"\ud83d"#), &piece("m", r"\ude00"), &piece("m", "")]);
        assert_eq!(all, Some(piece("m", r#"a\"\ud83d\ude00"#)));
        assert_eq!(gathered(&[&piece("m", "a"), &piece("n", "b")]), None);
        assert_eq!(gathered(&[&piece("m", "a"), &piece("m", "b").replace("1", "2")]), None);
        let call = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{"}"#;
        assert_eq!(
            gathered(&[call, call]).as_deref(),
            Some(r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{{"}"#)
        );
        for other in [r#"{"type":"STATE_DELTA","delta":[]}"#, r#"{"type":"TEXT_MESSAGE_CONTENT","delta":7}"#] {
            assert_eq!(gathered(&[other]), None);
        }
        let long = piece("m", &"x".repeat(PAGE_BYTES / 2 + 1));
        assert_eq!(gathered(&[&long, &long]), None);
    }
}
