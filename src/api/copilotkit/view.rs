//! A thread as CopilotKit's clients see it, whichever door they come through.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::{Thread, Timestamp};

/// What is shown as the agent of a thread that was made for none: the name that CopilotKit gives an agent without one.
pub const UNNAMED_AGENT: &str = "default";

/// A thread. Clients replace what they have of it, so it is always whole; they compare its times as texts.
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
    /// When a run of it last began or ended; absent if it had none.
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
