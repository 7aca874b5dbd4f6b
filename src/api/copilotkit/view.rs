//! Thread in the form of CopilotKit's clients, the same for both APIs.

use serde::Serialize;
use threadline_core::{Thread, Timestamp};
use utoipa::ToSchema;

/// Agent shown for a thread without an agent: the name that CopilotKit gives to an agent without a name.
pub const UNNAMED_AGENT: &str = "default";

/// A thread, always complete: clients replace their copy, and compare its times as strings.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRecord {
    id: String,
    organization_id: String,
    agent_id: String,
    created_by_id: String,
    #[schema(required)]
    name: Option<String>,
    archived: bool,
    #[schema(value_type = String, example = "2026-11-21T10:11:15.123Z")]
    created_at: Timestamp,
    /// Last edit; runs do not count.
    #[schema(value_type = String)]
    updated_at: Timestamp,
    #[schema(value_type = String)]
    last_updated_at: Timestamp,
    /// The time at which a run last started or ended; absent without runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    last_run_at: Option<Timestamp>,
}

impl From<&Thread> for ThreadRecord {
    fn from(thread: &Thread) -> Self {
        Self {
            id: thread.id.to_string(),
            organization_id: thread.project.to_string(),
            agent_id: thread.agent.as_ref().map_or_else(|| UNNAMED_AGENT.to_owned(), ToString::to_string),
            created_by_id: thread.user.to_string(),
            name: thread.name.clone(),
            archived: thread.archived,
            created_at: thread.created_at,
            updated_at: thread.updated_at,
            last_updated_at: thread.updated_at,
            last_run_at: thread.last_run_at,
        }
    }
}
