//! Progress of a command, on one line of the terminal.

use std::{
    io::{IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Least time between two updates of a bar.
const PAUSE: Duration = Duration::from_millis(100);
/// Width of a bar, in characters.
const WIDTH: usize = 24;

/// Shows progress on standard error, if that is a terminal.
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
    /// Progress that is never shown.
    pub fn silent() -> Self {
        Self { on: false, last: Mutex::new(None) }
    }

    /// Shows a text in place of the previous progress.
    pub fn show(&self, what: &str) {
        if self.on {
            let mut out = std::io::stderr();
            // Errors are ignored: a closed terminal needs no progress.
            let _ = write!(out, "{}{what} …", self.start()).and_then(|()| out.flush());
        }
    }

    /// Shows a bar with a text, at most once per `PAUSE`.
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

    /// Clears the line of the progress.
    pub fn clear(&self) {
        if self.on {
            let _ = write!(std::io::stderr(), "{}", self.start());
        }
    }

    /// Prefix of a line that replaces the progress.
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
