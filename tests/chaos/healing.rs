//! Producers after a failover that lost commits. Events are a function of their number, so a producer has kept them all,
//! and sends again what the store has lost.

use tokio::time::{Instant, timeout};

use crate::{
    history::{What, lines},
    producers::{Producer, Step},
    world::PATIENCE,
};

/// Most events that are sent again at once.
const PIECE: u64 = 500;

/// Part of a run that the store has.
pub enum Standing {
    /// The run is active and has so many events.
    Stored(u64),
    /// The run is not there.
    Lost,
    /// The run has ended, or no node says what became of it.
    Over,
}

/// True if a refusal means that the store has lost events of the run, or the run as a whole. The checker judges whether
/// a failover explains it.
pub fn is_lost(slug: &str) -> bool {
    matches!(slug, "producer-seq-gap" | "run-not-found")
}

impl Producer {
    /// Sends the events again that are missing before event `next`; false if the run is over.
    pub async fn send_lost(&mut self, next: u64) -> bool {
        let began = Instant::now();
        loop {
            let from = match self.standing().await {
                Standing::Stored(stored) => stored + 1,
                Standing::Lost if self.start().await => 1,
                Standing::Lost | Standing::Over => return false,
            };
            if from >= next {
                return true;
            }
            let count = (next - from).min(PIECE);
            let what = What::Append { from, count, terminal: false };
            let step = self.try_append(what, &lines(&self.run, from, count, false)).await;
            if step == Some(Step::Over) || !self.caller.again(began).await {
                return false;
            }
        }
    }

    /// Asks until a node answers.
    pub async fn standing(&mut self) -> Standing {
        let began = Instant::now();
        loop {
            match timeout(PATIENCE, self.caller.client().run_record(&self.thread, &self.run)).await {
                Ok(Ok(record)) if record.status.is_active() => return Standing::Stored(record.producer_seq),
                Ok(Ok(_)) => return Standing::Over,
                Ok(Err(error)) if error.problem("run-not-found").is_some() => return Standing::Lost,
                _ => self.caller.hop(),
            }
            if !self.caller.again(began).await {
                return Standing::Over;
            }
        }
    }
}
