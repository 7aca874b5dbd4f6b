//! Formats of bodies and responses (RFC 9110, section 12), and values that several APIs read and write in one way.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use threadline_core::Seq;
use threadline_engine::{
    ServiceError, StoreError,
    subscription::{EndReason, ReplacedLog},
};

use crate::problem::{Problem, ProblemType};

/// Format of a body, by its `Content-Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    Json,
    /// One JSON document per line.
    Ndjson,
}

impl Representation {
    /// Format that the header names; JSON if the header is absent or empty.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(Self::Json) };
        match kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim() {
            "application/json" | "" => Ok(Self::Json),
            "application/x-ndjson" | "application/ndjson" => Ok(Self::Ndjson),
            // Default of curl for `--data`.
            "application/x-www-form-urlencoded" => Ok(Self::Json),
            other => {
                Err(Problem::new(ProblemType::UnsupportedMediaType, format!("content type {other:?} is not supported")))
            }
        }
    }
}

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFormat {
    Json,
    /// One JSON document per line.
    Ndjson,
    Sse,
}

impl StreamFormat {
    /// Supported format with the greatest weight in `Accept`, the first of equals; JSON if the client has no
    /// preference.
    pub fn accepted(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(accept) = headers.get(header::ACCEPT) else { return Ok(Self::Json) };
        let mut best: Option<(f32, Self)> = None;
        for range in accept.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let form = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
                "application/json" | "application/*" | "*/*" => Self::Json,
                "application/x-ndjson" | "application/ndjson" => Self::Ndjson,
                "text/event-stream" | "text/*" => Self::Sse,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
            if weight > best.map_or(0.0, |(best, _)| best) {
                best = Some((weight, form));
            }
        }
        best.map(|(_, form)| form).ok_or_else(|| {
            Problem::new(ProblemType::NotAcceptable, "the route has no response of a type in the header Accept")
        })
    }
}

/// Parses a number of seconds to wait.
pub fn wait_time(seconds: Option<f64>) -> Result<Option<Duration>, Problem> {
    let parse = |seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| Problem::invalid("wait is not a number of seconds"))
    };
    seconds.map(parse).transpose()
}

/// Wire name for the end of a subscription.
pub fn end_reason(reason: EndReason) -> &'static str {
    match reason {
        EndReason::RunEnded => "run-ended",
        EndReason::ThreadDeleted => "thread-deleted",
        EndReason::LogReplaced(_) => "log-replaced",
        EndReason::LogDamaged { .. } => "log-damaged",
    }
}

/// Problem of a stream that ends for this reason before its first event; `None` if this is its regular end.
pub fn refusal(reason: EndReason) -> Option<Problem> {
    let error = match reason {
        EndReason::RunEnded => return None,
        EndReason::ThreadDeleted => ServiceError::ThreadNotFound,
        EndReason::LogReplaced(by) => ServiceError::LogReplaced(by),
        EndReason::LogDamaged { key, first_seq, last_seq } => {
            ServiceError::Store(StoreError::Damaged { key, first_seq, last_seq })
        }
    };
    Some(error.into())
}

/// Fields of the end of a subscription at `seq`. A log that was replaced names the present one, if there is one; a damaged
/// one the events that cannot be read.
pub fn ended(reason: EndReason, seq: Seq) -> Value {
    let mut ended = json!({ "reason": end_reason(reason), "seq": seq });
    match reason {
        EndReason::LogReplaced(ReplacedLog { epoch, tail, common_up_to }) => {
            ended["epoch"] = epoch.map(|epoch| epoch.to_string()).into();
            ended["tail"] = tail.into();
            ended["commonUpTo"] = common_up_to.into();
        }
        EndReason::LogDamaged { first_seq, last_seq, .. } => {
            ended["firstSeq"] = first_seq.into();
            ended["lastSeq"] = last_seq.into();
        }
        EndReason::RunEnded | EndReason::ThreadDeleted => {}
    }
    ended
}

/// Fields of the end of a subscription to a feed, which another feed has replaced.
pub fn feed_ended(ReplacedLog { epoch, tail, common_up_to }: ReplacedLog) -> Value {
    let epoch = epoch.map(|epoch| epoch.to_string());
    json!({ "reason": "log-replaced", "epoch": epoch, "tail": tail, "commonUpTo": common_up_to })
}
