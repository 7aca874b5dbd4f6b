//! Chunks of a UI message stream.

use serde::{Serialize, ser::SerializeMap};
use serde_json::value::RawValue;

/// Reason why a message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The message waits for results of tools, or for approvals.
    ToolCalls,
}

/// Chunk of a UI message stream. Texts are JSON tokens as the log has them: a character may be split between two deltas.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Chunk {
    /// Start of a message.
    Start {
        /// Id of the message.
        message_id: String,
        /// Metadata of the message.
        message_metadata: Metadata,
    },
    /// Start of a step: one call of a model, with the tools that it calls.
    StartStep,
    /// End of a step.
    FinishStep,
    /// Start of a text.
    TextStart {
        /// Id of the text, unique in the message.
        id: String,
    },
    /// Piece of a text.
    TextDelta {
        /// Id of the text.
        id: String,
        /// Next piece, a JSON string.
        delta: Box<RawValue>,
    },
    /// End of a text.
    TextEnd {
        /// Id of the text.
        id: String,
    },
    /// Start of a text of reasoning.
    ReasoningStart {
        /// Id of the reasoning, unique in the message.
        id: String,
    },
    /// Piece of a text of reasoning.
    ReasoningDelta {
        /// Id of the reasoning.
        id: String,
        /// Next piece, a JSON string.
        delta: Box<RawValue>,
    },
    /// End of a text of reasoning.
    ReasoningEnd {
        /// Id of the reasoning.
        id: String,
    },
    /// Start of a tool call.
    ToolInputStart(ToolCall),
    /// Piece of the arguments of a call.
    ToolInputDelta {
        /// Id of the call.
        tool_call_id: String,
        /// Next piece, a JSON string.
        input_text_delta: Box<RawValue>,
    },
    /// The arguments of a call are complete.
    ToolInputAvailable {
        /// Call whose arguments end.
        #[serde(flatten)]
        call: ToolCall,
        /// Arguments of the call.
        input: Box<RawValue>,
    },
    /// The arguments of a call are not valid JSON.
    ToolInputError {
        /// Call whose arguments end.
        #[serde(flatten)]
        call: ToolCall,
        /// Arguments as they came.
        input: Box<RawValue>,
        /// Explanation of the failure, for people.
        error_text: &'static str,
    },
    /// Result of a call.
    ToolOutputAvailable {
        /// Id of the call.
        tool_call_id: String,
        /// Result: a JSON value, or a JSON string with its text.
        output: Box<RawValue>,
    },
    /// The user has denied a call.
    ToolOutputDenied {
        /// Id of the call.
        tool_call_id: String,
    },
    /// A call waits for an approval.
    ToolApprovalRequest {
        /// Id of the interrupt.
        approval_id: String,
        /// Id of the call.
        tool_call_id: String,
    },
    /// The run has failed. Clients stop reading here.
    Error {
        /// Explanation of the failure, for people.
        error_text: String,
    },
    /// End of a message.
    Finish {
        /// Reason why the message ends.
        finish_reason: FinishReason,
    },
    /// Data of the application.
    #[serde(untagged)]
    Data(DataPart),
}

impl Chunk {
    /// The chunk as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Metadata of a message: its place in the log. The thread is left out, because the message is the same in every branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Newest run of the message.
    pub run_id: String,
}

/// Tool call, as chunks name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Id of the call.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// Always true, because a page declares no types for the tools of agents.
    pub dynamic: bool,
    /// False if the front end executes the call. If true, clients neither call `onToolCall` nor wait for a result.
    pub provider_executed: bool,
}

/// Part with data of the application.
#[derive(Debug, Clone)]
pub struct DataPart {
    /// Name without the prefix `data-`.
    pub name: String,
    /// Id of the part: a later part with this name and id replaces its data. `None` for a part that nothing replaces.
    pub id: Option<String>,
    /// Data as the application gave it.
    pub data: Box<RawValue>,
    /// True for data that clients receive but do not keep in the message.
    pub transient: bool,
}

impl Serialize for DataPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &format_args!("data-{}", self.name))?;
        if let Some(id) = &self.id {
            map.serialize_entry("id", id)?;
        }
        map.serialize_entry("data", &self.data)?;
        if self.transient {
            map.serialize_entry("transient", &true)?;
        }
        map.end()
    }
}
