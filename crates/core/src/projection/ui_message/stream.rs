//! Chunks of one message, from the events of its runs.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::{
    calls::Calls,
    chunk::{Chunk, DataPart, FinishReason, Metadata},
    texts::Texts,
    user,
};
use crate::{
    event::{SERVER_MEMBER, names_subagent},
    json,
    limits::MAX_OPEN_PARTS,
    projection::{
        conversation::Conversation,
        parts::{Kind, NO_ID, Parts, Step, piece},
        reading::{client_tools, has_role, items},
    },
};

/// Fold from events to the chunks of one message. Events are passed in order, from the first one of the message's first run.
#[derive(Debug)]
pub struct UiStream {
    message: String,
    metadata: Metadata,
    started: bool,
    in_step: bool,
    /// True if the open step has a result of a tool: the next part begins a step.
    has_result: bool,
    parts: Parts,
    texts: Texts,
    calls: Calls,
    /// Interrupts that wait for the approval of a call: interrupt and call.
    approvals: HashMap<String, String>,
    activities: Conversation,
    /// Tools that the front end supplied to the run.
    tools: HashSet<String>,
}

impl UiStream {
    /// Begins the stream of the message whose first run is this one.
    pub fn new(run: &str) -> Self {
        Self {
            message: run.to_owned(),
            metadata: Metadata { run_id: run.to_owned() },
            started: false,
            in_step: false,
            has_result: false,
            parts: Parts::default(),
            texts: Texts::default(),
            calls: Calls::default(),
            approvals: HashMap::new(),
            activities: Conversation::default(),
            tools: HashSet::new(),
        }
    }

    /// Goes on with a run that continues the message. With `announced`, the chunk `start` is given again, for the client that
    /// requested the run; a replay has it once.
    pub fn continued(&mut self, run: &str, announced: bool) {
        run.clone_into(&mut self.metadata.run_id);
        self.started &= !announced;
        self.parts = Parts::default();
        self.tools.clear();
    }

    /// Takes in an event, as JSON text, and adds its chunks to `out`. Text that is no AG-UI event is ignored.
    pub fn observe(&mut self, event: &[u8], out: &mut Vec<Chunk>) {
        let Ok(event) = std::str::from_utf8(event) else { return };
        let Some(kind) = json::string_member(event, "type") else { return };
        let text = |name: &str| json::string_member(event, name);
        let id = |name: &str| text(name).unwrap_or_else(|| NO_ID.to_owned());
        self.start(out);
        let Some(steps) = self.parts.read(&kind, event) else { return };
        for step in steps {
            self.step_of(step, out);
        }
        match &*kind {
            "RUN_STARTED" => self.run_started(event, out),
            "TOOL_CALL_RESULT" => self.result(&id("toolCallId"), json::member(event, "content"), out),
            "MESSAGES_SNAPSHOT" => self.snapshot(event, out),
            "STEP_STARTED" => self.next_step(out),
            "STATE_SNAPSHOT" => self.data("state", None, json::member(event, "snapshot"), true, out),
            "STATE_DELTA" => self.data("state-delta", None, json::member(event, "delta"), true, out),
            "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" => self.activity(event, &id("messageId"), out),
            "CUSTOM" => {
                let name = id("name");
                // Events of the server itself are not for the page.
                if name != SERVER_MEMBER && !name.starts_with("threadline.") {
                    self.data(&name, None, json::member(event, "value"), false, out);
                }
            }
            "RUN_FINISHED" => self.run_finished(json::member(event, "outcome"), out),
            "RUN_ERROR" => {
                self.settle(out);
                let error_text = text("message").filter(|message| !message.is_empty());
                out.push(Chunk::Error { error_text: error_text.unwrap_or_else(|| "The run has failed.".to_owned()) });
            }
            _ => {}
        }
    }

    fn step_of(&mut self, step: Step<'_>, out: &mut Vec<Chunk>) {
        match step {
            Step::Begin(kind, message) => self.open_text(kind, &message, out),
            Step::Delta(kind, message, delta) => self.text_delta(kind, &message, delta, out),
            Step::End(kind, message) => self.texts.end(kind, &message, out),
            Step::Call { id, name } => self.call_start(&id, name, out),
            Step::Args(id, delta) => out.extend(raw(delta).and_then(|delta| self.calls.args(&id, &delta))),
            Step::CallEnd(id) => out.extend(self.calls.end(&id)),
        }
    }

    fn start(&mut self, out: &mut Vec<Chunk>) {
        if !self.started {
            self.started = true;
            let (message_id, message_metadata) = (self.message.clone(), self.metadata.clone());
            out.push(Chunk::Start { message_id, message_metadata });
        }
    }

    /// Notes the tools of the run, and gives the results and denials that the run brings for calls of the message.
    fn run_started(&mut self, event: &str, out: &mut Vec<Chunk>) {
        let input = json::member(event, "input").unwrap_or("null");
        self.tools = client_tools(event);
        for message in items(json::member(input, "messages")) {
            if json::member(message, "role").is_some_and(|role| json::is_string(role, "tool")) {
                let call = json::string_member(message, "toolCallId").unwrap_or_default();
                self.output(&call, json::member(message, "content"), out);
            }
        }
        for answer in items(json::member(input, "resume")) {
            let interrupt = json::string_member(answer, "interruptId").unwrap_or_default();
            let Some(call) = self.approvals.remove(&interrupt) else { continue };
            let approved = json::member(answer, "payload").and_then(|payload| json::member(payload, "approved"));
            let is_cancelled =
                json::member(answer, "status").is_some_and(|status| json::is_string(status, "cancelled"));
            if (is_cancelled || approved == Some("false")) && self.calls.waits(&call) {
                self.calls.settle(&call);
                out.push(Chunk::ToolOutputDenied { tool_call_id: call });
            }
        }
    }

    fn open_text(&mut self, kind: Kind, message: &str, out: &mut Vec<Chunk>) {
        if !self.texts.is_open(kind, message) {
            self.step(out);
            self.texts.begin(kind, message, out);
        }
    }

    fn text_delta(&mut self, kind: Kind, message: &str, delta: &str, out: &mut Vec<Chunk>) {
        if let Some(delta) = raw(delta) {
            self.open_text(kind, message, out);
            self.texts.append(kind, message, delta, out);
        }
    }

    fn call_start(&mut self, id: &str, name: String, out: &mut Vec<Chunk>) {
        if self.calls.has(id) {
            return;
        }
        self.step(out);
        let of_client = self.tools.contains(&name);
        out.extend(self.calls.start(id, name, of_client));
    }

    /// Gives a result of a tool, from the agent. The next part begins a step.
    fn result(&mut self, call: &str, content: Option<&str>, out: &mut Vec<Chunk>) {
        // A result of a call of the run before comes before the first step of this one.
        self.has_result |= self.in_step && self.calls.has(call);
        self.output(call, content, out);
    }

    fn output(&mut self, call: &str, content: Option<&str>, out: &mut Vec<Chunk>) {
        if self.calls.settle(call) {
            let output = user::output(content.unwrap_or("null"));
            out.push(Chunk::ToolOutputAvailable { tool_call_id: call.to_owned(), output });
        }
    }

    /// Gives texts that were not streamed: those of the assistant after the last message of the user.
    fn snapshot(&mut self, event: &str, out: &mut Vec<Chunk>) {
        let list: Vec<&str> = items(json::member(event, "messages")).collect();
        let from = list.iter().rposition(|message| has_role(message, "user")).map_or(list.len(), |at| at + 1);
        for message in &list[from..] {
            let (Some(id), Some(content)) = (json::string_member(message, "id"), json::member(message, "content"))
            else {
                continue;
            };
            if has_role(message, "assistant") && !names_subagent(message) && !self.texts.has(Kind::Text, &id) {
                if let Some(content) = piece(Some(content)) {
                    self.text_delta(Kind::Text, &id, content, out);
                }
                self.texts.end(Kind::Text, &id, out);
            }
        }
    }

    fn activity(&mut self, event: &str, id: &str, out: &mut Vec<Chunk>) {
        self.activities.observe(event.as_bytes());
        let mut message = Vec::new();
        let Some(found) = self.activities.message(id) else { return };
        found.write_json(&mut message);
        let Ok(message) = std::str::from_utf8(&message) else { return };
        let member = |name: &str| json::member(message, name).unwrap_or("null");
        let data = format!("{{\"activityType\":{},\"content\":{}}}", member("activityType"), member("content"));
        self.data("activity", Some(id), Some(&data), false, out);
    }

    fn data(&mut self, name: &str, id: Option<&str>, data: Option<&str>, transient: bool, out: &mut Vec<Chunk>) {
        let Some(data) = raw(data.unwrap_or("null")) else { return };
        if !transient {
            self.step(out);
        }
        out.push(Chunk::Data(DataPart { name: name.to_owned(), id: id.map(str::to_owned), data, transient }));
    }

    fn run_finished(&mut self, outcome: Option<&str>, out: &mut Vec<Chunk>) {
        self.settle(out);
        let interrupted = outcome
            .filter(|outcome| json::member(outcome, "type").is_some_and(|kind| json::is_string(kind, "interrupt")));
        let asked = interrupted.and_then(|outcome| json::member(outcome, "interrupts"));
        let mut others = Vec::new();
        for interrupt in items(asked) {
            let Some(id) = json::string_member(interrupt, "id") else { continue };
            let call = json::string_member(interrupt, "toolCallId").filter(|call| self.calls.waits(call));
            match call.filter(|_| self.approvals.len() < MAX_OPEN_PARTS) {
                Some(call) => {
                    self.approvals.insert(id.clone(), call.clone());
                    out.push(Chunk::ToolApprovalRequest { approval_id: id, tool_call_id: call });
                }
                None => others.push((id, interrupt)),
            }
        }
        for (id, interrupt) in others {
            self.data("interrupt", Some(&id), Some(interrupt), false, out);
        }
        if interrupted.is_none() {
            out.extend(self.calls.left());
        }
        self.end_step(out);
        let waits = interrupted.is_some() || self.calls.wait_for_client();
        out.push(Chunk::Finish { finish_reason: if waits { FinishReason::ToolCalls } else { FinishReason::Stop } });
    }

    /// Opens a step, if none is open or the open one is complete.
    fn step(&mut self, out: &mut Vec<Chunk>) {
        if self.has_result {
            self.next_step(out);
        }
        if !self.in_step {
            self.in_step = true;
            out.push(Chunk::StartStep);
        }
    }

    /// Ends the open step, unless a call of it has no result: clients look for such a call in the open step only.
    fn next_step(&mut self, out: &mut Vec<Chunk>) {
        if self.in_step && !self.calls.hold_the_step() {
            self.end_step(out);
        }
    }

    fn end_step(&mut self, out: &mut Vec<Chunk>) {
        if self.in_step {
            self.texts.end_all(out);
            self.calls.end_step();
            self.in_step = false;
            self.has_result = false;
            out.push(Chunk::FinishStep);
        }
    }

    /// Ends the texts and arguments that are open, as clients do at the end of a run.
    fn settle(&mut self, out: &mut Vec<Chunk>) {
        self.texts.end_all(out);
        out.extend(self.calls.end_all());
    }
}

/// A token as a value of its own.
fn raw(token: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(token.to_owned()).ok()
}
