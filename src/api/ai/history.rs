//! Log of a chat: the runs of its messages, and their chunks.

use std::collections::HashSet;

use serde_json::Value;
use threadline_core::{
    Epoch, Principal, ReadFrom, Run, Seq, Thread, ThreadId, json,
    limits::{MAX_EVENT_PAGE, MAX_PAGE, MAX_UI_CALLS},
    projection::{
        superseding::ATTEMPT,
        ui_message::{UiStream, continues},
    },
};
use threadline_engine::{LookupError, PageRequest, ReadError};
use threadline_http::problem::Problem;

use crate::api::ApiState;

/// Thread of a chat: the listed branch of its conversation. `None` if the chat does not exist.
pub async fn thread_of(state: &ApiState, principal: &Principal, chat: &ThreadId) -> Result<Option<Thread>, Problem> {
    let thread = match state.service.threads.get(principal, chat).await {
        Err(LookupError::ThreadNotFound) => return Ok(None),
        thread => thread?,
    };
    if thread.branch.listed {
        return Ok(Some(thread));
    }
    let branches = state.service.forks.branches(principal, chat).await?;
    Ok(Some(branches.into_iter().find(|branch| branch.branch.listed).unwrap_or(thread)))
}

/// Log that is read: its thread and epoch.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    pub state: &'a ApiState,
    pub principal: &'a Principal,
    pub thread: &'a ThreadId,
    pub epoch: Epoch,
}

impl Log<'_> {
    /// Newest runs of the thread, newest first, and true if there are older ones.
    pub async fn runs(&self, most: usize) -> Result<(Vec<Run>, bool), Problem> {
        let (mut runs, mut before) = (Vec::new(), None);
        loop {
            let page = self.state.service.runs.list(self.principal, self.thread, before, MAX_PAGE, None).await?;
            runs.extend(page.items);
            match page.next {
                Some(next) if runs.len() < most => before = Some(next),
                next => {
                    let more = next.is_some() || runs.len() > most;
                    runs.truncate(most);
                    return Ok((runs, more));
                }
            }
        }
    }

    /// Runs of the message that `newest` belongs to, oldest first, with `newest` at the end: at most a page of them.
    pub async fn message_of(&self, newest: &Run) -> Result<Vec<Run>, Problem> {
        let mut chain = vec![newest.clone()];
        if self.continues(newest).await? {
            let (runs, _) = self.runs(MAX_PAGE).await?;
            for run in runs.into_iter().filter(|run| run.fence < newest.fence && run.producer_seq > 0) {
                let continues = self.continues(&run).await?;
                chain.push(run);
                if !continues {
                    break;
                }
            }
        }
        chain.reverse();
        Ok(chain)
    }

    /// True if a run continues the message of the run before.
    async fn continues(&self, run: &Run) -> Result<bool, ReadError> {
        let first = self.state.service.events.first_of(self.principal, self.thread, run, self.epoch).await?;
        Ok(first.is_some_and(|first| continues(&first)))
    }

    /// Passes the events of runs, oldest first, to `take`, without those that a later attempt has superseded. The first event of a
    /// run comes with true.
    pub async fn read_all(&self, runs: &[Run], mut take: impl FnMut(&Run, bool, &[u8]) + Send) -> Result<(), Problem> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
        let superseded = self.superseded_of(runs).await?;
        let mut runs = runs.iter().peekable();
        let take = |seq: Seq, event: &[u8]| {
            while runs.next_if(|run| run.last_seq() < seq).is_some() {}
            let Some(run) = runs.peek().filter(|run| run.first_seq <= seq) else { return };
            if !superseded.has(seq, event) {
                take(run, run.first_seq == seq, event);
            }
        };
        self.each(None, (first.first_seq - 1, last.last_seq()), take).await
    }

    /// Passes the events of a run to `take`, without those that a later attempt has superseded.
    pub async fn read(&self, run: &Run, mut take: impl FnMut(&[u8]) + Send) -> Result<(), Problem> {
        let superseded = self.superseded(run).await?;
        self.each(Some(run), (run.first_seq - 1, run.last_seq()), |seq, event| {
            if !superseded.has(seq, event) {
                take(event);
            }
        })
        .await
    }

    /// Events of a run that its later attempts have superseded.
    pub async fn superseded(&self, run: &Run) -> Result<Superseded, Problem> {
        let mut superseded = Superseded::default();
        // Only the server's own driver names attempts.
        if run.driven && run.attempt > 1 {
            let all = (run.first_seq - 1, run.last_seq());
            self.each(Some(run), all, |_, event| superseded.scan(event)).await?;
            superseded.parts.retain(|(from, to, _)| run.first_seq <= *from && *to <= run.last_seq());
        }
        Ok(superseded)
    }

    /// Passes the events after `cursor` up to `end` to `take`: those of one run, or all.
    async fn each(
        &self,
        run: Option<&Run>,
        (mut cursor, end): (Seq, Seq),
        mut take: impl FnMut(Seq, &[u8]) + Send,
    ) -> Result<(), Problem> {
        while cursor < end {
            let request = PageRequest {
                from: ReadFrom::After(cursor),
                limit: MAX_EVENT_PAGE,
                epoch: Some(self.epoch),
                run: run.map(|run| run.id.clone()),
                wait: None,
            };
            let page = self.state.service.events.page(self.principal, self.thread, request).await?;
            for (seq, event, _) in page.slice.events().filter(|(seq, ..)| *seq <= end) {
                take(seq, event);
            }
            if page.cursor <= cursor {
                break;
            }
            cursor = page.cursor;
        }
        Ok(())
    }

    /// Stream of a message after all runs of `chain` but the last: the client has these.
    pub async fn before(&self, chain: &[Run]) -> Result<UiStream, Problem> {
        let first = chain.first().map_or("", |run| run.id.as_str());
        let (mut stream, mut had) = (UiStream::new(first), Vec::new());
        for pair in chain.windows(2) {
            let observe = |event: &[u8]| {
                stream.observe(event, &mut had);
                had.clear();
            };
            self.read(&pair[0], observe).await?;
            stream.continued(pair[1].id.as_str(), true);
        }
        Ok(stream)
    }

    /// Events of runs that their later attempts have superseded.
    pub async fn superseded_of(&self, runs: &[Run]) -> Result<Superseded, Problem> {
        let mut all = Superseded::default();
        for run in runs {
            all.join(self.superseded(run).await?);
        }
        Ok(all)
    }
}

/// Events of a run that a later attempt has superseded: their seqs, and what is kept of them.
#[derive(Debug, Default)]
pub struct Superseded {
    parts: Vec<(Seq, Seq, HashSet<String>)>,
    /// Results of calls: message and call. A call is kept with its result.
    results: Vec<(String, String)>,
}

impl Superseded {
    /// Takes in the next event of a run.
    fn scan(&mut self, event: &[u8]) {
        if let Some((from, to, mut kept)) = supersedes(event) {
            let calls = self.results.drain(..).filter(|(message, _)| kept.contains(message)).map(|(_, call)| call);
            let calls: Vec<String> = calls.collect();
            kept.extend(calls);
            self.parts.push((from, to, kept));
        } else if let Ok(event) = std::str::from_utf8(event)
            && json::member(event, "type").is_some_and(|kind| json::is_string(kind, "TOOL_CALL_RESULT"))
        {
            let ids = (json::string_member(event, "messageId"), json::string_member(event, "toolCallId"));
            if let (Some(message), Some(call)) = ids
                && self.results.len() < MAX_UI_CALLS
            {
                self.results.push((message, call));
            }
        }
    }

    /// True if the event supersedes events that are not yet known as superseded.
    pub fn is_new(&self, event: &[u8]) -> bool {
        let known = |from: Seq, to: Seq| self.parts.iter().any(|(begin, end, _)| (*begin, *end) == (from, to));
        supersedes(event).is_some_and(|(from, to, _)| !known(from, to))
    }

    fn join(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// True if the event is superseded.
    pub fn has(&self, seq: Seq, event: &[u8]) -> bool {
        let Some((_, _, kept)) = self.parts.iter().find(|(from, to, _)| (*from..=*to).contains(&seq)) else {
            return false;
        };
        let Ok(event) = std::str::from_utf8(event) else { return true };
        let id = json::string_member(event, "toolCallId").or_else(|| json::string_member(event, "messageId"));
        !id.is_some_and(|id| kept.contains(&id))
    }
}

/// Seqs of the first and last event that an attempt supersedes, and ids of the messages that it keeps. `None` for an event that names
/// no attempt, and for an attempt that supersedes nothing.
fn supersedes(event: &[u8]) -> Option<(Seq, Seq, HashSet<String>)> {
    let value = attempt(event)?;
    let [from, to]: [Seq; 2] = serde_json::from_value(value.get("superseded")?.clone()).ok()?;
    let kept = value.get("kept").and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default();
    (from <= to).then_some((from, to, kept))
}

/// Value of the CUSTOM event that names an attempt.
fn attempt(event: &[u8]) -> Option<Value> {
    let event = std::str::from_utf8(event).ok().filter(|event| event.contains(ATTEMPT))?;
    let is = |name: &str, text: &str| json::member(event, name).is_some_and(|value| json::is_string(value, text));
    (is("type", "CUSTOM") && is("name", ATTEMPT)).then(|| serde_json::from_str(json::member(event, "value")?).ok())?
}
