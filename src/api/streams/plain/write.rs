//! Routes that create, append to, close and delete plain streams.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use threadline_core::limits::MAX_STREAM_APPEND_BYTES;
use threadline_engine::{AppendRequest, Content, NewStream};
use threadline_http::{
    extract::Caller,
    problem::{Problem, ProblemDocument},
    run_to_completion,
};

use super::{
    answers,
    requests::{Append, Creation, InStream},
};
use crate::api::ApiState;

/// Creates a stream, or a fork of another one, with the body as its first content.
///
/// A repeated request, or one for a stream of the same configuration, gets 200.
#[utoipa::path(put, path = "/streams/v1/stream/{*path}", tag = "durable streams",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(("path" = String, Path), ("Stream-TTL" = Option<u64>, Header), ("Stream-Expires-At" = Option<String>, Header),
        ("Stream-Closed" = Option<String>, Header), ("Stream-Forked-From" = Option<String>, Header),
        ("Stream-Fork-Offset" = Option<String>, Header), ("Stream-Fork-Sub-Offset" = Option<u64>, Header)),
    responses(
    (status = 201, description = "Created"),
    (status = 200, description = "The stream exists, with the same configuration"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "The source of a fork does not exist", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 413, description = "Content too large", body = ProblemDocument),
    (status = 409, description = "A stream of this path exists, or cannot be forked", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InStream(path): InStream,
    request: Request,
) -> Result<Response, Problem> {
    let Creation { kind, life, fork, closed, location } = Creation::of(&request)?;
    let body = state.http.body(request, MAX_STREAM_APPEND_BYTES).await?;
    run_to_completion(async move {
        let content = Content { kind: kind.as_ref(), body: &body };
        let new = NewStream { content, life, closed, fork };
        let (stream, created) = state.service.streams.create(&principal, &path, &new).await?;
        let status = if created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = answers::tail(&stream.record).mark(status.into_response(), None);
        if created && let Ok(location) = HeaderValue::try_from(location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(answers::typed(response, &stream.record))
    })
    .await?
}

/// Appends the body to a stream: bytes, or in JSON mode a message or the messages of an array. With `Stream-Closed: true` nothing can be
/// appended afterwards.
#[utoipa::path(post, path = "/streams/v1/stream/{*path}", tag = "durable streams",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    params(("path" = String, Path), ("Stream-Seq" = Option<String>, Header), ("Stream-Closed" = Option<String>, Header),
        ("Producer-Id" = Option<String>, Header), ("Producer-Epoch" = Option<u64>, Header),
        ("Producer-Seq" = Option<u64>, Header)),
    responses(
    (status = 204, description = "Appended or closed, or an append of a producer that was accepted before"),
    (status = 200, description = "Append of a producer"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 403, description = "The producer has begun a later epoch", body = ProblemDocument),
    (status = 404, description = "Stream not found", body = ProblemDocument),
    (status = 409, description = "Stream closed, other content type, or a number that is not the next one", body = ProblemDocument),
    (status = 410, description = "Stream deleted, and forks of it exist", body = ProblemDocument),
    (status = 413, description = "Content too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn append(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InStream(path): InStream,
    request: Request,
) -> Result<Response, Problem> {
    let Append { kind, seq, producer, closes } = Append::of(request.headers())?;
    let body = state.http.body(request, MAX_STREAM_APPEND_BYTES).await?;
    if body.is_empty() && !closes {
        return Err(Problem::invalid("the body is empty: an append has content, or Stream-Closed: true"));
    }
    if !body.is_empty() && kind.is_none() {
        return Err(Problem::invalid("an append with content needs the header Content-Type"));
    }
    run_to_completion(async move {
        let content = Content { kind: kind.as_ref(), body: &body };
        let append = AppendRequest { content, seq, producer: producer.clone(), closes };
        let written = match state.service.streams.append(&principal, &path, &append).await {
            Ok(written) => written,
            Err(error) => return Ok(answers::refused(error, producer.as_ref())),
        };
        let is_news = written.is_new && producer.is_some() && !body.is_empty();
        let status = if is_news { StatusCode::OK } else { StatusCode::NO_CONTENT };
        let response = answers::tail(&written.record).mark(status.into_response(), None);
        Ok(answers::with_producer(response, written.producer))
    })
    .await?
}

/// Deletes a stream. While forks of it exist, its data stays for them, and its path stays in use.
#[utoipa::path(delete, path = "/streams/v1/stream/{*path}", tag = "durable streams",
    params(("path" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    (status = 404, description = "Stream not found", body = ProblemDocument),
    (status = 410, description = "Stream deleted before, and forks of it exist", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InStream(path): InStream,
) -> Result<Response, Problem> {
    run_to_completion(async move {
        state.service.streams.delete(&principal, &path).await?;
        Ok(StatusCode::NO_CONTENT.into_response())
    })
    .await?
}
