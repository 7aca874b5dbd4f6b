//! Histogram of atomics: an observation takes no lock, so that thousands of readers may observe at once.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

/// Bounds in seconds, from less than a commit to the longest wait: two or three a decade.
pub const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Powers of two, up to what one group commit may hold.
pub const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Observations counted by size. Cheap to clone; the clones share their values.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: &'static [f64],
    /// One count for each bound, and one for values larger than all bounds.
    counts: Box<[AtomicU64]>,
    /// Sum in whole units; observations are rounded down to them.
    sum: AtomicU64,
    /// Number of internal units in one exposed unit.
    units: f64,
}

impl Histogram {
    /// Histogram of times, exposed in seconds.
    pub fn of_times() -> Self {
        Self::new(SECONDS, 1e9)
    }

    /// Histogram of counts of items.
    pub fn of_sizes() -> Self {
        Self::new(SIZES, 1.0)
    }

    fn new(bounds: &'static [f64], units: f64) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0), units }))
    }

    /// Counts a time, in a histogram of times.
    pub fn time(&self, took: Duration) {
        self.observe(took.as_secs_f64(), u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts a number, in a histogram of sizes.
    pub fn size(&self, size: usize) {
        self.observe(size as f64, size as u64);
    }

    fn observe(&self, value: f64, units: u64) {
        let place = self.0.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.0.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
            self.0.sum.fetch_add(units, Ordering::Relaxed);
        }
    }

    /// Number of observations since the start.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.0.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        // Sum of the counts read above, so that it equals the last bucket while other threads observe.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.0.sum.load(Ordering::Relaxed) as f64 / self.0.units;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    #[test]
    fn observations_fall_into_the_first_bucket_that_holds_them() {
        let histogram = Histogram::of_sizes();
        for size in [0, 1, 2, 3, 4, 5_000] {
            histogram.size(size);
        }
        assert_eq!(histogram.count(), 6);
        let mut registry = Registry::default();
        registry.register("h", "H", histogram);
        let times = Histogram::of_times();
        times.time(Duration::from_millis(1));
        times.time(Duration::from_secs(60));
        registry.register("t", "T", times);
        let mut text = String::new();
        text::encode(&mut text, &registry).expect("text");
        for line in [
            "h_bucket{le=\"1.0\"} 2",
            "h_bucket{le=\"2.0\"} 3",
            "h_bucket{le=\"4.0\"} 5",
            "h_bucket{le=\"1024.0\"} 5",
            "h_bucket{le=\"+Inf\"} 6",
            "h_count 6",
            "h_sum 5010.0",
            "t_bucket{le=\"0.0005\"} 0",
            "t_bucket{le=\"0.001\"} 1",
            "t_bucket{le=\"30.0\"} 1",
            "t_bucket{le=\"+Inf\"} 2",
            "t_sum 60.001",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
