//! Errors in OpenAI's form: <https://platform.openai.com/docs/guides/error-codes>.
//!
//! Handlers and the layers below return problems, as in all APIs. One layer translates the problems of all paths of this API,
//! including those of unknown routes, credentials and bodies.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde::Serialize;
use serde_json::{Value, json};
use threadline_core::limits::PAGE_BYTES;
use threadline_http::problem::{MEDIA_TYPE, Problem, ProblemType};
use utoipa::{
    ToSchema,
    openapi::{Content, OpenApi, Ref, RefOr},
};

/// Prefix of the paths of this API.
pub const PREFIX: &str = "/openai/v1";
/// Header that tells OpenAI's clients whether to send a request again. Without the header, they repeat each 409.
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// Member of a problem with the name of the wrong parameter.
const PARAM: &str = "param";
/// Member of a problem with the response whose run is active.
const ACTIVE: &str = "active_response_id";

/// An error, as OpenAI's API has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiError {
    error: OpenAiErrorBody,
}

/// Content of an error.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiErrorBody {
    /// Explanation, with the offending value.
    #[schema(example = "agent \"x\" does not exist")]
    message: String,
    /// `invalid_request_error`, `authentication_error`, `permission_error`, `rate_limit_error` or `server_error`.
    r#type: &'static str,
    /// The parameter that is wrong, or null.
    #[schema(required)]
    param: Option<String>,
    /// Stable name of the error.
    code: String,
    /// With `conversation_locked`: the response that is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_response_id: Option<String>,
    /// With `forbidden`: the scope that the credential lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

impl OpenAiError {
    /// Error of a route that is not implemented.
    pub fn new(message: &str, code: &str) -> Self {
        let (message, code) = (message.to_owned(), code.to_owned());
        let error = OpenAiErrorBody {
            message,
            r#type: "server_error",
            param: None,
            code,
            active_response_id: None,
            scope: None,
        };
        Self { error }
    }
}

/// A refusal because of one parameter of the request.
pub fn invalid(param: &str, detail: impl Into<String>) -> Problem {
    Problem::invalid(detail).with(json!({ PARAM: param }))
}

/// Problem of a request to a conversation with an active run, with the response to follow.
pub fn locked(mut problem: Problem, response: &str) -> Problem {
    problem.facts.insert(ACTIVE.to_owned(), response.into());
    problem.detail = format!(
        "the conversation has a response in progress: follow it with GET {PREFIX}/responses/{response}?stream=true, or cancel it"
    );
    problem
}

/// Replaces problems in the OpenAPI description of this API's routes by errors in OpenAI's form.
pub fn describe(document: &mut OpenApi) {
    let of_api = document.paths.paths.iter_mut().filter(|(path, _)| path.starts_with(PREFIX));
    for (_, item) in of_api {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            let errors = operation.responses.responses.iter_mut().filter(|(status, _)| status.as_str() >= "400");
            for (_, response) in errors {
                if let RefOr::T(response) = response {
                    let content = Content::new(Some(Ref::from_schema_name("OpenAiError")));
                    response.content.clear();
                    response.content.insert("application/json".to_owned(), content.into());
                }
            }
        }
    }
}

/// Layer around all routes: problems of this API's paths get OpenAI's form.
pub async fn in_openai_form(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_ours = path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let response = next.run(request).await;
    let is_problem = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == MEDIA_TYPE);
    if is_ours && is_problem { translated(response).await } else { response }
}

async fn translated(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let body = to_bytes(body, PAGE_BYTES).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // A client that repeats a 409 by itself gets the same 409 again.
    if head.status == StatusCode::CONFLICT || problem["retryable"] == false {
        head.headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    let body = serde_json::to_vec(&error_of(head.status, &problem)).unwrap_or_default();
    Response::from_parts(head, Body::from(body))
}

fn error_of(status: StatusCode, problem: &Value) -> OpenAiError {
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let slug = text("type").and_then(|kind| kind.strip_prefix("/problems/").map(str::to_owned)).unwrap_or_default();
    let kind = ProblemType::ALL.iter().copied().find(|kind| kind.slug() == slug).unwrap_or(ProblemType::Internal);
    let param = match kind {
        ProblemType::AgentNotFound => Some("model".to_owned()),
        ProblemType::UnknownParameter => text("parameter"),
        _ => text(PARAM),
    };
    let message = text("detail").filter(|detail| !detail.is_empty()).or_else(|| text("title")).unwrap_or_default();
    let code = text("openai_code").unwrap_or_else(|| code_of(kind));
    OpenAiError {
        error: OpenAiErrorBody {
            message,
            r#type: type_of(status),
            param,
            code,
            active_response_id: text(ACTIVE),
            scope: text("scope"),
        },
    }
}

fn type_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

/// Code of a problem: OpenAI's own where it has one, else the problem's name.
pub fn code_of(kind: ProblemType) -> String {
    match kind {
        ProblemType::AgentNotFound => "model_not_found".to_owned(),
        ProblemType::RunActive => "conversation_locked".to_owned(),
        ProblemType::RunNotFound => "response_not_found".to_owned(),
        ProblemType::ThreadNotFound => "conversation_not_found".to_owned(),
        ProblemType::MessageNotFound => "item_not_found".to_owned(),
        ProblemType::Unauthorized => "invalid_api_key".to_owned(),
        ProblemType::RateLimited => "rate_limit_exceeded".to_owned(),
        ProblemType::UnknownParameter => "unknown_parameter".to_owned(),
        ProblemType::Internal => "server_error".to_owned(),
        other => other.slug().replace('-', "_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_its_reason_and_gets_openais_code() {
        let of = |problem: Problem| {
            let status = problem.kind.status();
            let document = serde_json::to_value(problem.document()).expect("JSON");
            serde_json::to_value(error_of(status, &document)).expect("JSON")["error"].take()
        };
        let unknown = of(Problem::new(ProblemType::AgentNotFound, "no agent has the ID \"x\""));
        assert_eq!(
            unknown,
            json!({ "message": "no agent has the ID \"x\"", "type": "invalid_request_error", "param": "model", "code": "model_not_found" })
        );
        let busy = of(locked(Problem::new(ProblemType::RunActive, "busy"), "resp_x"));
        assert_eq!((&busy["code"], &busy["active_response_id"]), (&json!("conversation_locked"), &json!("resp_x")));
        let wrong = of(invalid("input[0].type", "x"));
        assert_eq!((&wrong["param"], &wrong["code"]), (&json!("input[0].type"), &json!("invalid_request")));
        for (kind, name) in [
            (ProblemType::Unauthorized, "authentication_error"),
            (ProblemType::Forbidden, "permission_error"),
            (ProblemType::RateLimited, "rate_limit_error"),
            (ProblemType::StoreUnavailable, "server_error"),
        ] {
            assert_eq!(of(Problem::new(kind, "d"))["type"], name);
        }
    }
}
