//! Request metrics, by route template: the path of a request would be a label without bound.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::Counter, gauge::Gauge},
};

use super::histogram::Histogram;

/// Methods by name; the last entry stands for any other.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];
/// Status classes, by the first digit of the status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Label of requests that match no route.
const NO_ROUTE: &str = "none";

/// Request metrics. Cheap to clone; the clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Http {
    /// Requests whose response has not started.
    pub in_flight: Gauge,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    routes: OnceLock<HashMap<String, Route>>,
    no_route: Route,
}

/// Series by method, created at the first request of the method.
type Route = [OnceLock<Box<Series>>; METHODS.len()];

#[derive(Debug)]
struct Series {
    requests: [Counter; CLASSES.len()],
    duration: Histogram,
}

impl Http {
    /// Sets the known route templates: only these become labels. Only the first call has an effect.
    pub fn know(&self, templates: impl Iterator<Item = String>) {
        let routes = templates.map(|template| (template, Route::default())).collect();
        // A second router of the same server has the same routes.
        let _ = self.shared.routes.set(routes);
    }

    /// Counts an answered request and the time of its answer.
    pub fn answered(&self, method: &str, template: Option<&str>, status: u16, took: Duration) {
        let route = template.and_then(|template| self.shared.routes.get()?.get(template));
        let method = METHODS.iter().position(|name| *name == method).unwrap_or(METHODS.len() - 1);
        let Some(series) = route.unwrap_or(&self.shared.no_route).get(method) else { return };
        let series =
            series.get_or_init(|| Box::new(Series { requests: Default::default(), duration: Histogram::of_times() }));
        if let Some(requests) = series.requests.get(usize::from(status / 100).saturating_sub(1)) {
            requests.inc();
        }
        series.duration.time(took);
    }

    /// Calls `each` with template and method of every series that has requests, in order of the templates.
    fn visit(
        &self,
        mut each: impl FnMut(&str, &'static str, &Series) -> Result<(), fmt::Error>,
    ) -> Result<(), fmt::Error> {
        let known = self.shared.routes.get().into_iter().flatten().map(|(template, route)| (template.as_str(), route));
        let mut routes: Vec<_> = known.chain([(NO_ROUTE, &self.shared.no_route)]).collect();
        routes.sort_unstable_by_key(|(template, _)| *template);
        for (template, route) in routes {
            for (method, series) in METHODS.into_iter().zip(route) {
                if let Some(series) = series.get() {
                    each(template, method, series)?;
                }
            }
        }
        Ok(())
    }
}

impl Collector for Http {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Requests answered, by route template, method and class of status";
        let mut requests = encoder.encode_descriptor("threadline_http_requests", help, None, MetricType::Counter)?;
        self.visit(|route, method, series| {
            for (status, count) in CLASSES.into_iter().zip(&series.requests) {
                if count.get() > 0 {
                    count.encode(requests.encode_family(&[
                        ("route", route),
                        ("method", method),
                        ("status", status),
                    ])?)?;
                }
            }
            Ok(())
        })?;
        let help = "Time from a request to the head of its response, including intended waits (long-poll, streams)";
        let mut durations =
            encoder.encode_descriptor("threadline_http_request_duration_seconds", help, None, MetricType::Histogram)?;
        self.visit(|route, method, series| {
            series.duration.encode(durations.encode_family(&[("route", route), ("method", method)])?)
        })
    }
}
