//! Whether a thread that is there already is the one of a file: of the same epoch, and with all of its events.

use std::sync::Arc;

use super::MovingError;
use crate::{
    domain::{Batch, LogSlice, Seq, ThreadKey, limits::MAX_EVENT_PAGE},
    store::{ReadFrom, TransferStore},
};

/// Compares a log with batches that come in order.
pub struct Comparison<'s> {
    store: &'s dyn TransferStore,
    key: ThreadKey,
    page: LogSlice,
}

impl<'s> Comparison<'s> {
    /// With the log of this thread.
    pub fn new(store: &'s dyn TransferStore, key: ThreadKey) -> Self {
        Self { store, key, page: LogSlice::default() }
    }

    /// Where the log differs from the next batches: the seq of the first event that is not the same.
    pub async fn next(&mut self, batches: &[Arc<Batch>]) -> Result<Option<Seq>, MovingError> {
        for batch in batches {
            let mut after = batch.first_seq - 1;
            while after < batch.last_seq {
                if self.page.last_seq().is_none_or(|last| last <= after) {
                    let page = self.store.read(self.key, ReadFrom::After(after), MAX_EVENT_PAGE).await?;
                    self.page = page.map(|page| page.slice).unwrap_or_default();
                }
                let own = self.page.between(after, batch.last_seq + 1);
                let Some(last) = own.last_seq() else { return Ok(Some(after + 1)) };
                let same = own.events().zip(batch.events().skip((after + 1 - batch.first_seq) as usize));
                for ((seq, event, there), (expected, wanted)) in same {
                    if seq != expected || event != wanted || (&there.run, there.at) != (&batch.run, batch.at) {
                        return Ok(Some(expected));
                    }
                }
                after = last;
            }
        }
        Ok(None)
    }
}
