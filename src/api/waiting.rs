//! Responses of a server that has not opened its store yet: alive, not ready, and no requests served.

use axum::{Router, routing::get};
use serde_json::json;
use threadline_core::limits::{WAITING_CONNECTIONS, WAITING_DRAIN};
use threadline_http::{
    listener::{self, Listener, Timeouts},
    problem::{Problem, ProblemType},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::rest::meta;

/// Time after which a client tries again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Answers every request until `opened` is cancelled.
pub async fn serve(listener: impl Listener, opened: CancellationToken, timeouts: Timeouts) {
    let router = Router::new().route("/healthz", get(meta::health)).fallback(starting);
    let timeouts = Timeouts { drain: WAITING_DRAIN, ..timeouts };
    listener::serve(listener, router, TaskTracker::new(), opened, WAITING_CONNECTIONS, timeouts).await;
}

async fn starting() -> Problem {
    let problem = Problem::new(ProblemType::StoreUnavailable, "the server has not opened its store yet");
    let facts = json!({ "why": "starting", "dependencies": { "store": "unavailable" } });
    problem.retry_after(RETRY_MS).with(facts)
}
