//! The wait for a store that cannot be opened yet. The process is alive and not ready, and serves no requests.

use std::fmt::Display;

use axum::{Router, middleware, routing::get};
use serde_json::json;
use threadline_core::limits::{OPEN_RETRY, OPEN_RETRY_MAX, WAITING_CONNECTIONS, WAITING_DRAIN};
use threadline_http::{
    listener::{self, ConnectionBounds, Listener, Serving, Timeouts},
    problem::{Problem, ProblemType},
    protection,
};
use tokio::{runtime::Handle, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::rest::meta;

/// Time after which a client tries again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Opens a store, and tries again as long as that can help. From the first failure on, every request is answered.
pub(super) async fn open<T, E: Display>(
    listener: &(impl Listener + Sync),
    timeouts: Timeouts,
    open: impl AsyncFn() -> Result<T, E>,
    may_pass: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let mut error = match open().await {
        Err(error) if may_pass(&error) => error,
        done => return done,
    };
    let opened = CancellationToken::new();
    let opening = async {
        // Ends the answers in every case.
        let _guard = opened.clone().drop_guard();
        let mut pause = OPEN_RETRY;
        loop {
            tracing::warn!(%error, "cannot open the database: trying again in {pause:?}");
            time::sleep(pause).await;
            pause = OPEN_RETRY_MAX.min(pause * 2);
            error = match open().await {
                Err(error) if may_pass(&error) => error,
                done => return done,
            };
        }
    };
    tokio::join!(opening, answer(listener, opened.clone(), timeouts)).0
}

/// Answers every request until `opened` is cancelled.
async fn answer(listener: impl Listener, opened: CancellationToken, timeouts: Timeouts) {
    let serving = Serving {
        router: router(Handle::current()),
        connections: TaskTracker::new(),
        draining: opened,
        bounds: ConnectionBounds::new(WAITING_CONNECTIONS),
        timeouts: Timeouts { drain: WAITING_DRAIN, ..timeouts },
        metrics: None,
    };
    listener::serve(listener, serving).await;
}

/// Routes of a server that has no store yet. `main` is its main runtime.
pub(super) fn router(main: Handle) -> Router {
    let live = async move || meta::liveness(&main).await;
    let live = get(live).layer(middleware::map_response(protection::public));
    Router::new().route("/livez", live).fallback(starting).layer(middleware::map_response(protection::protect))
}

async fn starting() -> Problem {
    let problem = Problem::new(ProblemType::StoreUnavailable, "the server has not opened its store yet");
    let facts = json!({ "why": "starting", "dependencies": { "store": "unavailable" } });
    problem.retry_after(RETRY_MS).with(facts)
}
