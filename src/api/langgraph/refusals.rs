//! Refusals of commands, as the protocol words them.

use axum::http::StatusCode;
use serde_json::json;
use threadline_http::problem::{Problem, ProblemType};

/// Code of the protocol for a problem with the content of a command. `None` for a problem of the request or of the server: over HTTP,
/// the response has the status of the problem, by which clients decide whether to try again.
pub fn code_of(problem: &Problem) -> Option<&'static str> {
    match problem.kind {
        ProblemType::InterruptSettled | ProblemType::InterruptExpired => Some("no_such_interrupt"),
        // The request does not name a user.
        ProblemType::ThreadAmbiguous => None,
        kind => match kind.status() {
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::GONE
            | StatusCode::UNPROCESSABLE_ENTITY => Some("invalid_argument"),
            _ => None,
        },
    }
}

/// Code of the protocol for a request that is refused with this status. A frame of a socket has no status.
pub fn code_of_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "permission_denied",
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => "unknown_error",
        status if status.is_client_error() => "invalid_argument",
        _ => "unknown_error",
    }
}

/// Response to a command that is refused. `id` is the number of the command, as JSON.
pub fn refusal(id: impl serde::Serialize, code: &str, detail: &str) -> String {
    json!({ "type": "error", "id": id, "error": code, "message": detail }).to_string()
}
