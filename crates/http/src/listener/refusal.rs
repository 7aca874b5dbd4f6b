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
use threadline_engine::limits::ConnectionRefused;
use tokio::time;

use crate::{
    listener::lingering_close::{Connection, LingeringClose},
    problem::{Problem, ProblemType},
    protection::protect,
};

/// Answers the first request of a connection, whose body is not read, and closes the connection.
pub(super) async fn refuse(stream: LingeringClose<impl Connection>, refused: ConnectionRefused) {
    let answer = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REFUSAL_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        // Without keep-alive the answer has the header `Connection: close`.
        .keep_alive(false)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(too_many(refused).await)),
        );
    match time::timeout(REFUSAL_TIMEOUT, answer).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a refused connection ended early"),
        Err(_) => tracing::debug!("a refused connection sent no request in time"),
    }
}

async fn too_many(refused: ConnectionRefused) -> Response<Body> {
    let wait = u64::try_from(REFUSAL_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
    let detail = match refused {
        ConnectionRefused::All => "the server has reached its limit of open connections",
        ConnectionRefused::Address => "this address has reached its limit of open connections",
    };
    let problem = Problem::new(ProblemType::TooManyConnections, detail);
    protect(problem.retry_after(wait).into_response()).await
}
