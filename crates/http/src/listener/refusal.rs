//! Answers to clients beyond the limit of connections: each is told to try again later, and costs no more than this
//! answer.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{Request, Response},
    response::IntoResponse,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use threadline_core::limits::{MAX_HEAD_BYTES, MAX_HEADERS, REFUSAL_RETRY_AFTER, REFUSAL_TIMEOUT};
use tokio::time;

use crate::{
    listener::lingering_close::{Connection, LingeringClose},
    problem::{Problem, ProblemType},
    protection::protect,
};

/// Answers the first request of a connection, whose body is not read, and closes the connection.
pub(super) async fn refuse(stream: LingeringClose<impl Connection>) {
    let answer = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REFUSAL_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        // Without keep-alive the answer has the header `Connection: close`.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service_fn(too_many));
    match time::timeout(REFUSAL_TIMEOUT, answer).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a refused connection ended early"),
        Err(_) => tracing::debug!("a refused connection sent no request in time"),
    }
}

async fn too_many(_: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let wait = u64::try_from(REFUSAL_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
    let problem = Problem::new(ProblemType::TooManyConnections, "the server has reached its limit of open connections");
    Ok(protect(problem.retry_after(wait).into_response()).await)
}
