//! The Response object as clients receive it.

use std::fmt::Write;

use super::{header::Header, item::Item, usage::Usage};
use crate::{Timestamp, json};

/// Status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Queued,
    InProgress,
    Completed,
    Failed,
    Incomplete,
    Cancelled,
}

/// Members of a Response that come from its run.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub status: Status,
    /// Time at which the run has ended.
    pub ended_at: Option<Timestamp>,
    /// The error as JSON.
    pub error: Option<&'a str>,
    pub usage: Option<Usage>,
    pub output: &'a [Item],
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Writes the Response object.
pub(super) fn write(header: &Header, fields: &Fields<'_>, json: &mut String) {
    json.reserve(1_024 + fields.output.iter().map(|item| item.text.len() + 256).sum::<usize>());
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "null".to_owned(), json::quoted);
    let completed_at = fields.ended_at.filter(|_| fields.status == Status::Completed);
    let incomplete = fields.status == Status::Incomplete;
    let conversation = header.conversation.as_deref();
    let conversation = conversation.map_or_else(|| "null".to_owned(), |id| format!("{{\"id\":{}}}", json::quoted(id)));
    _ = write!(
        json,
        "{{\"id\":{},\"object\":\"response\",\"created_at\":{},\"status\":\"{}\",\"completed_at\":{},\"error\":{},\
         \"incomplete_details\":{},\"model\":{},\"previous_response_id\":{},\"conversation\":{conversation},\
         \"background\":{},\"store\":{},\"usage\":{}",
        json::quoted(&header.id),
        seconds(header.created_at),
        fields.status.name(),
        completed_at.map_or_else(|| "null".to_owned(), |at| seconds(at).to_string()),
        fields.error.unwrap_or("null"),
        if incomplete { "{\"reason\":\"max_output_tokens\"}" } else { "null" },
        json::quoted(&header.model),
        text(&header.previous_response_id),
        header.background,
        header.store,
        fields.usage.map_or_else(|| "null".to_owned(), Usage::to_json),
    );
    header.echo.write(json);
    json.push_str(",\"output\":[");
    for (place, item) in fields.output.iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        item.write(json);
    }
    json.push_str("]}");
}

/// Seconds since 1970, whole ones: some clients take no others.
fn seconds(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}
