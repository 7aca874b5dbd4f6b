//! Making handles: what is registered once is counted without looking anything up.

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Something that is there as long as this is held, counted by a gauge.
#[derive(Debug)]
pub struct Present(Gauge);

impl Present {
    /// One more.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A registry under construction.
#[derive(Default)]
pub(super) struct Register(pub Registry);

impl Register {
    /// Registers a metric, under a name that begins with ours.
    pub fn add<M: EncodeMetric + Clone + Send + Sync + std::fmt::Debug + 'static>(
        &mut self,
        name: &str,
        help: &str,
        metric: M,
    ) -> M {
        self.0.register(format!("threadline_{name}"), help, metric.clone());
        metric
    }

    /// A counter.
    pub fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.add(name, help, Counter::default())
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.add(name, help, Gauge::default())
    }

    /// A counter for each value of a label: all are there from the start, at 0.
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
