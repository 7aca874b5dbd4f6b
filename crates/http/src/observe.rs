//! Every request is counted, has an id, and logs its result. Other data of a client than the id (path, query, headers)
//! is neither logged nor counted.

use std::time::Duration;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode},
    middleware::Next,
    response::Response,
};
use threadline_core::{RunId, Timestamp, limits::MAX_REQUEST_ID_BYTES};
use threadline_engine::{
    metrics::{GaugeGuard, Metrics},
    subscription::Delivery,
};
use threadline_store::StoreClock;
use tokio::time::Instant;
use tracing::{Instrument, Span, field};

use crate::HttpState;

/// Header with the id of a request: in the log, and in the response.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Readiness route, for which 503 is a regular response.
const READY: &str = "/readyz";

/// Middleware around all other layers and all routes.
pub async fn observe(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let http = &metrics.http;
    let _in_flight = GaugeGuard::new(&http.in_flight);
    let begun = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let id = request_id(request.headers());
    // Created only where debug is logged: for an append, a span would cost more than all the counting.
    let span = tracing::debug_span!("request", id = field::Empty, method = field::Empty, route = field::Empty);
    describe(&span, &id, &method, route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, took) = (response.status(), begun.elapsed());
    http.answered(method.as_str(), route, status.as_u16(), took);
    // A probe of the readiness route repeats after a second, and its response has the reason: no fault to log.
    let ours = status.is_server_error() && route != Some(READY);
    log(span, status, took, ours, |span| describe(span, &id, &method, route));
    response.headers_mut().insert(HeaderName::from_static(REQUEST_ID_HEADER), id);
    response
}

fn describe(span: &Span, id: &HeaderValue, method: &Method, route: Option<&str>) {
    if !span.is_disabled() {
        // An id is ASCII.
        span.record("id", id.to_str().unwrap_or_default());
        // An unknown method is arbitrary text of the client.
        span.record("method", if method.as_str().len() <= 16 { method.as_str() } else { "other" });
        span.record("route", route.unwrap_or("none"));
    }
}

/// A fault of the server is always logged, every other response only where debug is logged.
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

/// Id that the client sent if the log may contain it, else a new id.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get(REQUEST_ID_HEADER).filter(|id| is_well_formed(id.as_bytes()));
    // A generated id consists of hexadecimal digits and dashes.
    sent.cloned().or_else(|| RunId::generate().as_str().try_into().ok()).unwrap_or(HeaderValue::from_static("none"))
}

fn is_well_formed(id: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) && id.iter().all(fine)
}

/// Time since a commit, by the store's clock; zero if the commit is ahead of that clock.
pub fn age(clock: &StoreClock, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(clock.now().0.saturating_sub(at.0)).unwrap_or(0))
}

/// Follower over SSE, as the metrics count it.
pub struct DeliveryMetrics {
    metrics: Metrics,
    clock: StoreClock,
    live: bool,
    _present: GaugeGuard,
}

impl DeliveryMetrics {
    /// Counts a follower of a thread.
    pub fn new(state: &HttpState) -> Self {
        let metrics = state.metrics.clone();
        let present = GaugeGuard::new(&metrics.following.sse);
        Self { metrics, clock: state.clock.clone(), live: false, _present: present }
    }

    /// Measures a delivery that is handed to the connection now. Only live events can be late; the age of history is no
    /// delay.
    pub fn delivers(&mut self, delivery: &Delivery) {
        match delivery {
            Delivery::CaughtUp(_) => self.live = true,
            Delivery::FellBehind(_) => self.live = false,
            Delivery::Events(slice) if self.live => {
                if let Some(oldest) = slice.0.first() {
                    self.metrics.following.sse_delivery.time(age(&self.clock, oldest.at));
                }
            }
            Delivery::Events(_) | Delivery::Rebased { .. } | Delivery::Queue(_) | Delivery::Ended(_) => {}
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
        let clock = StoreClock::new(threadline_core::Clock::manual(Timestamp(1_000)));
        assert_eq!(age(&clock, Timestamp(900)), Duration::from_millis(100));
        assert_eq!(age(&clock, Timestamp(1_100)), Duration::ZERO);
    }
}
