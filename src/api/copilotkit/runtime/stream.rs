//! The events of one run for a stock client, until it has ended.

use std::{borrow::Cow, collections::HashSet, time::Duration};

use axum::body::Bytes;
use serde_json::{Value, json};

use super::acceptable;
use crate::{
    api::{
        ApiState,
        agui::Requester,
        observe,
        sse::{Farewell, Followed},
    },
    domain::{
        LogSlice, RunId, ThreadId, json as text,
        limits::{MAX_OPEN_PARTS, PAGE_BYTES, RUN_END_TIMEOUT},
    },
    store::StoreError,
    subscription::{Delivery, EndReason, Subscription},
};

/// Writes an event as SSE.
pub fn write(out: &mut Vec<u8>, event: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(event);
    out.extend_from_slice(b"\n\n");
}

/// Writes an event of ours.
pub fn write_value(out: &mut Vec<u8>, event: &Value) {
    write(out, event.to_string().as_bytes());
}

/// `RUN_STARTED` or `RUN_FINISHED` of a run.
pub fn bound(kind: &str, thread: &ThreadId, run: &RunId) -> Value {
    json!({ "type": kind, "threadId": thread.as_str(), "runId": run.as_str() })
}

/// What is sent of a run: only what the client accepts, and RUN_STARTED before everything else, once.
pub struct Telling {
    thread: ThreadId,
    run: RunId,
    begun: bool,
    /// Messages and calls whose beginning was left out: so is the rest of them.
    unsaid: HashSet<String>,
}

impl Telling {
    /// Of a run; `begun`: its beginning was told before.
    pub fn new(thread: ThreadId, run: RunId, begun: bool) -> Self {
        Self { thread, run, begun, unsaid: HashSet::new() }
    }

    /// Writes the next event.
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

    /// Before an event of the run: one that has none of its own is given a beginning.
    fn begin(&mut self, out: &mut Vec<u8>, starts: bool) {
        if !self.begun && !starts {
            write_value(out, &bound("RUN_STARTED", &self.thread, &self.run));
        }
        self.begun = true;
    }

    /// Events, token by token; if they are `past`, what continues the one before is put together with it, since a client
    /// works long on each.
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

    /// The thread is gone, and with it the run's own end.
    fn gone(&mut self) -> Bytes {
        let mut out = Vec::new();
        self.begin(&mut out, false);
        let error = json!({ "type": "RUN_ERROR", "message": "The thread was deleted.", "code": "THREAD_DELETED" });
        write_value(&mut out, &error);
        out.into()
    }
}

/// Pieces of one text, put together: their events differ in nothing but the piece.
struct Gathered<'a> {
    before: &'a str,
    /// The insides of JSON strings, one behind the other: a character may be cut between two of them.
    text: String,
    after: &'a str,
}

impl<'a> Gathered<'a> {
    /// A piece of a text, if the event brings one.
    fn of(event: &'a [u8]) -> Option<Self> {
        let event = std::str::from_utf8(event).ok()?;
        let kind = text::member(event, "type")?;
        if !matches!(kind, "\"TEXT_MESSAGE_CONTENT\"" | "\"REASONING_MESSAGE_CONTENT\"" | "\"TOOL_CALL_ARGS\"") {
            return None;
        }
        let delta = text::member(event, "delta")?;
        let inside = delta.strip_prefix('"')?.strip_suffix('"')?;
        // A part of the event, so that what is around it can be told.
        let start = inside.as_ptr() as usize - event.as_ptr() as usize;
        Some(Self { before: event.get(..start)?, text: inside.to_owned(), after: event.get(start + inside.len()..)? })
    }

    /// Takes a piece that continues this one.
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

/// A run as its client follows it. Clients take a stream that ends cleanly for a run that has ended, so one that has not is
/// cut off.
pub struct Run {
    /// What is said first.
    first: Option<Bytes>,
    /// What comes then, if a run is under way.
    rest: Option<(Subscription, Telling)>,
    /// Whoever asked for the run, if it was asked for here.
    requester: Option<Requester>,
    counted: observe::Followed,
    live: bool,
}

impl Run {
    /// To be followed.
    pub fn new(
        state: &ApiState,
        first: Option<Bytes>,
        rest: Option<(Subscription, Telling)>,
        requester: Option<Requester>,
    ) -> Self {
        Self { first, rest, requester, counted: observe::Followed::new(state), live: false }
    }

    fn leave(&mut self) {
        if let Some(requester) = &mut self.requester {
            requester.done();
        }
    }
}

impl Followed for Run {
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
                Some(Delivery::Ended(EndReason::ThreadDeleted)) => {
                    let gone = telling.gone();
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

    /// The server ends the runs of its agents when it shuts down, and clients are to be told how theirs ended.
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
