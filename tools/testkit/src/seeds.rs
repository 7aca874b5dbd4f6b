//! Seeds of a test: their number, or a single one, and the seed of a failed test.

/// Returns the seeds to run: `1..=count`, as many as in `THREADLINE_SEEDS`, or the single one in `THREADLINE_SEED`.
pub fn seeds(count: u64) -> Vec<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    match number("THREADLINE_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("THREADLINE_SEEDS").unwrap_or(count)).collect(),
    }
}

/// Prints the seed if the test panics.
pub struct Announce(pub u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with THREADLINE_SEED={}", self.0);
        }
    }
}
