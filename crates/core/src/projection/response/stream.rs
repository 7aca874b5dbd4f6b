//! Stream of a response, from the events of its run.

use std::{borrow::Cow, collections::HashSet};

use super::{
    event::{Numbers, ResponseEvent, Sink},
    header::Header,
    item::State,
    object::{self, Fields, Status},
    output::{Output, Shown},
    usage::Usage,
};
use crate::{
    Timestamp,
    event::names_subagent,
    json,
    projection::{
        parts::{Kind, Parts, Step, piece},
        reading::{client_tools, has_role, items},
    },
};

/// Fold from the events of one run to the stream of its response. Events are passed in order, from the run's first one.
///
/// A response is `queued` until the first event.
#[derive(Debug, Clone)]
pub struct ResponseStream {
    header: Header,
    numbers: Numbers,
    parts: Parts,
    output: Output,
    status: Status,
    is_stopped: bool,
    /// Tools that the client supplied to the run: it executes their calls.
    tools: HashSet<String>,
    /// Last message that the run brought.
    brought: Option<String>,
    ended_at: Option<Timestamp>,
    /// Error of the run as JSON.
    error: Option<String>,
    usage: Option<Usage>,
    /// Fold that also includes superseded events, to count the events of the stream.
    whole: Option<Box<Self>>,
}

impl ResponseStream {
    /// Begins the stream of a response.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            numbers: Numbers::default(),
            parts: Parts::default(),
            output: Output::default(),
            status: Status::Queued,
            is_stopped: false,
            tools: HashSet::new(),
            brought: None,
            ended_at: None,
            error: None,
            usage: None,
            whole: None,
        }
    }

    /// Leaves out the events up to this `sequence_number`, for `starting_after`: they are counted, and not written.
    pub fn skip(&mut self, starting_after: u64) {
        self.numbers.from = starting_after.saturating_add(1);
    }

    /// Notes that the run was stopped, as its record says: RUN_FINISHED then ends a response that is `cancelled`. To be called before
    /// that event is taken in.
    pub fn note_stop(&mut self) {
        self.is_stopped = true;
    }

    /// Number of events so far, those that were left out included: the `sequence_number` of the next one.
    pub fn count(&self) -> u64 {
        self.numbers.next
    }

    /// True after the terminal event of the run: the stream has its last event.
    pub fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Size of the Response object, in bytes of its items.
    pub fn bytes(&self) -> usize {
        self.output.bytes()
    }

    /// The Response object as of the events so far, as JSON on one line.
    pub fn response(&self) -> String {
        let mut json = String::new();
        self.write_response(&mut json);
        json
    }

    /// Takes in an event of the run, as JSON text, and the time of its commit; adds its stream events to `out`. Text that is no
    /// AG-UI event is ignored.
    pub fn observe(&mut self, event: &[u8], at: Timestamp, out: &mut Vec<ResponseEvent>) {
        self.whole = None;
        self.take(event, at, out);
    }

    /// Takes in an event of an attempt that a later one has superseded. The stream events that the event gave live are counted, so that
    /// later ones have the same numbers in every replay. With `is_kept`, the later attempt has kept the message or call of the event.
    pub fn observe_superseded(&mut self, event: &[u8], at: Timestamp, is_kept: bool, out: &mut Vec<ResponseEvent>) {
        let begins = std::str::from_utf8(event).ok().and_then(|event| json::member(event, "type"));
        let is_kept = is_kept || begins.is_some_and(|kind| json::is_string(kind, "RUN_STARTED"));
        self.start(out);
        let mut whole = self.whole.take().unwrap_or_else(|| Box::new(self.clone()));
        whole.numbers.from = u64::MAX;
        self.numbers.next = whole.numbers.next;
        whole.take(event, at, &mut Vec::new());
        if is_kept {
            self.take(event, at, out);
        }
        self.numbers.next = self.numbers.next.max(whole.numbers.next);
        whole.numbers.next = self.numbers.next;
        self.whole = Some(whole);
    }

    fn take(&mut self, event: &[u8], at: Timestamp, out: &mut Vec<ResponseEvent>) {
        let Ok(event) = std::str::from_utf8(event) else { return };
        let Some(kind) = json::string_member(event, "type") else { return };
        if self.has_ended() {
            return;
        }
        self.start(out);
        let Some(steps) = self.parts.read(&kind, event) else { return };
        let sink = &mut Sink { numbers: &mut self.numbers, out };
        for step in steps {
            apply(&mut self.output, &self.tools, step, sink);
        }
        match &*kind {
            "RUN_STARTED" => self.run_started(event),
            "TOOL_CALL_RESULT" => {
                let id = json::string_member(event, "toolCallId").unwrap_or_default();
                self.output.result(&id, &text_of(json::member(event, "content")), sink);
            }
            "MESSAGES_SNAPSHOT" => self.snapshot(event, out),
            "RUN_FINISHED" => self.run_finished(event, at, out),
            "RUN_ERROR" => self.run_failed(event, at, out),
            _ => {}
        }
    }

    fn start(&mut self, out: &mut Vec<ResponseEvent>) {
        if self.status == Status::Queued {
            self.status = Status::InProgress;
            self.lifecycle_event("response.created", out);
            self.lifecycle_event("response.in_progress", out);
        }
    }

    fn run_started(&mut self, event: &str) {
        let input = json::member(event, "input").unwrap_or("null");
        self.tools = client_tools(event);
        let last = items(json::member(input, "messages")).last();
        self.brought = last.and_then(|message| json::string_member(message, "id"));
    }

    /// Gives the texts of the assistant that were not streamed, after the last message that the run brought. For a run that brought no
    /// message, they begin after the last result of a tool.
    fn snapshot(&mut self, event: &str, out: &mut Vec<ResponseEvent>) {
        let list: Vec<&str> = items(json::member(event, "messages")).collect();
        let is_before = |message: &&str| match &self.brought {
            Some(brought) => json::string_member(message, "id").as_ref() == Some(brought),
            None => has_role(message, "tool"),
        };
        let from = list.iter().rposition(|message| has_role(message, "user") || is_before(message));
        let from = from.map_or(list.len(), |at| at + 1);
        let sink = &mut Sink { numbers: &mut self.numbers, out };
        for message in &list[from..] {
            let (Some(id), Some(content)) =
                (json::string_member(message, "id"), piece(json::member(message, "content")))
            else {
                continue;
            };
            if has_role(message, "assistant") && !names_subagent(message) && !self.output.has_text(&id) {
                self.output.append_text(Kind::Text, &id, content, sink);
                self.output.end(Shown::Text(Kind::Text, &id), sink);
            }
        }
    }

    fn run_finished(&mut self, event: &str, at: Timestamp, out: &mut Vec<ResponseEvent>) {
        let outcome = json::member(event, "outcome").unwrap_or("null");
        let is = |kind: &str| json::member(outcome, "type").is_some_and(|known| json::is_string(known, kind));
        let is_cancelled = self.is_stopped || is("cancelled");
        let sink = &mut Sink { numbers: &mut self.numbers, out };
        self.output.end_all(if is_cancelled { State::Cut } else { State::Done }, sink);
        if is("interrupt") {
            for interrupt in items(json::member(outcome, "interrupts")) {
                // Beyond the limit, arguments are not even copied.
                if !self.output.is_cut() {
                    ask(&mut self.output, interrupt, sink);
                }
            }
        }
        let status = if is_cancelled {
            Status::Cancelled
        } else if self.output.is_cut() {
            Status::Incomplete
        } else {
            Status::Completed
        };
        self.end(status, event, at, out);
    }

    fn run_failed(&mut self, event: &str, at: Timestamp, out: &mut Vec<ResponseEvent>) {
        self.output.end_all(State::Cut, &mut Sink { numbers: &mut self.numbers, out });
        let text = |name: &str, default: &str| {
            let text = json::string_member(event, name).filter(|text| !text.is_empty());
            json::quoted(text.as_deref().unwrap_or(default))
        };
        let (code, message) = (text("code", "server_error"), text("message", "The run has failed."));
        self.error = Some(format!("{{\"code\":{code},\"message\":{message}}}"));
        self.end(Status::Failed, event, at, out);
    }

    fn end(&mut self, status: Status, event: &str, at: Timestamp, out: &mut Vec<ResponseEvent>) {
        self.status = status;
        self.ended_at = Some(at);
        self.usage = Usage::read(json::member(event, "usage"));
        let kind = match status {
            Status::Completed => "response.completed",
            Status::Failed => "response.failed",
            _ => "response.incomplete",
        };
        self.lifecycle_event(kind, out);
    }

    fn lifecycle_event(&mut self, kind: &'static str, out: &mut Vec<ResponseEvent>) {
        let mut numbers = self.numbers;
        Sink { numbers: &mut numbers, out }.event(kind, |json| {
            json.push_str(",\"response\":");
            self.write_response(json);
        });
        self.numbers = numbers;
    }

    fn write_response(&self, json: &mut String) {
        let fields = Fields {
            status: self.status,
            ended_at: self.ended_at,
            error: self.error.as_deref(),
            usage: self.usage,
            output: self.output.items(),
        };
        object::write(&self.header, &fields, json);
    }
}

fn apply(output: &mut Output, tools: &HashSet<String>, step: Step<'_>, sink: &mut Sink<'_>) {
    match step {
        Step::Begin(..) => {}
        Step::Delta(kind, message, delta) => output.append_text(kind, &message, delta, sink),
        Step::End(kind, message) => output.end(Shown::Text(kind, &message), sink),
        Step::Call { id, name } => output.begin_call(&id, &name, tools.contains(&name), sink),
        Step::Args(id, delta) => output.append_args(&id, delta, sink),
        Step::CallEnd(id) => output.end(Shown::Call(&id), sink),
    }
}

/// Result of a tool as the content of a JSON string: a text, or else the JSON of its parts.
fn text_of(content: Option<&str>) -> Cow<'_, str> {
    let content = content.unwrap_or("\"\"");
    match content.strip_prefix('"').and_then(|content| content.strip_suffix('"')) {
        Some(content) => Cow::Borrowed(content),
        None => {
            let token = json::quoted(content);
            Cow::Owned(token[1..token.len() - 1].to_owned())
        }
    }
}

/// Asks for the answer to an interrupt: with the tool and the arguments of the call that it names, or else with its reason and all
/// of it as arguments.
fn ask(output: &mut Output, interrupt: &str, sink: &mut Sink<'_>) {
    let Some(id) = json::string_member(interrupt, "id").filter(|id| !id.is_empty()) else { return };
    let call = json::string_member(interrupt, "toolCallId");
    let (name, arguments) = match call.and_then(|call| output.call(&call)) {
        Some((name, arguments)) => (name.to_owned(), arguments.to_owned()),
        None => {
            let reason = json::string_member(interrupt, "reason").unwrap_or_else(|| "interrupt".to_owned());
            (json::quoted(&reason), text_of(Some(interrupt)).into_owned())
        }
    };
    output.ask(&id, name, arguments, sink);
}
