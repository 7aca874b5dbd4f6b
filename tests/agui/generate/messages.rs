//! What arrives whole: messages, their contents, snapshots, activities; and patches.

use serde_json::{Value, json};

use super::Generator;

const PATHS: [&str; 16] = [
    "/a", "/b", "/list", "/list/0", "/list/1", "/list/-", "/a/b", "/b/list", "/x~1y", "/m~0n", "/a/0", "/", "/list/01",
    "/nope/x", "/list/9", "/list/x",
];

impl Generator {
    /// A message with properties that the schemas describe, and no others.
    pub fn message(&mut self) -> Value {
        let old = self.messages.clone();
        let id = match old.is_empty() || self.rng.chance(40) {
            true => self.new_id("w"),
            false => old[self.rng.draw() as usize % old.len()].clone(),
        };
        self.messages.push(id.clone());
        let roles = ["developer", "system", "assistant", "user", "tool", "activity", "reasoning", "user", "assistant"];
        let role = roles[self.rng.draw() as usize % roles.len()];
        let mut message = json!({"id": id, "role": role});
        match role {
            "assistant" => {
                if self.rng.chance(70) {
                    message["content"] = json!(self.word());
                }
                if self.rng.chance(50) {
                    let calls: Vec<Value> = (0..self.rng.between(0, 2)).map(|_| self.call()).collect();
                    message["toolCalls"] = json!(calls);
                }
            }
            "user" => message["content"] = self.content(),
            "tool" => {
                message["content"] = self.content();
                message["toolCallId"] = json!(self.a_call());
                if self.rng.chance(20) {
                    message["error"] = json!("no");
                }
            }
            "activity" => {
                message["activityType"] = json!(["plan", "card"][self.rng.draw() as usize % 2]);
                message["content"] = self.object(2);
            }
            _ => message["content"] = json!(self.word()),
        }
        if matches!(role, "developer" | "system" | "assistant" | "user") && self.rng.chance(20) {
            message["name"] = json!(self.word());
        }
        if role != "activity" && self.rng.chance(15) {
            message["encryptedValue"] = json!(self.word());
        }
        if self.rng.chance(20) {
            message["metadata"] = self.metadata();
        }
        if self.rng.chance(20) {
            message["subagentRunId"] = json!(format!("s{}", self.rng.between(0, 2)));
        }
        message
    }

    fn call(&mut self) -> Value {
        let mut call =
            json!({"id": self.a_call(), "type": "function", "function": {"name": "f", "arguments": self.word()}});
        if self.rng.chance(20) {
            call["metadata"] = self.metadata();
        }
        call
    }

    /// A text, or parts.
    pub fn content(&mut self) -> Value {
        if self.rng.chance(70) {
            return json!(self.word());
        }
        let parts = (0..self.rng.between(0, 3)).map(|_| match self.rng.between(0, 2) {
            0 => json!({"type": "text", "text": self.word(), "metadata": {"k": 1}}),
            1 => json!({"type": "image", "source": {"type": "url", "value": "https://example.org/x.png"}}),
            _ => json!({"type": "document", "id": "d", "source": {"type": "data", "value": "aGk=", "mimeType": "text/plain"}}),
        });
        parts.collect()
    }

    /// A patch; about half of them apply.
    pub fn patch(&mut self) -> Value {
        let operations = (0..self.rng.between(0, 4)).map(|_| {
            let path = PATHS[self.rng.draw() as usize % PATHS.len()];
            let from = PATHS[self.rng.draw() as usize % PATHS.len()];
            match self.rng.between(0, 19) {
                0..8 => json!({"op": "add", "path": path, "value": self.value(1)}),
                8..11 => json!({"op": "replace", "path": path, "value": self.value(1), "more": 1}),
                11 | 12 => json!({"op": "remove", "path": path}),
                13 | 14 => json!({"op": "move", "from": from, "path": path}),
                15 | 16 => json!({"op": "copy", "from": from, "path": path}),
                17 => json!({"op": "test", "path": path, "value": self.value(1)}),
                18 => json!({"op": "add", "path": "", "value": self.object(2)}),
                _ => json!({"op": "frobnicate", "path": 7}),
            }
        });
        operations.collect()
    }

    pub(super) fn activity(&mut self) {
        let known = self.activities.clone();
        if self.rng.chance(50)
            && let Some(id) = self.pick(&known)
        {
            let (owner, patch) = (self.tag("activity", id), self.patch());
            let kind = self.word();
            self.emit(json!({"type": "ACTIVITY_DELTA", "messageId": id, "activityType": kind, "patch": patch}), &owner);
            return;
        }
        let old = if self.rng.chance(70) { self.activities.clone() } else { self.messages.clone() };
        let id = match self.pick(&old).filter(|_| self.rng.chance(50)) {
            Some(id) => id.clone(),
            None => self.new_id("a"),
        };
        let (content, owner) = (self.object(2), self.owner());
        let mut snapshot = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "content": content});
        snapshot["activityType"] = json!(["plan", "card"][self.rng.draw() as usize % 2]);
        let mut replace = true;
        if self.rng.chance(50) {
            replace = self.rng.chance(50);
            snapshot["replace"] = json!(replace);
        }
        let key = ("activity", id.clone());
        if replace || !self.run.owners.contains_key(&key) {
            self.run.owners.insert(key, owner.clone());
        }
        self.emit(snapshot, &owner);
        self.activities.push(id.clone());
        self.messages.push(id);
    }

    pub(super) fn messages_snapshot(&mut self) {
        let messages: Vec<Value> = (0..self.rng.between(0, 7)).map(|_| self.message()).collect();
        self.seed(&messages, true);
        let mut snapshot = json!({"type": "MESSAGES_SNAPSHOT", "messages": messages});
        if self.rng.chance(40) {
            let said = [
                json!({}),
                json!([]),
                json!({"authoritativeActivityTypes": null}),
                json!({"authoritativeActivityTypes": ["plan"]}),
                json!({"authoritativeActivityTypes": ["plan", 7]}),
                json!({"authoritativeActivityTypes": "plan"}),
            ];
            let said = self.pick(&said).expect("some").clone();
            snapshot["metadata"] = json!({"@ag-ui/client": said});
        }
        self.emit(snapshot, &None);
    }
}
