//! Repair of a run whose events the server has lost.

use super::{Producer, Target};
use crate::{ClientError, EventQuery};

impl Producer {
    /// Handles a refusal that a loss of events at the server explains: what it has lost is sent again next. False if the
    /// error has another cause.
    pub(super) async fn heal(&mut self, error: &ClientError) -> Result<bool, ClientError> {
        if let Some(gap) = error.problem("producer-seq-gap") {
            let Some(expected) = gap.number("expected").filter(|expected| *expected <= self.acknowledged) else {
                return Ok(false);
            };
            self.rewind(expected)?;
            return Ok(true);
        }
        if error.problem("run-not-found").is_none() || !self.is_known().await? {
            return Ok(false);
        }
        // The whole run is lost, and its thread is not.
        if self.sent.first().unwrap_or(self.next) > 1 {
            return Err(self.cannot_heal(1));
        }
        let Target { client, thread, .. } = &*self.target;
        let started = client.begin(thread, &self.start).await?;
        if !started.run.status.is_active() {
            return Ok(false);
        }
        let stored = started.run.producer_seq;
        self.started = started;
        if stored < self.acknowledged {
            self.rewind(stored + 1)?;
        }
        Ok(true)
    }

    /// True if the server knows the log in which the run began, perhaps without its newest events; false if the thread
    /// was deleted and created again.
    async fn is_known(&self) -> Result<bool, ClientError> {
        let Target { client, thread, .. } = &*self.target;
        let query = &EventQuery {
            after: Some(self.started.cursor),
            epoch: Some(self.started.epoch.clone()),
            limit: Some(1),
            ..EventQuery::default()
        };
        match client.retrying(|| client.events(thread, query)).await {
            Ok(_) => Ok(true),
            Err(error) => match error.problem("log-replaced") {
                Some(replaced) => Ok(replaced.common_cursor().is_some()),
                None => Err(error),
            },
        }
    }

    /// Has the acknowledged events from this number on sent again.
    pub(super) fn rewind(&mut self, from: u64) -> Result<(), ClientError> {
        // A producer that repeats stored events may not have come to the lost ones yet.
        if from < self.next {
            if self.sent.from(from).is_none() {
                return Err(self.cannot_heal(from));
            }
            self.lost_from = Some(from);
        }
        self.acknowledged = from - 1;
        Ok(())
    }

    pub(super) fn cannot_heal(&self, from: u64) -> ClientError {
        ClientError::EventsLost { run: self.target.run.clone(), from, kept: self.sent.first().unwrap_or(self.next) }
    }
}
