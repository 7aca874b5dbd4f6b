//! Outcome of a request.

use serde_json::Value;

/// Outcome of a request.
#[derive(Debug)]
pub enum Reply {
    /// 2xx: the request was carried out.
    Done(u16, Value),
    /// 4xx: the request was not carried out. The slug of the problem, and the problem.
    Refused(String, Value),
    /// No answer, 408, 429 or 5xx: the request may have been carried out.
    Unknown(String),
}

impl Reply {
    /// Outcome of a request with this answer.
    pub fn of(status: u16, body: Value) -> Self {
        match status {
            200..300 => Self::Done(status, body),
            408 | 429 | 500.. => Self::Unknown(format!("{status} {body}")),
            _ => Self::Refused(slug(&body), body),
        }
    }

    pub fn done(self) -> Value {
        match self {
            Self::Done(_, body) => body,
            other => panic!("expected success, got {other:?}"),
        }
    }

    pub fn refused(self) -> Value {
        match self {
            Self::Refused(_, problem) => problem,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
}

/// Returns the last part of a problem's type.
pub fn slug(problem: &Value) -> String {
    problem["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default().to_owned()
}
