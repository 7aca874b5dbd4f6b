//! Damage of the database file that a statement met. SQLite reports it to this statement alone, and the next one may
//! meet sound pages only.

use std::sync::OnceLock;

use super::fetch::{Failure, Work};
use crate::StoreError;

/// The first damage that a statement of this process met. Damage does not go away: only a restart forgets it.
#[derive(Debug, Default)]
pub(super) struct Soundness(OnceLock<String>);

impl Soundness {
    /// Passes on the result of a statement, and remembers the damage that it tells.
    pub(super) fn seen<T>(&self, result: Work<T>) -> Work<T> {
        if let Err(Failure { error: StoreError::Corrupt(reason), damaged: true, .. }) = &result
            && self.0.set(reason.clone()).is_ok()
        {
            tracing::error!(
                reason,
                "the database file is damaged: this node is not ready any more; stop it, run `threadline verify`, and restore a backup"
            );
        }
        result
    }

    /// An error once damage was met.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.get() {
            Some(reason) => Err(StoreError::Corrupt(reason.clone())),
            None => Ok(()),
        }
    }
}
