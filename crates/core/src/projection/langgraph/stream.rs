//! Derived events of a thread, run by run.

use std::collections::{HashMap, HashSet};

use super::{
    Channels, NODE, PER_EVENT,
    blocks::{Blocks, Called, Kind, Told},
    frame::{Derived, Method, Point},
    message::content_text,
};
use crate::{
    Seq,
    event::{SERVER_MEMBER, names_subagent},
    json::{self, quoted},
    limits::{MAX_STREAMED_MESSAGES, MAX_UI_CALLS},
    projection::{
        lane::{Lane, closes_lane},
        reading::items,
        superseding::ATTEMPT,
    },
};

/// Numbers that are reserved for the last events that derive from an event of the log: the end of a run is never left out.
const RESERVED: u64 = 64;

/// Fold from the events of a thread to the derived events of some channels. The fold may begin before any run, and takes in every
/// event from there on. The numbers do not depend on the channels.
#[derive(Debug)]
pub struct ThreadStream {
    channels: Channels,
    /// Run of the newest event.
    run: String,
    /// Seq of the newest checkpoint.
    parent: Seq,
    message: Option<Open>,
    /// Messages of the run that have begun.
    seen: HashSet<String>,
    /// Tools of the calls of the run.
    calls: HashMap<String, String>,
    lane: Option<Lane>,
}

/// Message that is streamed.
#[derive(Debug)]
struct Open {
    id: String,
    blocks: Blocks,
    kind: Kind,
    /// True once the text has ended. Calls may follow, and the next message ends this one.
    ended: bool,
}

/// Derived events of one event.
struct Out<'a> {
    channels: &'a Channels,
    seq: Seq,
    /// Number of derived events so far.
    told: u64,
    events: &'a mut Vec<Derived>,
}

impl Out<'_> {
    fn add(&mut self, method: Method, is_wanted: bool, room: u64, data: impl FnOnce() -> String) {
        if self.told + room >= PER_EVENT {
            return;
        }
        let number = self.seq * PER_EVENT + self.told;
        self.told += 1;
        if is_wanted {
            self.events.push(Derived::Event { number, method, data: data() });
        }
    }

    fn lifecycle(&mut self, event: &str, error: Option<&str>) {
        let error = error.map(|error| format!(",\"error\":{}", quoted(error))).unwrap_or_default();
        let is_wanted = self.channels.has("lifecycle");
        let data = || format!("{{\"event\":\"{event}\",\"graph_name\":\"{NODE}\"{error}}}");
        self.add(Method::Lifecycle, is_wanted, 0, data);
    }

    fn input(&mut self, method: Method, data: impl FnOnce() -> String) {
        let is_wanted = self.channels.has("input");
        self.add(method, is_wanted, RESERVED, data);
    }

    fn messages(&mut self, data: impl FnOnce() -> String) {
        let is_wanted = self.channels.has("messages");
        self.add(Method::Messages, is_wanted, RESERVED, data);
    }

    fn told(&mut self, told: Vec<Told>) {
        for (data, called) in told {
            self.messages(|| data);
            if let Some(called) = called {
                self.called(&called);
            }
        }
    }

    fn called(&mut self, Called { id, tool, input }: &Called) {
        let is_wanted = self.channels.has("tools");
        let data = || {
            let (id, tool) = (quoted(id), quoted(tool));
            format!("{{\"event\":\"tool-started\",\"tool_call_id\":{id},\"tool_name\":{tool},\"input\":{input}}}")
        };
        self.add(Method::Tools, is_wanted, RESERVED, data);
    }

    fn returned(&mut self, call: &str, tool: Option<&String>, message: &str) {
        let is_wanted = self.channels.has("tools");
        let data = || {
            let call = quoted(call);
            let content = json::member(message, "content").map(content_text).unwrap_or_default();
            match json::member(message, "error").filter(|error| *error != "null") {
                Some(error) => {
                    let error = json::string(error).unwrap_or(content);
                    format!("{{\"event\":\"tool-error\",\"tool_call_id\":{call},\"message\":{}}}", quoted(&error))
                }
                None => {
                    let tool = tool.map(|tool| format!("\"tool_name\":{},", quoted(tool))).unwrap_or_default();
                    let output = quoted(&content);
                    format!("{{\"event\":\"tool-finished\",\"tool_call_id\":{call},{tool}\"output\":{output}}}")
                }
            }
        };
        self.add(Method::Tools, is_wanted, RESERVED, data);
    }

    /// Adds a checkpoint, and returns its seq.
    fn point(&mut self, parent: Seq, stays: bool) -> Seq {
        if self.told + 2 < PER_EVENT {
            let number = self.seq * PER_EVENT + self.told;
            self.told += 2;
            if self.channels.has("values") || self.channels.has("checkpoints") {
                self.events.push(Derived::Point(Point { number, seq: self.seq, parent, stays }));
            }
        }
        self.seq
    }
}

impl ThreadStream {
    /// Begins after the event `after`, which must be the last one of its run, or 0.
    pub fn new(channels: Channels, after: Seq) -> Self {
        Self {
            channels,
            run: String::new(),
            parent: after,
            message: None,
            seen: HashSet::new(),
            calls: HashMap::new(),
            lane: None,
        }
    }

    /// Channels of the stream.
    pub fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Changes the channels of the events that are yet to be taken in.
    pub fn set_channels(&mut self, channels: Channels) {
        self.channels = channels;
    }

    /// Takes in the next event, as JSON text, and adds what derives from it to `events`.
    pub fn observe(&mut self, run: &str, seq: Seq, event: &[u8], events: &mut Vec<Derived>) {
        let channels = std::mem::take(&mut self.channels);
        let mut out = Out { channels: &channels, seq, told: 0, events };
        self.take(run, std::str::from_utf8(event).unwrap_or_default(), &mut out);
        self.channels = channels;
    }

    fn take(&mut self, run: &str, event: &str, out: &mut Out<'_>) {
        let kind = json::string_member(event, "type").unwrap_or_default();
        if self.run != run {
            self.begin(run, event, out);
        }
        if !kind.starts_with("RUN_") && names_subagent(event) {
            return;
        }
        if closes_lane(&kind) {
            self.leave_lane(out);
        }
        let text = |name: &str| json::string_member(event, name);
        let id = |name: &str| text(name).unwrap_or_default();
        let delta = json::member(event, "delta").unwrap_or_default();
        match &*kind {
            "TEXT_MESSAGE_START" => self.start(&id("messageId"), Kind::Text, text("role").as_deref(), out),
            "REASONING_MESSAGE_START" => self.start(&id("messageId"), Kind::Reasoning, None, out),
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => self.text(&id("messageId"), delta, out),
            "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" => self.end(&id("messageId"), out),
            "TEXT_MESSAGE_CHUNK" | "REASONING_MESSAGE_CHUNK" => self.text_chunk(&kind, event, delta, out),
            "TOOL_CALL_START" => {
                self.call(&id("toolCallId"), id("toolCallName"), text("parentMessageId"), out);
            }
            "TOOL_CALL_ARGS" => self.args(&id("toolCallId"), delta, out),
            "TOOL_CALL_END" => self.end_call(&id("toolCallId"), out),
            "TOOL_CALL_CHUNK" => self.call_chunk(event, delta, out),
            "TOOL_CALL_RESULT" => self.result(&id("toolCallId"), event, out),
            "STATE_SNAPSHOT" | "STATE_DELTA" | "MESSAGES_SNAPSHOT" | "THINKING_TEXT_MESSAGE_END" => {
                self.point(false, out);
            }
            "CUSTOM" => self.custom(&id("name"), event, out),
            "RUN_FINISHED" => self.finished(event, out),
            "RUN_ERROR" => {
                self.close_message(out);
                self.point(true, out);
                out.lifecycle("failed", Some(&text("message").unwrap_or_default()));
            }
            _ => {}
        }
    }

    /// Begins a run with its first event, of whatever kind.
    fn begin(&mut self, run: &str, first: &str, out: &mut Out<'_>) {
        *self = Self { run: run.to_owned(), ..Self::new(Channels::default(), self.parent.max(out.seq - 1)) };
        out.lifecycle("running", None);
        let input = json::member(first, "input").unwrap_or("null");
        let answers: Vec<String> = items(json::member(input, "resume"))
            .filter_map(|answer| json::string_member(answer, "interruptId"))
            .map(|id| quoted(&id))
            .collect();
        if !answers.is_empty() {
            let data = || format!("{{\"interrupt_ids\":[{}]}}", answers.join(","));
            out.input(Method::InputAnswered, data);
        }
        for message in items(json::member(input, "messages")) {
            if let Some(id) = json::string_member(message, "id") {
                self.sees(id);
            }
            if json::member(message, "role").is_some_and(|role| json::is_string(role, "tool")) {
                let call = json::string_member(message, "toolCallId").unwrap_or_default();
                out.returned(&call, None, message);
            }
        }
        self.point(false, out);
    }

    fn point(&mut self, stays: bool, out: &mut Out<'_>) {
        self.parent = out.point(self.parent, stays);
    }

    /// Notes a message. False if it had begun before.
    fn sees(&mut self, id: String) -> bool {
        self.seen.len() >= MAX_STREAMED_MESSAGES || self.seen.insert(id)
    }

    /// Begins a message, unless another one is in progress: then the message appears in the values at its end.
    fn start(&mut self, id: &str, kind: Kind, role: Option<&str>, out: &mut Out<'_>) {
        let is_new = self.sees(id.to_owned());
        if !is_new || self.message.as_ref().is_some_and(|open| !open.ended || open.blocks.has_calls()) {
            return;
        }
        self.close_message(out);
        let role = match role {
            Some("user") => "human",
            Some("system" | "developer") => "system",
            _ => "ai",
        };
        let name = quoted(id);
        out.messages(|| format!("{{\"event\":\"message-start\",\"role\":\"{role}\",\"id\":{name}}}"));
        self.message = Some(Open { id: id.to_owned(), blocks: Blocks::default(), kind, ended: false });
    }

    fn text(&mut self, id: &str, delta: &str, out: &mut Out<'_>) {
        if let Some(open) = self.message.as_mut().filter(|open| open.id == id) {
            let mut told = Vec::new();
            open.blocks.text(open.kind.clone(), delta, &mut told);
            out.told(told);
        }
    }

    /// Ends the text of a message. Calls may follow in the same message, so the message itself ends with what comes next.
    fn end(&mut self, id: &str, out: &mut Out<'_>) {
        match self.message.as_mut().filter(|open| open.id == id) {
            Some(open) => {
                let mut told = Vec::new();
                open.blocks.end_texts(&mut told);
                open.ended = true;
                out.told(told);
            }
            None => self.point(false, out),
        }
    }

    /// Ends the message that is streamed.
    fn close_message(&mut self, out: &mut Out<'_>) {
        if let Some(mut open) = self.message.take() {
            let mut told = Vec::new();
            open.blocks.end_all(&mut told);
            out.told(told);
            out.messages(|| "{\"event\":\"message-finish\"}".to_owned());
            self.point(false, out);
        }
    }

    fn call(&mut self, id: &str, tool: String, parent: Option<String>, out: &mut Out<'_>) {
        if self.calls.contains_key(id) || self.calls.len() >= MAX_UI_CALLS {
            return;
        }
        self.calls.insert(id.to_owned(), tool.clone());
        let parent = parent.filter(|parent| !parent.is_empty());
        let message = parent.as_deref().unwrap_or(id);
        if self.message.as_ref().is_none_or(|open| open.id != message) {
            self.start(message, Kind::Text, None, out);
        }
        if let Some(open) = self.message.as_mut().filter(|open| open.id == message) {
            // The next message ends this one, once its calls are complete.
            open.ended = true;
            let mut told = Vec::new();
            open.blocks.call(id.to_owned(), tool, &mut told);
            out.told(told);
        }
    }

    fn args(&mut self, id: &str, delta: &str, out: &mut Out<'_>) {
        if let Some(open) = &mut self.message {
            let mut told = Vec::new();
            open.blocks.args(id, delta, &mut told);
            out.told(told);
        }
    }

    fn end_call(&mut self, id: &str, out: &mut Out<'_>) {
        if let Some(open) = &mut self.message {
            let mut told = Vec::new();
            open.blocks.end_call(id, &mut told);
            out.told(told);
        }
    }

    /// Takes in the result of a call: the message that made it is complete, if no other call of it is in progress.
    fn result(&mut self, call: &str, event: &str, out: &mut Out<'_>) {
        self.end_call(call, out);
        if self.message.as_ref().is_some_and(|open| open.ended && !open.blocks.has_calls()) {
            self.close_message(out);
        }
        out.returned(call, self.calls.get(call), event);
        self.point(false, out);
    }

    fn custom(&mut self, name: &str, event: &str, out: &mut Out<'_>) {
        if name == ATTEMPT {
            // The events that follow take messages back: clients remove only messages that values have shown.
            self.close_message(out);
            self.point(true, out);
            self.seen.clear();
        }
        // The server's own events are not for clients.
        if name == SERVER_MEMBER || name.starts_with("threadline.") {
            return;
        }
        let is_wanted = out.channels.has_custom(name);
        let data = || {
            // In JSON, line breaks stand only between tokens; frames are cut at them.
            let value = json::member(event, "value").unwrap_or("null").replace(['\n', '\r'], " ");
            format!("{{\"name\":{},\"payload\":{value}}}", quoted(name))
        };
        out.add(Method::Custom, is_wanted, RESERVED, data);
    }

    fn finished(&mut self, event: &str, out: &mut Out<'_>) {
        self.close_message(out);
        self.point(true, out);
        let outcome = json::member(event, "outcome").unwrap_or("null");
        if !json::member(outcome, "type").is_some_and(|kind| json::is_string(kind, "interrupt")) {
            return out.lifecycle("completed", None);
        }
        for interrupt in items(json::member(outcome, "interrupts")) {
            let Some(id) = json::string_member(interrupt, "id") else { continue };
            let data = || {
                let (id, payload) = (quoted(&id), interrupt.replace(['\n', '\r'], " "));
                format!("{{\"interrupt_id\":{id},\"payload\":{payload}}}")
            };
            out.input(Method::InputRequested, data);
        }
        out.lifecycle("interrupted", None);
    }

    fn text_chunk(&mut self, kind: &str, event: &str, delta: &str, out: &mut Out<'_>) {
        let is_text = kind.starts_with('T');
        let id = match (json::string_member(event, "messageId"), &self.lane) {
            (Some(id), _) => id,
            (None, Some(Lane::Text(id))) if is_text => id.clone(),
            (None, Some(Lane::Reasoning(id))) if !is_text => id.clone(),
            _ => return,
        };
        let lane = if is_text { Lane::Text(id.clone()) } else { Lane::Reasoning(id.clone()) };
        if self.enter_lane(lane, out) {
            let kind = if is_text { Kind::Text } else { Kind::Reasoning };
            self.start(&id, kind, json::string_member(event, "role").as_deref(), out);
        }
        self.text(&id, delta, out);
    }

    fn call_chunk(&mut self, event: &str, delta: &str, out: &mut Out<'_>) {
        let text = |name: &str| json::string_member(event, name);
        let id = match (text("toolCallId"), &self.lane) {
            (Some(id), _) => id,
            (None, Some(Lane::Tool(id))) => id.clone(),
            _ => return,
        };
        if self.enter_lane(Lane::Tool(id.clone()), out) {
            self.call(&id, text("toolCallName").unwrap_or_default(), text("parentMessageId"), out);
        }
        self.args(&id, delta, out);
    }

    /// True if the lane is a new one.
    fn enter_lane(&mut self, lane: Lane, out: &mut Out<'_>) -> bool {
        if self.lane.as_ref() == Some(&lane) {
            return false;
        }
        self.leave_lane(out);
        self.lane = Some(lane);
        true
    }

    fn leave_lane(&mut self, out: &mut Out<'_>) {
        match self.lane.take() {
            Some(Lane::Text(id) | Lane::Reasoning(id)) => self.end(&id, out),
            Some(Lane::Tool(id)) => self.end_call(&id, out),
            None => {}
        }
    }
}
