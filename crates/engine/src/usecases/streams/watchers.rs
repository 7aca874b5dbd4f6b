//! Readers that wait for writes of plain streams.
//!
//! A write of this node wakes them. For writes of other nodes, one of the readers of a stream reads its row from time
//! to time, for all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use threadline_core::streams::StreamKey;
use tokio::{sync::watch, time::Instant};

/// Newest known end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seen {
    pub(super) tail: u64,
    /// True once the stream is closed or gone: readers look at its row.
    pub(super) ended: bool,
}

#[derive(Debug)]
struct Watched {
    seen: watch::Sender<Seen>,
    readers: usize,
    polled: Instant,
}

type Map = Arc<Mutex<HashMap<StreamKey, Watched>>>;

/// Streams that somebody waits for on this node.
#[derive(Debug, Clone, Default)]
pub(super) struct Watchers(Map);

/// A reader that waits. Dropped when it leaves.
#[derive(Debug)]
pub(super) struct Watcher {
    map: Map,
    key: StreamKey,
    seen: watch::Receiver<Seen>,
}

fn locked(map: &Map) -> MutexGuard<'_, HashMap<StreamKey, Watched>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchers {
    /// Begins to watch a stream. What is written from now on wakes the watcher.
    pub(super) fn watch(&self, key: StreamKey) -> Watcher {
        let mut map = locked(&self.0);
        let watched = map.entry(key).or_insert_with(|| Watched {
            seen: watch::Sender::new(Seen::default()),
            readers: 0,
            polled: Instant::now(),
        });
        watched.readers += 1;
        Watcher { map: self.0.clone(), key, seen: watched.seen.subscribe() }
    }

    /// Wakes the readers of a stream whose end is beyond the one that they know.
    pub(super) fn note(&self, key: StreamKey, news: Seen) {
        if let Some(watched) = locked(&self.0).get(&key) {
            watched.seen.send_if_modified(|seen| {
                let merged = Seen { tail: seen.tail.max(news.tail), ended: seen.ended || news.ended };
                std::mem::replace(seen, merged) != merged
            });
        }
    }
}

impl Watcher {
    /// Waits until the stream has data after a position, or has ended.
    pub(super) async fn passed(&mut self, after: u64) {
        // The sender is dropped after the last watcher.
        let _ = self.seen.wait_for(|seen| seen.tail > after || seen.ended).await;
    }

    /// True if this reader is to look at the row for all of them now.
    pub(super) fn takes_poll(&self, every: Duration) -> bool {
        let mut map = locked(&self.map);
        let Some(watched) = map.get_mut(&self.key) else { return false };
        let due = watched.polled.elapsed() >= every;
        if due {
            watched.polled = Instant::now();
        }
        due
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut map = locked(&self.map);
        if let Some(watched) = map.get_mut(&self.key) {
            watched.readers -= 1;
            if watched.readers == 0 {
                map.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use threadline_core::limits::STREAM_POLL;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readers_wake_for_what_is_new_to_them_and_leave_nothing() {
        let watchers = Watchers::default();
        let key = StreamKey(1);
        let (mut one, mut other) = (watchers.watch(key), watchers.watch(key));
        watchers.note(key, Seen { tail: 5, ended: false });
        one.passed(4).await;
        let waits = tokio::time::timeout(STREAM_POLL, other.passed(5)).await;
        assert!(waits.is_err(), "nothing is new");
        // One of them looks again for all.
        assert_eq!([&one, &other].map(|reader| reader.takes_poll(STREAM_POLL)), [true, false]);
        watchers.note(key, Seen { tail: 3, ended: true });
        other.passed(5).await;
        drop((one, other));
        assert!(locked(&watchers.0).is_empty());
        watchers.note(key, Seen { tail: 9, ended: false });
    }
}
