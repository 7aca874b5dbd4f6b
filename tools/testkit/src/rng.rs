//! Repeatable random numbers (SplitMix64).

/// Returns the seed in `THREADLINE_SEED`, or a new one. The seed is printed.
pub fn seed() -> u64 {
    let given = std::env::var("THREADLINE_SEED").ok();
    let seed = match given {
        Some(text) => text.parse().expect("THREADLINE_SEED is a number"),
        None => {
            u64::from(std::process::id()) ^ (std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_micros() as u64)
        }
    };
    println!("seed {seed}: THREADLINE_SEED={seed} repeats its choices");
    seed
}

#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        rng.draw();
        rng
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// Number in `1..=2^bits`; small numbers are as likely as large ones.
    pub fn spread(&mut self, bits: u64) -> u64 {
        let high = self.between(0, bits);
        self.between(1, 1 << high)
    }
}
