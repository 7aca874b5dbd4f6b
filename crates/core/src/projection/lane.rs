//! Constructs that chunk events continue.

/// Construct that a chunk event without an id continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::projection) enum Lane {
    Text(String),
    Reasoning(String),
    Tool(String),
}

/// True for events that end what chunks continue, as `@ag-ui/client` has it.
pub(in crate::projection) fn closes_lane(kind: &str) -> bool {
    let parts = ["TEXT_MESSAGE_", "TOOL_CALL_", "STATE_", "STEP_", "REASONING_", "THINKING_"];
    let is_part = parts.iter().any(|part| kind.starts_with(part)) && !kind.ends_with("_CHUNK");
    is_part || matches!(kind, "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "MESSAGES_SNAPSHOT" | "CUSTOM")
}
