//! Free space of the file system with the data: what is left is for closing, deleting and erasing.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use threadline_core::limits::{
    STORAGE_CHECK, STORAGE_FULL_BYTES, STORAGE_FULL_PERCENT, STORAGE_LOW_BYTES, STORAGE_LOW_PERCENT,
};

use crate::lifecycle::Lifecycle;

/// Space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that are free for this process.
    pub free: u64,
    /// Bytes of the file system.
    pub total: u64,
}

/// Measures the space of the file system with the data. May block for a moment.
pub type SpaceProbe = Arc<dyn Fn() -> io::Result<Space> + Send + Sync>;

/// Space that was measured last; none if the store is not on a file system of this node, or nothing was measured yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct FreeSpace(Arc<Mutex<Option<Space>>>);

impl Space {
    /// Free bytes below which a client is refused.
    fn least(self, untrusted: bool) -> u64 {
        let (percent, bytes) = if untrusted {
            (STORAGE_LOW_PERCENT, STORAGE_LOW_BYTES)
        } else {
            (STORAGE_FULL_PERCENT, STORAGE_FULL_BYTES)
        };
        (self.total / 100).saturating_mul(percent).min(bytes)
    }
}

impl FreeSpace {
    fn space(&self) -> Option<Space> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, space: Space) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(space);
    }

    /// Free bytes; `None` if they are not measured.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.space().map(|space| space.free)
    }

    /// Bytes of which fewer are free, so that a client is refused.
    pub(super) fn missing(&self, untrusted: bool) -> Option<u64> {
        let space = self.space()?;
        let least = space.least(untrusted);
        (space.free < least).then_some(least)
    }
}

/// Loop that measures the free space.
pub(crate) async fn run(free: FreeSpace, probe: SpaceProbe, lifecycle: Lifecycle) {
    let mut ticks = lifecycle.every(STORAGE_CHECK);
    let mut refused = false;
    while ticks.next().await {
        let probe = probe.clone();
        let measured = tokio::task::spawn_blocking(move || probe()).await.map_err(io::Error::other).flatten();
        match measured {
            Ok(space) => free.set(space),
            Err(error) => {
                tracing::warn!(%error, "cannot measure the free space of the data directory; retrying");
                continue;
            }
        }
        let (low, full) = (free.missing(true), free.missing(false));
        if low.is_some() && !refused {
            let free = free.bytes().unwrap_or(0);
            tracing::error!(free, full = full.is_some(), "little space is left for the data: clients are refused");
        } else if low.is_none() && refused {
            tracing::info!("the data has space again");
        }
        refused = low.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1_024 * 1_024 * 1_024;

    #[test]
    fn untrusted_clients_are_refused_first() {
        let free = FreeSpace::default();
        assert_eq!((free.missing(true), free.missing(false), free.bytes()), (None, None, None));
        // A small disk is judged by its percentage, a large one by bytes.
        for (total, low, full) in [(10 * GIB, GIB, GIB / 2), (1_000 * GIB, 2 * GIB, GIB)] {
            for (left, refused) in [(low + 100, [false, false]), (low - 100, [true, false]), (full - 100, [true, true])]
            {
                free.set(Space { free: left, total });
                let missing = [true, false].map(|untrusted| free.missing(untrusted).is_some());
                assert_eq!(missing, refused, "{left} of {total}");
            }
        }
    }
}
