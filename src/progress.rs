//! One line on the terminal that says how far something is.

use std::{
    io::{IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Time between two looks of a bar.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of a bar.
const WIDTH: usize = 24;

/// Shows on standard error what is going on, if that is a terminal.
#[derive(Debug)]
pub struct Progress {
    on: bool,
    last: Mutex<Option<Instant>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { on: std::io::stderr().is_terminal(), last: Mutex::new(None) }
    }
}

impl Progress {
    /// Never shows anything.
    pub fn silent() -> Self {
        Self { on: false, last: Mutex::new(None) }
    }

    /// Shows this, in the place of what was shown before.
    pub fn show(&self, what: &str) {
        if self.on {
            let mut out = std::io::stderr();
            // A terminal that is gone needs no progress.
            let _ = write!(out, "{}{what} …", self.start()).and_then(|()| out.flush());
        }
    }

    /// Shows a bar and what it stands for, unless it has just been shown.
    pub fn bar(&self, done: u64, total: u64, what: impl FnOnce() -> String) {
        if !self.on {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= PAUSE) {
            *last = Some(Instant::now());
            let mut out = std::io::stderr();
            let _ = write!(out, "{}{} {}", self.start(), bar(done, total), what()).and_then(|()| out.flush());
        }
    }

    /// Takes away what is shown.
    pub fn clear(&self) {
        if self.on {
            let _ = write!(std::io::stderr(), "{}", self.start());
        }
    }

    /// What begins a line that takes the place of the progress.
    pub fn start(&self) -> &'static str {
        if self.on { "\r\x1b[K" } else { "" }
    }
}

fn bar(done: u64, total: u64) -> String {
    let part = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let full = (part * WIDTH as f64) as usize;
    format!("[{}{}] {:>3.0} %", "█".repeat(full), "░".repeat(WIDTH - full), (part * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_at_the_end_and_not_before() {
        assert_eq!(bar(0, 10), format!("[{}]   0 %", "░".repeat(24)));
        assert_eq!(bar(5, 10), format!("[{}{}]  50 %", "█".repeat(12), "░".repeat(12)));
        assert!(bar(9_999, 10_000).ends_with("] 99 %") || bar(9_999, 10_000).ends_with("]  99 %"));
        for (done, total) in [(10, 10), (11, 10), (0, 0)] {
            assert_eq!(bar(done, total), format!("[{}] 100 %", "█".repeat(24)));
        }
    }
}
