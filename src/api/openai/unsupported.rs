//! Routes of OpenAI's API that need a model, which Threadline does not have: they answer 501.

use axum::{
    Json as Answer,
    http::{HeaderName, HeaderValue, StatusCode},
};
use threadline_http::extract::Caller;

use super::errors::{OpenAiError, SHOULD_RETRY};

/// Answer of a route that is not implemented.
type Unsupported = (StatusCode, [(HeaderName, HeaderValue); 1], Answer<OpenAiError>);

fn unsupported(message: &str) -> Unsupported {
    let error = OpenAiError::new(message, "not_implemented");
    (StatusCode::NOT_IMPLEMENTED, [(SHOULD_RETRY, HeaderValue::from_static("false"))], Answer(error))
}

/// Not implemented: agents do not say how many tokens an input has.
#[utoipa::path(post, path = "/openai/v1/responses/input_tokens", tag = "openai", responses(
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 501, description = "Not implemented", body = OpenAiError)))]
pub async fn input_tokens(_: Caller) -> Unsupported {
    unsupported("tokens of an input cannot be counted: an agent does not say how it counts")
}

/// Not implemented: an agent compacts its history itself.
#[utoipa::path(post, path = "/openai/v1/responses/compact", tag = "openai", responses(
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 501, description = "Not implemented", body = OpenAiError)))]
pub async fn compact(_: Caller) -> Unsupported {
    unsupported("a history cannot be compacted: an agent decides itself what it sends to its model")
}
