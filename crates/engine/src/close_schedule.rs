//! Times at which a node that shuts down closes its sockets and streams: one after another, so that their clients do not
//! reach the other nodes all at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

/// Fractional part of the golden ratio, in units of 2^-64. Its multiples divide a circle evenly, however many there are.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Schedule of one node. Clones share it.
#[derive(Debug, Clone)]
pub struct CloseSchedule {
    shared: Arc<Shared>,
    /// Cancelled when everything must be closed.
    draining: CancellationToken,
}

#[derive(Debug, Default)]
struct Shared {
    /// Beginning and length of the time in which connections are closed, once it has begun.
    window: watch::Sender<Option<(Instant, Duration)>>,
    turns: AtomicU64,
}

impl CloseSchedule {
    /// Schedule in which every turn comes at the latest when the node is draining.
    pub fn new(draining: CancellationToken) -> Self {
        Self { shared: Arc::default(), draining }
    }

    /// Begins to close sockets and streams, over a time.
    pub fn begin(&self, spread: Duration) {
        self.shared.window.send_replace(Some((Instant::now(), spread)));
    }

    /// Turn of one more socket or stream.
    pub fn turn(&self) -> CloseTurn {
        let number = self.shared.turns.fetch_add(1, Ordering::Relaxed);
        let share = number.wrapping_mul(GOLDEN) as f64 / u64::MAX as f64;
        CloseTurn { window: self.shared.window.subscribe(), draining: self.draining.clone(), share }
    }
}

/// Turn of a socket or stream to be closed.
#[derive(Debug)]
pub struct CloseTurn {
    window: watch::Receiver<Option<(Instant, Duration)>>,
    draining: CancellationToken,
    /// Share of the time that passes before the turn, from 0 to 1.
    share: f64,
}

impl CloseTurn {
    /// Completes when the turn has come. May be dropped and called again.
    pub async fn comes(&mut self) {
        let Self { window, draining, share } = self;
        let scheduled = async {
            // An error means that the node has ended, and with it the drain.
            let begun = window.wait_for(Option::is_some).await.ok().and_then(|window| *window);
            match begun {
                Some((at, spread)) => time::sleep_until(at + spread.mul_f64(*share)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = scheduled => {}
            () = draining.cancelled() => {}
        }
    }

    /// Completes when everything must be closed.
    pub async fn last_call(&self) {
        self.draining.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_spread_evenly_over_the_time() {
        let schedule = CloseSchedule::new(CancellationToken::new());
        let mut turns: Vec<_> = (0..100).map(|_| schedule.turn()).collect();
        let begun = Instant::now();
        schedule.begin(Duration::from_secs(10));
        let mut each_second = [0; 10];
        for turn in &mut turns {
            // Later turns are in the past by then, and keep their place.
            let due = Duration::from_secs(10).mul_f64(turn.share);
            turn.comes().await;
            assert!(begun.elapsed() >= due);
            each_second[due.as_secs() as usize] += 1;
        }
        assert!(begun.elapsed() < Duration::from_millis(10_002));
        assert!(each_second.iter().all(|turns| (8..=12).contains(turns)), "{each_second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn every_turn_has_come_once_the_node_is_draining() {
        let draining = CancellationToken::new();
        let schedule = CloseSchedule::new(draining.clone());
        let mut turns = [schedule.turn(), schedule.turn(), schedule.turn()];
        schedule.begin(Duration::from_secs(600));
        turns[0].comes().await;
        let early = time::timeout(Duration::from_secs(60), turns[1].comes()).await;
        assert!(early.is_err());
        draining.cancel();
        let begun = Instant::now();
        for turn in &mut turns {
            turn.comes().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
