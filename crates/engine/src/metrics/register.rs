//! Registration of metrics: a metric registered once is counted without a lookup.

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Guard that counts as one in a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// Adds one to the gauge, until the drop.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A registry under construction.
#[derive(Default)]
pub(super) struct Register(pub Registry);

impl Register {
    /// Registers a metric under a name with the prefix `threadline_`.
    pub fn add<M: EncodeMetric + Clone + Send + Sync + std::fmt::Debug + 'static>(
        &mut self,
        name: &str,
        help: &str,
        metric: M,
    ) -> M {
        self.0.register(format!("threadline_{name}"), help, metric.clone());
        metric
    }

    /// Registers a counter that starts at 0.
    pub fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.add(name, help, Counter::default())
    }

    /// Registers a gauge that starts at 0.
    pub fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(name, help, Gauge::default())
    }

    /// Registers one counter for each value of a label; all exist from the start, at 0.
    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        values: [&'static str; N],
    ) -> [Counter; N] {
        let family = self.add(name, help, Family::<[(&str, &str); 1], Counter>::default());
        values.map(|value| family.get_or_create_owned(&[(label, value)]))
    }
}
