//! Random streams of AG-UI 1.0 events that a client accepts, nearly always.

pub mod attempts;
mod chunks;
mod messages;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    compare::{HIGH, LOW, event},
    rng::Rng,
};

pub type Owner = Option<String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Tool,
    Reasoning,
}

/// What is open in a run and whose it is, as the client's verifier keeps it.
#[derive(Default)]
struct Run {
    texts: Vec<String>,
    calls: Vec<String>,
    thoughts: Vec<String>,
    spans: Vec<String>,
    steps: Vec<(String, Owner)>,
    subagents: Vec<String>,
    lanes: HashMap<Owner, (Kind, String)>,
    owners: HashMap<(&'static str, String), Owner>,
}

pub struct Generator {
    pub rng: Rng,
    pub events: Vec<String>,
    next: u64,
    /// Ids of messages and calls that there are, or were.
    pub messages: Vec<String>,
    calls: Vec<String>,
    activities: Vec<String>,
    /// Ids of interrupts that wait for an answer.
    waiting: Vec<String>,
    run: Run,
}

/// A stream of up to four runs.
pub fn stream(seed: u64, number: u64) -> Vec<String> {
    let mut generator = Generator::new(Rng::new(seed, number));
    let runs = generator.rng.between(1, 4);
    for run in 0..runs {
        generator.start(run);
        for _ in 0..generator.rng.between(5, 60) {
            generator.step();
        }
        generator.end();
    }
    generator.events
}

impl Generator {
    pub fn new(rng: Rng) -> Self {
        Self {
            rng,
            events: Vec::new(),
            next: 0,
            messages: Vec::new(),
            calls: Vec::new(),
            activities: Vec::new(),
            waiting: Vec::new(),
            run: Run::default(),
        }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.rng.draw() as usize % from.len()])
    }

    pub fn new_id(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    /// Adds what any event may carry, and sends it. What stands for itself ends the stream of chunks in its lane.
    fn emit(&mut self, mut members: Value, owner: &Owner) {
        if let Some(owner) = owner {
            members["subagentRunId"] = json!(owner);
        }
        let kind = members["type"].as_str().expect("a type").to_owned();
        if self.rng.chance(20) && !matches!(&*kind, "MESSAGES_SNAPSHOT") {
            let metadata = self.metadata();
            members["metadata"] = metadata;
        }
        if self.rng.chance(10) {
            members["timestamp"] = json!(self.rng.between(0, 1 << 40));
        }
        if self.rng.chance(8) {
            members["rawEvent"] = json!({"provider": [1, null]});
        }
        match &*kind {
            "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "MESSAGES_SNAPSHOT" => self.run.lanes.clear(),
            "RAW" | "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" | "REASONING_ENCRYPTED_VALUE" | "SUBAGENT_STARTED" => {}
            kind if kind.ends_with("_CHUNK") => {}
            _ => drop(self.run.lanes.remove(owner)),
        }
        self.events.push(event(&members));
    }

    pub fn metadata(&mut self) -> Value {
        let mut map = Map::new();
        for _ in 0..self.rng.between(0, 2) {
            let name = ["a", "b", "usage", "ag-ui"][self.rng.draw() as usize % 4].to_owned();
            let value = self.value(2);
            map.insert(name, value);
        }
        map.into()
    }

    pub fn value(&mut self, depth: u64) -> Value {
        match self.rng.between(0, if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.rng.chance(50)),
            2 => json!(self.rng.between(0, 9)),
            3 => json!(self.rng.between(0, 1 << 50) as f64 / 8.0),
            4 => json!(-(self.rng.between(0, 1 << 40) as i64)),
            5 => json!(self.word()),
            6 => (0..self.rng.between(0, 3)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth),
        }
    }

    pub fn object(&mut self, depth: u64) -> Value {
        let mut map = Map::new();
        for _ in 0..self.rng.between(0, 4) {
            let name = ["a", "b", "list", "x/y", "m~n", ""][self.rng.draw() as usize % 6].to_owned();
            let value = self.value(depth.saturating_sub(1));
            map.insert(name, value);
        }
        map.into()
    }

    pub fn word(&mut self) -> String {
        let words = ["", "Hello", " wörld", "{\"a\":", "1}", "\n\t\"\\", "日本語", "😀", "\u{1}\u{7f}"];
        self.pick(&words).expect("words").to_string()
    }

    fn delta(&mut self) -> String {
        match self.rng.between(0, 9) {
            0 => format!("{}{HIGH}", self.word()),
            1 => format!("{LOW}{}", self.word()),
            2 => format!("{LOW}{HIGH}"),
            _ => self.word(),
        }
    }

    fn owner(&mut self) -> Owner {
        self.rng.chance(40).then(|| format!("s{}", self.rng.between(0, 2)))
    }

    /// A tag that does not contradict the owner of the item; the first tag decides the owner.
    fn tag(&mut self, bucket: &'static str, id: &str) -> Owner {
        match self.run.owners.get(&(bucket, id.to_owned())).cloned() {
            Some(owner) => owner.filter(|_| self.rng.chance(60)),
            None => {
                let owner = self.owner();
                self.run.owners.insert((bucket, id.to_owned()), owner.clone());
                owner
            }
        }
    }

    fn in_lane(&self, kind: Kind, id: &str) -> bool {
        self.run.lanes.values().any(|lane| lane.0 == kind && lane.1 == id)
    }

    /// A message's id: a new one, or one that is not open now.
    fn message_id(&mut self, kind: Kind) -> String {
        let old = self.messages.clone();
        if self.rng.chance(20)
            && let Some(id) = self.pick(&old)
        {
            let open = if kind == Kind::Text { &self.run.texts } else { &self.run.thoughts };
            if !open.contains(id) && !self.in_lane(kind, id) {
                return id.clone();
            }
        }
        let id = self.new_id("m");
        self.messages.push(id.clone());
        id
    }

    fn call_id(&mut self) -> (String, bool) {
        let old = self.calls.clone();
        if self.rng.chance(15)
            && let Some(id) = self.pick(&old)
            && !self.run.calls.contains(id)
            && !self.in_lane(Kind::Tool, id)
        {
            return (id.clone(), true);
        }
        let id = self.new_id("c");
        self.calls.push(id.clone());
        (id, false)
    }

    /// A call's id, mostly one that there is not yet.
    pub fn a_call(&mut self) -> String {
        let old = self.calls.clone();
        match self.pick(&old).filter(|_| self.rng.chance(30)) {
            Some(id) => id.clone(),
            None => self.call_id().0,
        }
    }

    /// A parent that a call of this owner may have.
    fn parent(&mut self, owner: &mut Owner) -> Option<String> {
        if self.rng.chance(40) {
            return None;
        }
        let old = self.messages.clone();
        let id = match self.pick(&old).filter(|_| self.rng.chance(70)) {
            Some(id) => id.clone(),
            None => {
                let id = self.new_id("p");
                self.messages.push(id.clone());
                id
            }
        };
        if let Some(known) = self.run.owners.get(&("message", id.clone()))
            && owner.is_some()
            && owner != known
        {
            *owner = None;
        }
        Some(id)
    }

    pub fn start(&mut self, number: u64) {
        self.run = Run::default();
        let mut started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": format!("r{number}")});
        if self.rng.chance(70) {
            let messages: Vec<Value> = (0..self.rng.between(0, 4)).map(|_| self.message()).collect();
            self.seed(&messages, false);
            started["input"] = json!({"threadId": "t", "runId": format!("r{number}"), "messages": messages});
            if self.rng.chance(30) {
                started["input"]["state"] = self.object(1);
                started["input"]["tools"] = json!([{"name": "f", "description": "d"}]);
            }
        }
        if !self.waiting.is_empty() {
            // As the client has it: every run answers all that is open.
            let answer = |id: &String| json!({"interruptId": id, "status": "cancelled", "payload": {"a": 1}});
            started["input"]["resume"] = self.waiting.iter().map(answer).collect();
        }
        self.emit(started, &None);
    }

    /// The owners that messages bring with them.
    fn seed(&mut self, messages: &[Value], authoritative: bool) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for message in messages {
            let bucket = match message["role"].as_str() {
                Some("reasoning") => "reasoning",
                Some("activity") => "activity",
                _ => "message",
            };
            let owner = text(&message["subagentRunId"]);
            let mut put = |bucket, id: Owner| {
                let key = (bucket, id.expect("an id"));
                if authoritative || !self.run.owners.contains_key(&key) {
                    self.run.owners.insert(key, owner.clone());
                }
            };
            put(bucket, text(&message["id"]));
            for call in message["toolCalls"].as_array().into_iter().flatten() {
                put("call", text(&call["id"]));
            }
        }
    }

    /// One event, if it fits.
    pub fn step(&mut self) {
        match self.rng.between(0, 39) {
            0..3 => {
                let id = self.message_id(Kind::Text);
                let owner = self.tag("message", &id);
                let mut start = json!({"type": "TEXT_MESSAGE_START", "messageId": id});
                if self.rng.chance(70) {
                    start["role"] = json!(["developer", "system", "assistant", "user"][self.rng.draw() as usize % 4]);
                }
                if self.rng.chance(20) {
                    start["name"] = json!(self.word());
                }
                self.emit(start, &owner);
                self.run.texts.push(id);
            }
            3..9 => {
                let open = self.run.texts.clone();
                if let Some(id) = self.pick(&open) {
                    let (owner, delta) = (self.tag("message", id), self.delta());
                    self.emit(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta}), &owner);
                }
            }
            9 => self.end_text(),
            10 | 11 => {
                let (id, again) = self.call_id();
                let (mut owner, mut parent) = (self.owner(), None);
                if again && self.run.owners.contains_key(&("call", id.clone())) {
                    owner = self.tag("call", &id);
                } else {
                    parent = self.parent(&mut owner);
                    self.own_call(&id, &owner, &parent);
                }
                let mut start = json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": self.word()});
                if let Some(parent) = parent {
                    start["parentMessageId"] = json!(parent);
                } else if self.rng.chance(10) {
                    start["parentMessageId"] = Value::Null;
                }
                self.emit(start, &owner);
                self.run.calls.push(id);
            }
            12..15 => {
                let open = self.run.calls.clone();
                if let Some(id) = self.pick(&open) {
                    let (owner, delta) = (self.tag("call", id), self.delta());
                    self.emit(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta}), &owner);
                }
            }
            15 => self.end_call(),
            16 | 17 => self.result(),
            18 => {
                let id = self.message_id(Kind::Reasoning);
                let owner = self.tag("reasoning", &id);
                if self.rng.chance(40) && !self.run.spans.contains(&id) {
                    self.emit(json!({"type": "REASONING_START", "messageId": id}), &owner);
                    self.run.spans.push(id.clone());
                }
                if !self.in_lane(Kind::Reasoning, &id) && !self.run.thoughts.contains(&id) {
                    let start = json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"});
                    self.emit(start, &owner);
                    self.run.thoughts.push(id);
                }
            }
            19 | 20 => {
                let open = self.run.thoughts.clone();
                if let Some(id) = self.pick(&open) {
                    let (owner, delta) = (self.tag("reasoning", id), self.delta());
                    self.emit(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta}), &owner);
                }
            }
            21 => self.end_reasoning(),
            22 => self.encrypted(),
            23..28 => self.chunk(),
            28 | 29 => self.activity(),
            30 => {
                let snapshot = if self.rng.chance(80) { self.object(3) } else { self.value(2) };
                let owner = self.owner();
                self.emit(json!({"type": "STATE_SNAPSHOT", "snapshot": snapshot}), &owner);
            }
            31..33 => {
                let (delta, owner) = (self.patch(), self.owner());
                self.emit(json!({"type": "STATE_DELTA", "delta": delta}), &owner);
            }
            33 => self.messages_snapshot(),
            34 | 35 => self.step_event(),
            36 | 37 => self.subagent(),
            38 => {
                let (value, owner) = (self.value(2), self.owner());
                self.emit(json!({"type": "CUSTOM", "name": "n", "value": value}), &owner);
            }
            _ => {
                let (value, owner) = (self.value(2), self.owner());
                self.emit(json!({"type": "RAW", "event": value, "source": "x"}), &owner);
            }
        }
    }

    fn own_call(&mut self, id: &str, owner: &Owner, parent: &Option<String>) {
        let inherited = parent.as_ref().and_then(|id| self.run.owners.get(&("message", id.clone())).cloned());
        let owner = owner.clone().or(inherited.flatten());
        self.run.owners.insert(("call", id.to_owned()), owner);
    }

    fn end_text(&mut self) {
        if !self.run.texts.is_empty() {
            let at = self.rng.draw() as usize % self.run.texts.len();
            let id = self.run.texts.swap_remove(at);
            let owner = self.tag("message", &id);
            self.emit(json!({"type": "TEXT_MESSAGE_END", "messageId": id}), &owner);
        }
    }

    fn end_call(&mut self) {
        if let Some(id) = self.run.calls.pop() {
            let owner = self.tag("call", &id);
            self.emit(json!({"type": "TOOL_CALL_END", "toolCallId": id}), &owner);
        }
    }

    fn end_reasoning(&mut self) {
        if let Some(id) = self.run.thoughts.pop() {
            let owner = self.tag("reasoning", &id);
            self.emit(json!({"type": "REASONING_MESSAGE_END", "messageId": id}), &owner);
        } else if let Some(id) = self.run.spans.pop() {
            let owner = self.tag("reasoning", &id);
            self.emit(json!({"type": "REASONING_END", "messageId": id}), &owner);
        }
    }

    fn result(&mut self) {
        let calls = self.calls.clone();
        let call = self.pick(&calls).filter(|_| self.rng.chance(90)).cloned().unwrap_or_else(|| self.new_id("lost"));
        let old = self.messages.clone();
        // Now and then a result takes an id that there is.
        let id = match self.pick(&old).filter(|_| self.rng.chance(8)) {
            Some(id) if !self.run.texts.contains(id) && !self.in_lane(Kind::Text, id) => id.clone(),
            _ => self.new_id("t"),
        };
        let owner = self.owner();
        self.run.owners.insert(("message", id.clone()), owner.clone());
        let content = self.content();
        let mut result = json!({"type": "TOOL_CALL_RESULT", "messageId": id, "toolCallId": call, "content": content});
        if self.rng.chance(30) {
            result["role"] = json!("tool");
        }
        self.emit(result, &owner);
        self.messages.push(id);
    }

    fn encrypted(&mut self) {
        let call = self.rng.chance(50);
        let ids = if call { self.calls.clone() } else { self.messages.clone() };
        if let Some(id) = self.pick(&ids) {
            let subtype = if call { "tool-call" } else { "message" };
            let value = self.word();
            self.emit(
                json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": subtype, "entityId": id, "encryptedValue": value}),
                &None,
            );
        }
    }

    fn step_event(&mut self) {
        let step = (["plan", "act"][self.rng.draw() as usize % 2].to_owned(), self.owner());
        let kind = match self.run.steps.iter().position(|open| *open == step) {
            Some(at) => {
                self.run.steps.remove(at);
                "STEP_FINISHED"
            }
            None => {
                self.run.steps.push(step.clone());
                "STEP_STARTED"
            }
        };
        self.emit(json!({"type": kind, "stepName": step.0}), &step.1);
    }

    fn subagent(&mut self) {
        if self.rng.chance(60) {
            let id = self.new_id("sub");
            let mut start = json!({"type": "SUBAGENT_STARTED", "name": "n"});
            let open = self.run.subagents.clone();
            if let Some(parent) = self.pick(&open).filter(|_| self.rng.chance(50)) {
                start["parentSubagentRunId"] = json!(parent);
            }
            self.emit(start, &Some(id.clone()));
            self.run.subagents.push(id);
        } else {
            self.end_subagent();
        }
    }

    fn end_subagent(&mut self) {
        if self.run.subagents.is_empty() {
            return;
        }
        let at = self.rng.draw() as usize % self.run.subagents.len();
        let id = self.run.subagents.remove(at);
        let end = if self.rng.chance(70) {
            json!({"type": "SUBAGENT_FINISHED", "outcome": {"type": "success"}})
        } else {
            json!({"type": "SUBAGENT_ERROR", "message": "no"})
        };
        self.emit(end, &Some(id));
    }

    /// Ends the run, one way or another.
    pub fn end(&mut self) {
        if self.rng.chance(12) {
            self.emit(json!({"type": "RUN_ERROR", "message": "no", "code": "x"}), &None);
            return;
        }
        while !self.run.texts.is_empty() {
            self.end_text();
        }
        while !self.run.calls.is_empty() {
            self.end_call();
        }
        while !self.run.thoughts.is_empty() || !self.run.spans.is_empty() {
            self.end_reasoning();
        }
        while let Some((name, owner)) = self.run.steps.pop() {
            self.emit(json!({"type": "STEP_FINISHED", "stepName": name}), &owner);
        }
        while !self.run.subagents.is_empty() {
            self.end_subagent();
        }
        let mut asked = Vec::new();
        let outcome = match self.rng.between(0, 4) {
            0 => {
                let metadata = self.metadata();
                let id = self.new_id("i");
                asked.push(id.clone());
                json!({"type": "interrupt", "interrupts": [{"id": id, "reason": "approve", "metadata": metadata}]})
            }
            1 => json!({"type": "cancelled"}),
            2 => json!({"type": "success", "pendingToolCallIds": []}),
            _ => Value::Null,
        };
        self.waiting = asked;
        let mut end = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome});
        if self.rng.chance(30) {
            end["result"] = self.value(2);
        }
        self.emit(end, &None);
    }
}
