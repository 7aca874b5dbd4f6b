//! Chunks of one message, from the events of its runs.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::{
    calls::Calls,
    chunk::{Chunk, DataPart, FinishReason, Metadata},
    lane::{Lane, closes_lane},
    texts::{Kind, Texts},
    user,
};
use crate::{
    event::{SERVER_MEMBER, names_subagent},
    json,
    limits::MAX_OPEN_PARTS,
    projection::conversation::Conversation,
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
    texts: Texts,
    calls: Calls,
    /// Interrupts that wait for the approval of a call: interrupt and call.
    approvals: HashMap<String, String>,
    lane: Option<Lane>,
    activities: Conversation,
    /// Tools that the front end supplied to the run.
    tools: HashSet<String>,
}

/// Id in place of one that an event does not have.
const NO_ID: &str = "";

impl UiStream {
    /// Begins the stream of the message whose first run is this one.
    pub fn new(run: &str) -> Self {
        Self {
            message: run.to_owned(),
            metadata: Metadata { run_id: run.to_owned() },
            started: false,
            in_step: false,
            has_result: false,
            texts: Texts::default(),
            calls: Calls::default(),
            approvals: HashMap::new(),
            lane: None,
            activities: Conversation::default(),
            tools: HashSet::new(),
        }
    }

    /// Goes on with a run that continues the message. With `announced`, the chunk `start` is given again, for the client that
    /// requested the run; a replay has it once.
    pub fn continued(&mut self, run: &str, announced: bool) {
        run.clone_into(&mut self.metadata.run_id);
        self.started &= !announced;
        self.lane = None;
        self.tools.clear();
    }

    /// Takes in an event, as JSON text, and adds its chunks to `out`. Text that is no AG-UI event is ignored.
    pub fn observe(&mut self, event: &[u8], out: &mut Vec<Chunk>) {
        let Ok(event) = std::str::from_utf8(event) else { return };
        let Some(kind) = json::string_member(event, "type") else { return };
        let text = |name: &str| json::string_member(event, name);
        let id = |name: &str| text(name).unwrap_or_else(|| NO_ID.to_owned());
        self.start(out);
        if !kind.starts_with("RUN_") && names_subagent(event) {
            return self.of_subagent(event, &kind);
        }
        if closes_lane(&kind) {
            self.leave_lane(out);
        }
        match &*kind {
            "RUN_STARTED" => self.run_started(event, out),
            "TEXT_MESSAGE_START" => self.text_start(Kind::Text, &id("messageId"), text("role"), out),
            "TEXT_MESSAGE_CONTENT" => self.text_delta(Kind::Text, &id("messageId"), json::member(event, "delta"), out),
            "TEXT_MESSAGE_END" => self.texts.end(Kind::Text, &id("messageId"), out),
            "TEXT_MESSAGE_CHUNK" | "REASONING_MESSAGE_CHUNK" => {
                let kind = if kind.starts_with('T') { Kind::Text } else { Kind::Reasoning };
                self.text_chunk(kind, text("messageId"), text("role"), json::member(event, "delta"), out);
            }
            "REASONING_MESSAGE_START" => self.text_start(Kind::Reasoning, &id("messageId"), None, out),
            "REASONING_MESSAGE_CONTENT" => {
                self.text_delta(Kind::Reasoning, &id("messageId"), json::member(event, "delta"), out);
            }
            "REASONING_MESSAGE_END" => self.texts.end(Kind::Reasoning, &id("messageId"), out),
            // Events of AG-UI before 1.0, which name no message.
            "THINKING_TEXT_MESSAGE_START" => self.text_start(Kind::Reasoning, NO_ID, None, out),
            "THINKING_TEXT_MESSAGE_CONTENT" => {
                self.text_delta(Kind::Reasoning, NO_ID, json::member(event, "delta"), out);
            }
            "THINKING_TEXT_MESSAGE_END" => self.texts.end(Kind::Reasoning, NO_ID, out),
            "TOOL_CALL_START" => self.call_start(&id("toolCallId"), id("toolCallName"), out),
            "TOOL_CALL_ARGS" => self.call_args(&id("toolCallId"), json::member(event, "delta"), out),
            "TOOL_CALL_END" => out.extend(self.calls.end(&id("toolCallId"))),
            "TOOL_CALL_CHUNK" => self.call_chunk(event, out),
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

    /// Leaves out an event of a subagent: its messages are not the assistant's.
    fn of_subagent(&mut self, event: &str, kind: &str) {
        let of = match kind {
            "TEXT_MESSAGE_START" => Kind::Text,
            "REASONING_MESSAGE_START" => Kind::Reasoning,
            _ => return,
        };
        if let Some(message) = json::string_member(event, "messageId") {
            self.texts.leave_out(of, message);
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
        let given = json::member(event, "metadata").and_then(|metadata| json::member(metadata, SERVER_MEMBER));
        let given =
            given.and_then(|server| json::member(server, "given")).and_then(|given| json::member(given, "tools"));
        let given: Vec<String> = given.and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default();
        let brought = user::items(json::member(input, "tools")).filter_map(|tool| json::string_member(tool, "name"));
        self.tools = given.into_iter().chain(brought).collect();
        for message in user::items(json::member(input, "messages")) {
            if json::member(message, "role").is_some_and(|role| json::is_string(role, "tool")) {
                let call = json::string_member(message, "toolCallId").unwrap_or_default();
                self.output(&call, json::member(message, "content"), out);
            }
        }
        for answer in user::items(json::member(input, "resume")) {
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

    fn text_start(&mut self, kind: Kind, message: &str, role: Option<String>, out: &mut Vec<Chunk>) {
        if role.is_some_and(|role| role != "assistant") {
            self.texts.leave_out(kind, message.to_owned());
        } else {
            self.open_text(kind, message, out);
        }
    }

    fn open_text(&mut self, kind: Kind, message: &str, out: &mut Vec<Chunk>) {
        if !self.texts.is_open(kind, message) {
            self.step(out);
            self.texts.begin(kind, message, out);
        }
    }

    fn text_delta(&mut self, kind: Kind, message: &str, delta: Option<&str>, out: &mut Vec<Chunk>) {
        let Some(delta) = piece(delta) else { return };
        if !self.texts.is_left_out(kind, message) {
            self.open_text(kind, message, out);
            self.texts.append(kind, message, delta, out);
        }
    }

    fn text_chunk(
        &mut self,
        kind: Kind,
        message: Option<String>,
        role: Option<String>,
        delta: Option<&str>,
        out: &mut Vec<Chunk>,
    ) {
        let message = match (message, &self.lane) {
            (Some(message), _) => message,
            (None, Some(Lane::Text(message))) if kind == Kind::Text => message.clone(),
            (None, Some(Lane::Reasoning(message))) if kind == Kind::Reasoning => message.clone(),
            _ => return,
        };
        let lane = match kind {
            Kind::Text => Lane::Text(message.clone()),
            Kind::Reasoning => Lane::Reasoning(message.clone()),
        };
        self.enter_lane(lane, out);
        if role.is_some() {
            self.text_start(kind, &message, role, out);
        }
        self.text_delta(kind, &message, delta, out);
    }

    fn call_start(&mut self, id: &str, name: String, out: &mut Vec<Chunk>) {
        if self.calls.has(id) {
            return;
        }
        self.step(out);
        let of_client = self.tools.contains(&name);
        out.extend(self.calls.start(id, name, of_client));
    }

    fn call_args(&mut self, id: &str, delta: Option<&str>, out: &mut Vec<Chunk>) {
        out.extend(piece(delta).and_then(|delta| self.calls.args(id, &delta)));
    }

    fn call_chunk(&mut self, event: &str, out: &mut Vec<Chunk>) {
        let id = match (json::string_member(event, "toolCallId"), &self.lane) {
            (Some(id), _) => id,
            (None, Some(Lane::Tool(id))) => id.clone(),
            _ => return,
        };
        self.enter_lane(Lane::Tool(id.clone()), out);
        if let Some(name) = json::string_member(event, "toolCallName") {
            self.call_start(&id, name, out);
        }
        self.call_args(&id, json::member(event, "delta"), out);
    }

    /// Gives a result of a tool, from the agent. The next part begins a step.
    fn result(&mut self, call: &str, content: Option<&str>, out: &mut Vec<Chunk>) {
        out.extend(self.calls.end(call));
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
        let list: Vec<&str> = user::items(json::member(event, "messages")).collect();
        let from = list.iter().rposition(|message| user::has_role(message, "user")).map_or(list.len(), |at| at + 1);
        for message in &list[from..] {
            let (Some(id), Some(content)) = (json::string_member(message, "id"), json::member(message, "content"))
            else {
                continue;
            };
            if user::has_role(message, "assistant") && !names_subagent(message) && !self.texts.has(Kind::Text, &id) {
                self.text_delta(Kind::Text, &id, Some(content), out);
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
        for interrupt in user::items(asked) {
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
        self.texts.settle(out);
        out.extend(self.calls.end_all());
    }

    fn enter_lane(&mut self, lane: Lane, out: &mut Vec<Chunk>) {
        if self.lane.as_ref() != Some(&lane) {
            self.leave_lane(out);
            self.lane = Some(lane);
        }
    }

    /// Ends the text or call that chunk events have continued.
    fn leave_lane(&mut self, out: &mut Vec<Chunk>) {
        match self.lane.take() {
            Some(Lane::Text(message)) => self.texts.end(Kind::Text, &message, out),
            Some(Lane::Reasoning(message)) => self.texts.end(Kind::Reasoning, &message, out),
            Some(Lane::Tool(id)) => out.extend(self.calls.end(&id)),
            None => {}
        }
    }
}

/// Piece of a text, a JSON string; `None` if it is empty or no string.
fn piece(token: Option<&str>) -> Option<Box<RawValue>> {
    token.filter(|token| token.starts_with('"') && *token != "\"\"").and_then(raw)
}

/// A token as a value of its own.
fn raw(token: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(token.to_owned()).ok()
}
