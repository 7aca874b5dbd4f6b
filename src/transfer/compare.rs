//! Comparison of an existing thread with a file: equal if it has the same epoch and all events of the file.

use std::{collections::VecDeque, sync::Arc};

use super::error::TransferError;
use threadline_core::{Batch, ReadFrom, Seq, ThreadKey, limits::MAX_EVENT_PAGE};
use threadline_store::TransferStore;

/// Compares a log with batches that arrive in order.
pub struct Comparison<'s> {
    store: &'s dyn TransferStore,
    key: ThreadKey,
    /// Batches of the log that are read and not yet compared.
    ahead: VecDeque<Arc<Batch>>,
}

impl<'s> Comparison<'s> {
    /// Starts at the beginning of this thread's log.
    pub fn new(store: &'s dyn TransferStore, key: ThreadKey) -> Self {
        Self { store, key, ahead: VecDeque::new() }
    }

    /// Compares the log with the next batches. Returns the seq of the first event that differs.
    pub async fn next(&mut self, batches: &[Arc<Batch>]) -> Result<Option<Seq>, TransferError> {
        for batch in batches {
            let mut after = batch.first_seq - 1;
            while after < batch.last_seq {
                while self.ahead.front().is_some_and(|there| there.last_seq <= after) {
                    self.ahead.pop_front();
                }
                if self.ahead.is_empty() {
                    let page = self.store.read(self.key, ReadFrom::After(after), MAX_EVENT_PAGE).await?;
                    self.ahead.extend(page.map(|page| page.slice.0).unwrap_or_default());
                }
                let own = self.ahead.front().and_then(|there| there.between(after, batch.last_seq + 1));
                let Some(there) = own else { return Ok(Some(after + 1)) };
                if (&there.run, there.at) != (&batch.run, batch.at) {
                    return Ok(Some(after + 1));
                }
                let wanted = batch.events().skip((after + 1 - batch.first_seq) as usize);
                if let Some(((seq, _), _)) = there.events().zip(wanted).find(|(there, wanted)| there != wanted) {
                    return Ok(Some(seq));
                }
                after = there.last_seq;
            }
        }
        Ok(None)
    }
}
