//! What arrives whole: messages, their contents, and patches.

use serde_json::{Value, json};

use crate::generate::Generator;

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
            false => old[self.rng.next() as usize % old.len()].clone(),
        };
        self.messages.push(id.clone());
        let roles = ["developer", "system", "assistant", "user", "tool", "activity", "reasoning", "user", "assistant"];
        let role = roles[self.rng.next() as usize % roles.len()];
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
                message["activityType"] = json!(["plan", "card"][self.rng.next() as usize % 2]);
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
            let path = PATHS[self.rng.next() as usize % PATHS.len()];
            let from = PATHS[self.rng.next() as usize % PATHS.len()];
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
}
