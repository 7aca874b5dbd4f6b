//! Medians of interleaved pairs: Threadline and the bare program in turn, so that a busy moment affects both.

use std::time::{Duration, Instant};

use super::BenchError;

/// Measurements of Threadline and of the bare program, taken in pairs.
#[derive(Debug, Default)]
pub struct Pairs {
    ours: Vec<f64>,
    bare: Vec<f64>,
}

impl Pairs {
    /// Adds one pair of measurements.
    pub fn push(&mut self, ours: f64, bare: f64) {
        self.ours.push(ours);
        self.bare.push(bare);
    }

    /// Median of Threadline's measurements.
    pub fn ours(&self) -> f64 {
        median(self.ours.iter().copied())
    }

    /// Median of the bare program's measurements.
    pub fn bare(&self) -> f64 {
        median(self.bare.iter().copied())
    }

    /// Median of the ratios of Threadline to the bare program, pair by pair.
    pub fn ratio(&self) -> f64 {
        median(self.ours.iter().zip(&self.bare).map(|(ours, bare)| ours / bare))
    }
}

/// Duration of an operation.
pub async fn timed(what: impl AsyncFnOnce() -> Result<(), BenchError>) -> Result<Duration, BenchError> {
    let start = Instant::now();
    what().await?;
    Ok(start.elapsed())
}

/// Median of some numbers; 0 if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (len, middle) if len % 2 == 1 => values[middle],
        (_, middle) => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Percentile of some durations, in microseconds; `at` is a fraction of 1.
pub fn percentile_us(durations: &mut [Duration], at: f64) -> f64 {
    durations.sort_unstable();
    let index = ((durations.len() as f64 * at) as usize).min(durations.len().saturating_sub(1));
    durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_pairs() {
        let mut pairs = Pairs::default();
        for (ours, bare) in [(1.0, 2.0), (9.0, 3.0), (4.0, 4.0)] {
            pairs.push(ours, bare);
        }
        assert_eq!((pairs.ours(), pairs.bare(), pairs.ratio()), (4.0, 3.0, 1.0));
        assert_eq!(median([]), 0.0);
        assert_eq!(median([1.0, 2.0]), 1.5);
        assert_eq!(percentile_us(&mut [Duration::from_micros(5), Duration::from_micros(3)], 0.5), 5.0);
    }
}
