//! The message that chunks build.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::chunk::{Chunk, Metadata, ToolCall};
use crate::json;

/// State of a text.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum TextState {
    Streaming,
    Done,
}

/// Approval of a call.
#[derive(Debug, Clone, Serialize)]
struct Approval {
    id: String,
    /// Decision, once the call has a result or was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved: Option<bool>,
}

/// Part of a message.
#[derive(Debug, Clone)]
enum Part {
    StepStart,
    /// Text or reasoning: its kind, the content of its JSON string, and its state.
    Text {
        kind: &'static str,
        text: String,
        state: TextState,
    },
    Tool(Box<Tool>),
    Data {
        name: String,
        id: Option<String>,
        data: Box<RawValue>,
    },
}

/// Tool call of a message.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    call: Named,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_text: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Approval>,
}

/// Names of a call, as a part has them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    tool_name: String,
    tool_call_id: String,
    provider_executed: bool,
}

/// Assistant message of a chat, folded from its chunks.
#[derive(Debug, Clone, Default)]
pub struct UiMessage {
    id: String,
    metadata: Option<Metadata>,
    parts: Vec<Part>,
    /// Places of the open texts by their kinds and ids.
    texts: HashMap<(&'static str, String), usize>,
    /// Places of the tool calls by their ids.
    tools: HashMap<String, usize>,
    /// Places of the data parts by their names and ids.
    data: HashMap<(String, String), usize>,
    /// Bytes of texts, inputs, outputs and data.
    bytes: usize,
}

impl UiMessage {
    /// Size of the message, in bytes of its texts, inputs, outputs and data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the message has any part but the starts of steps.
    pub fn has_content(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::StepStart))
    }

    /// Takes in a chunk of the message.
    pub fn observe(&mut self, chunk: Chunk) {
        match chunk {
            Chunk::Start { message_id, message_metadata } => {
                self.id = message_id;
                self.metadata = Some(message_metadata);
            }
            Chunk::StartStep => self.parts.push(Part::StepStart),
            Chunk::TextStart { id } => self.begin("text", id),
            Chunk::ReasoningStart { id } => self.begin("reasoning", id),
            Chunk::TextDelta { id, delta } => self.append("text", id, &delta),
            Chunk::ReasoningDelta { id, delta } => self.append("reasoning", id, &delta),
            Chunk::TextEnd { id } => self.end("text", id),
            Chunk::ReasoningEnd { id } => self.end("reasoning", id),
            Chunk::ToolInputStart(call) => {
                let call = Named::from(call);
                let tool = Tool {
                    kind: "dynamic-tool",
                    call,
                    state: "input-streaming",
                    input: None,
                    output: None,
                    error_text: None,
                    approval: None,
                };
                self.tools.insert(tool.call.tool_call_id.clone(), self.parts.len());
                self.parts.push(Part::Tool(Box::new(tool)));
            }
            Chunk::ToolInputAvailable { call, input } => {
                self.bytes += input.get().len();
                if let Some(tool) = self.tool(&call.tool_call_id) {
                    tool.state = "input-available";
                    tool.call.provider_executed = call.provider_executed;
                    tool.input = Some(input);
                }
            }
            Chunk::ToolInputError { call, input, error_text } => {
                if let Some(tool) = self.tool(&call.tool_call_id) {
                    tool.state = "output-error";
                    tool.input = Some(input);
                    tool.error_text = Some(error_text);
                }
            }
            Chunk::ToolOutputAvailable { tool_call_id, output } => {
                self.bytes += output.get().len();
                if let Some(tool) = self.tool(&tool_call_id) {
                    tool.state = "output-available";
                    tool.decide(true);
                    tool.output = Some(output);
                    tool.error_text = None;
                }
            }
            Chunk::ToolOutputDenied { tool_call_id } => {
                if let Some(tool) = self.tool(&tool_call_id) {
                    tool.state = "output-denied";
                    tool.decide(false);
                }
            }
            Chunk::ToolApprovalRequest { approval_id, tool_call_id } => {
                if let Some(tool) = self.tool(&tool_call_id) {
                    tool.state = "approval-requested";
                    tool.approval = Some(Approval { id: approval_id, approved: None });
                }
            }
            Chunk::Data(data) if !data.transient => self.data(data.name, data.id, data.data),
            Chunk::Data(_)
            | Chunk::ToolInputDelta { .. }
            | Chunk::FinishStep
            | Chunk::Error { .. }
            | Chunk::Finish { .. } => {}
        }
    }

    fn begin(&mut self, kind: &'static str, id: String) {
        self.texts.insert((kind, id), self.parts.len());
        self.parts.push(Part::Text { kind, text: String::new(), state: TextState::Streaming });
    }

    fn append(&mut self, kind: &'static str, id: String, delta: &RawValue) {
        let piece = delta.get().strip_prefix('"').and_then(|piece| piece.strip_suffix('"')).unwrap_or_default();
        let place = self.texts.get(&(kind, id));
        if let Some(Part::Text { text, .. }) = place.and_then(|place| self.parts.get_mut(*place)) {
            text.push_str(piece);
            self.bytes += piece.len();
        }
    }

    fn end(&mut self, kind: &'static str, id: String) {
        let place = self.texts.remove(&(kind, id));
        if let Some(Part::Text { state, .. }) = place.and_then(|place| self.parts.get_mut(place)) {
            *state = TextState::Done;
        }
    }

    fn tool(&mut self, id: &str) -> Option<&mut Tool> {
        match self.parts.get_mut(*self.tools.get(id)?)? {
            Part::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    fn data(&mut self, name: String, id: Option<String>, data: Box<RawValue>) {
        self.bytes += data.get().len();
        let Some(id) = id else {
            return self.parts.push(Part::Data { name, id, data });
        };
        let place = *self.data.entry((name.clone(), id.clone())).or_insert(self.parts.len());
        match self.parts.get_mut(place) {
            Some(Part::Data { data: known, .. }) => {
                self.bytes -= known.get().len();
                *known = data;
            }
            _ => self.parts.push(Part::Data { name, id: Some(id), data }),
        }
    }

    /// The message as JSON.
    pub fn to_json(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::to_json).collect();
        let metadata =
            self.metadata.as_ref().map_or_else(String::new, |known| format!(",\"metadata\":{}", text_of(known)));
        format!("{{\"id\":{},\"role\":\"assistant\"{metadata},\"parts\":[{}]}}", text_of(&self.id), parts.join(","))
    }
}

impl Tool {
    fn decide(&mut self, approved: bool) {
        if let Some(approval) = &mut self.approval {
            approval.approved = Some(approved);
        }
    }
}

impl Part {
    fn to_json(&self) -> String {
        match self {
            Self::StepStart => r#"{"type":"step-start"}"#.to_owned(),
            Self::Text { kind, text, state } => {
                format!("{{\"type\":\"{kind}\",\"text\":\"{text}\",\"state\":{}}}", text_of(state))
            }
            Self::Tool(tool) => text_of(tool),
            Self::Data { name, id, data } => {
                let kind = json::quoted(&format!("data-{name}"));
                let id = id.as_ref().map_or_else(String::new, |id| format!("\"id\":{},", json::quoted(id)));
                format!("{{\"type\":{kind},{id}\"data\":{data}}}")
            }
        }
    }
}

impl From<ToolCall> for Named {
    fn from(call: ToolCall) -> Self {
        Self { tool_name: call.tool_name, tool_call_id: call.tool_call_id, provider_executed: call.provider_executed }
    }
}

/// JSON text of a value. Serializing cannot fail, because these values hold only texts, booleans and JSON.
fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
