//! Output items of a response.

use std::fmt::Write;

/// Label of the server in calls that an agent executes, and in requests for approvals.
pub(super) const SERVER_LABEL: &str = "threadline";

/// Kind of an item, with the members that only it has. Texts are JSON string tokens.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call {
        call: String,
        name: String,
    },
    /// Call that the agent itself executes, with the content of the JSON string that holds its result.
    Hosted {
        name: String,
        result: Option<String>,
    },
    /// Request for an approval of a call with these arguments, which are complete from the beginning.
    Approval {
        name: String,
    },
}

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Done,
    /// Item that its run has left open.
    Cut,
}

/// Item of a response's output.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub kind: Kind,
    /// Id of the item, a JSON string token.
    pub id: String,
    /// Content of the JSON string that holds the text or the arguments so far, still escaped.
    pub text: String,
    /// Half of a character, as its escape, that waits for the other half.
    pub half: String,
    pub state: State,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "in_progress",
            Self::Done => "completed",
            Self::Cut => "incomplete",
        }
    }
}

impl Item {
    /// True for items whose text is that of a part.
    pub fn has_parts(&self) -> bool {
        matches!(self.kind, Kind::Message | Kind::Reasoning)
    }

    /// Writes the item as it is now.
    pub fn write(&self, json: &mut String) {
        self.write_with(json, true);
    }

    /// Writes the item as `response.output_item.added` has it: without parts, and without arguments that arrive in pieces.
    pub fn write_added(&self, json: &mut String) {
        self.write_with(json, false);
    }

    fn write_with(&self, json: &mut String, has_text: bool) {
        let (id, state) = (&self.id, self.state.name());
        let text = if has_text { self.text.as_str() } else { "" };
        let written = match &self.kind {
            Kind::Message => {
                _ = write!(json, "{{\"type\":\"message\",\"id\":{id},\"status\":\"{state}\",\"role\":\"assistant\"");
                self.write_content(json, has_text)
            }
            Kind::Reasoning => {
                _ = write!(json, "{{\"type\":\"reasoning\",\"id\":{id},\"status\":\"{state}\",\"summary\":[]");
                self.write_content(json, has_text)
            }
            Kind::Call { call, name } => write!(
                json,
                "{{\"type\":\"function_call\",\"id\":{id},\"status\":\"{state}\",\"call_id\":{call},\"name\":{name},\
                 \"arguments\":\"{text}\"}}"
            ),
            Kind::Hosted { name, result } => {
                let result = result.as_ref().map_or_else(|| "null".to_owned(), |result| format!("\"{result}\""));
                write!(
                    json,
                    "{{\"type\":\"mcp_call\",\"id\":{id},\"status\":\"{state}\",\"name\":{name},\"server_label\":\
                     \"{SERVER_LABEL}\",\"arguments\":\"{text}\",\"output\":{result},\"error\":null}}"
                )
            }
            Kind::Approval { name } => write!(
                json,
                "{{\"type\":\"mcp_approval_request\",\"id\":{id},\"name\":{name},\"server_label\":\"{SERVER_LABEL}\",\
                 \"arguments\":\"{}\"}}",
                self.text
            ),
        };
        debug_assert!(written.is_ok(), "a text can be written into memory");
    }

    fn write_content(&self, json: &mut String, has_text: bool) -> std::fmt::Result {
        json.push_str(",\"content\":[");
        if has_text {
            self.write_part(json, &self.text);
        }
        json.push_str("]}");
        Ok(())
    }

    /// Writes the one part of a message or of reasoning, with this text.
    pub fn write_part(&self, json: &mut String, text: &str) {
        let (kind, more) = match self.kind {
            Kind::Reasoning => ("reasoning_text", ""),
            _ => ("output_text", ",\"annotations\":[],\"logprobs\":[]"),
        };
        _ = write!(json, "{{\"type\":\"{kind}\",\"text\":\"{text}\"{more}}}");
    }
}
