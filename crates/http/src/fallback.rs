//! Responses where no route exists, or a handler failed.

use std::any::Any;

use axum::{
    http::{Method, Uri},
    response::{IntoResponse, Response},
};

use crate::problem::{Problem, ProblemType};

/// Response to a path without a route.
pub async fn not_found(uri: Uri) -> Problem {
    Problem::new(ProblemType::NotFound, format!("no route has the path {:?}", uri.path()))
}

/// Response to a method that the route does not have.
pub async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(ProblemType::MethodNotAllowed, format!("{} does not support {method}", uri.path()))
}

/// Response of a handler that panicked: a server fault, which must not end the connection's other requests.
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(reason, "a request handler panicked");
    Problem::new(ProblemType::Internal, "see the server's log").into_response()
}
