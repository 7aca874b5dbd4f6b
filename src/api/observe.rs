//! Every request is counted, has an id, and says in the log how it ended. What a client sends beside the id (path,
//! query, headers) is neither logged nor counted.

use std::time::Duration;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::Response,
};
use tokio::time::Instant;
use tracing::{Instrument, Span, field};

use super::ApiState;
use crate::{
    domain::{Clock, RunId, Timestamp, limits::MAX_REQUEST_ID_BYTES},
    metrics::{Metrics, Present},
    subscription::Delivery,
};

/// Names a request, in the log and to whoever sent it.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The route that answers 503 for a living.
const READY: &str = "/readyz";

/// Around everything else.
pub async fn observe(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let http = &metrics.http;
    let _in_flight = Present::new(&http.in_flight);
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let id = request_id(request.headers());
    // Made only where debug is logged: on the way of an append it would cost more than all the counting.
    let span = tracing::debug_span!("request", id = field::Empty, method = field::Empty, route = field::Empty);
    describe(&span, &id, &method, route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, took) = (response.status(), begun.elapsed());
    http.answered(method.as_str(), route, status.as_u16(), took);
    // Who asks whether it is ready asks again in a second, and hears why it is not.
    let ours = status.is_server_error() && route != Some(READY);
    log(span, status, took, ours, |span| describe(span, &id, &method, route));
    response.headers_mut().insert(HeaderName::from_static(REQUEST_ID_HEADER), id);
    response
}

fn describe(span: &Span, id: &HeaderValue, method: &Method, route: Option<&str>) {
    if !span.is_disabled() {
        // An id is ASCII.
        span.record("id", id.to_str().unwrap_or_default());
        // What is no method that we know is a text of the client's.
        span.record("method", if method.as_str().len() <= 16 { method.as_str() } else { "other" });
        span.record("route", route.unwrap_or("none"));
    }
}

/// A fault of ours is worth a line always, everything else where debug is logged.
fn log(span: Span, status: StatusCode, took: Duration, ours: bool, describe: impl FnOnce(&Span)) {
    let (status, duration_ms) = (status.as_u16(), took.as_secs_f64() * 1_000.0);
    if !ours {
        return span.in_scope(|| tracing::debug!(status, duration_ms, "answered"));
    }
    let span = if span.is_disabled() {
        let span = tracing::info_span!("request", id = field::Empty, method = field::Empty, route = field::Empty);
        describe(&span);
        span
    } else {
        span
    };
    span.in_scope(|| tracing::info!(status, duration_ms, "answered"));
}

/// The id that came with the request if it is one that may stand in a log, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get(REQUEST_ID_HEADER).filter(|id| is_well_formed(id.as_bytes()));
    // A made-up id is hexadecimal digits and dashes.
    sent.cloned().or_else(|| RunId::generate().as_str().try_into().ok()).unwrap_or(HeaderValue::from_static("none"))
}

fn is_well_formed(id: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.iter().all(fine)
}

/// How long ago this was committed, by the store's clock; no less than nothing, where that runs ahead.
pub fn age(clock: &Clock, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(clock.now().0.saturating_sub(at.0)).unwrap_or(0))
}

/// A follower over SSE, as it is counted.
pub struct Followed {
    metrics: Metrics,
    clock: Clock,
    live: bool,
    _present: Present,
}

impl Followed {
    /// Somebody follows a thread.
    pub fn new(state: &ApiState) -> Self {
        let metrics = state.service.metrics().clone();
        let present = Present::new(&metrics.following.sse);
        Self { metrics, clock: state.service.clock().clone(), live: false, _present: present }
    }

    /// This is handed to the connection now. History is as old as it is; only live events are late.
    pub fn delivers(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::CaughtUp(_) => self.live = true,
            Delivery::FellBehind(_) => self.live = false,
            Delivery::Events(slice) if self.live => {
                if let Some(oldest) = slice.0.first() {
                    self.metrics.following.sse_delivery.time(age(&self.clock, oldest.at));
                }
            }
            Delivery::Events(_) | Delivery::Ended(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_over_only_if_it_can_do_no_harm() {
        let taken = |id: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID_HEADER, HeaderValue::from_bytes(id).expect("a value"));
            request_id(&headers).as_bytes() == id
        };
        assert!(taken(b"7f3c-A_b.c:d/e+f=@") && taken(&[b'x'; MAX_REQUEST_ID_BYTES]));
        for bad in [&b""[..], b"a b", b"a\tb", b"\"", b"\xff", b"a,b", b"{}", &[b'x'; MAX_REQUEST_ID_BYTES + 1]] {
            assert!(!taken(bad), "{bad:?}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn a_clock_that_runs_ahead_makes_nothing_older() {
        let clock = Clock::manual(Timestamp(1_000));
        assert_eq!(age(&clock, Timestamp(900)), Duration::from_millis(100));
        assert_eq!(age(&clock, Timestamp(1_100)), Duration::ZERO);
    }
}
