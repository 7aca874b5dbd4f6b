//! Readers that wait for writes of plain streams.
//!
//! A write of this node wakes them, and a hint of the bus those on other nodes. A hint may be lost: one of the readers of a
//! stream reads its row from time to time, for all of them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use threadline_core::{
    limits::{STREAM_POLL, STREAM_READS, STREAM_RECHECK},
    streams::StreamKey,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};

use crate::cluster::bus::{Channel, DynBus, Hint, StreamNews};

/// Reason for readers to look at the row of their stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct News {
    seen: StreamNews,
    /// Times that hints may have been missed, counted.
    missed: u64,
}

#[derive(Debug)]
struct Watched {
    news: watch::Sender<News>,
    readers: usize,
    polled: Instant,
    /// Permits of readers that read a page.
    turns: Arc<Semaphore>,
}

/// Streams that somebody waits for on this node. The bus delivers hints of exactly these.
#[derive(Clone)]
pub(crate) struct StreamWatchers(Arc<Shared>);

struct Shared {
    bus: DynBus,
    map: Mutex<HashMap<StreamKey, Watched>>,
}

/// A reader that waits. Dropped when it leaves.
pub(super) struct Watcher {
    watchers: StreamWatchers,
    key: StreamKey,
    news: watch::Receiver<News>,
    /// News that the reader has looked at its row for.
    looked: News,
    turns: Arc<Semaphore>,
}

impl StreamWatchers {
    pub(crate) fn new(bus: DynBus) -> Self {
        Self(Arc::new(Shared { bus, map: Mutex::default() }))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<StreamKey, Watched>> {
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch a stream. Writes from now on wake the watcher.
    pub(super) fn watch(&self, key: StreamKey) -> Watcher {
        let mut map = self.locked();
        let watched = map.entry(key).or_insert_with(|| {
            self.0.bus.listen(Channel::Stream(key));
            let (news, turns) = (watch::Sender::new(News::default()), Arc::new(Semaphore::new(STREAM_READS)));
            Watched { news, readers: 0, polled: Instant::now(), turns }
        });
        watched.readers += 1;
        let news = watched.news.subscribe();
        let looked = *news.borrow();
        let turns = watched.turns.clone();
        Watcher { watchers: self.clone(), key, news, looked, turns }
    }

    /// Wakes the readers of a stream that was written, on all nodes.
    pub(super) fn written(&self, key: StreamKey, seen: StreamNews) {
        self.note(key, seen);
        self.0.bus.tell(Hint::Stream(key, seen));
    }

    /// Wakes the readers of a stream on this node whose end is beyond the one that they know.
    pub(crate) fn note(&self, key: StreamKey, seen: StreamNews) {
        if let Some(watched) = self.locked().get(&key) {
            watched.news.send_if_modified(|news| {
                let merged = StreamNews { tail: news.seen.tail.max(seen.tail), ended: news.seen.ended || seen.ended };
                std::mem::replace(&mut news.seen, merged) != merged
            });
        }
    }

    /// Has the readers of a stream look at its row: hints may have been missed.
    pub(crate) fn look(&self, key: StreamKey) {
        if let Some(watched) = self.locked().get(&key) {
            watched.news.send_modify(|news| news.missed += 1);
        }
    }

    /// Has the readers of all streams look at their rows.
    pub(crate) fn look_everywhere(&self) {
        for watched in self.locked().values() {
            watched.news.send_modify(|news| news.missed += 1);
        }
    }
}

impl Watcher {
    /// Waits until the reader may read a page. The semaphore is never closed.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }

    /// Waits until there is a reason to look at the row: data after a position, the end, or a hint that may have been missed. A
    /// reason counts once, since a hint may be wrong.
    pub(super) async fn passed(&mut self, after: u64) {
        loop {
            let News { seen, missed } = *self.news.borrow_and_update();
            let is_news = seen != self.looked.seen && (seen.tail > after || seen.ended);
            if is_news || missed != self.looked.missed {
                self.looked = News { seen, missed };
                return;
            }
            // The sender is dropped after the last watcher.
            let _ = self.news.changed().await;
        }
    }

    /// Time between two looks at the row for all readers of this node.
    pub(super) fn poll(&self) -> Duration {
        if self.watchers.0.bus.has_others() { STREAM_POLL } else { STREAM_RECHECK }
    }

    /// True if this reader is to look at the row for all of them now.
    pub(super) fn takes_poll(&self) -> bool {
        let every = self.poll();
        let mut map = self.watchers.locked();
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
        let mut map = self.watchers.locked();
        if let Some(watched) = map.get_mut(&self.key) {
            watched.readers -= 1;
            if watched.readers == 0 {
                map.remove(&self.key);
                self.watchers.0.bus.ignore(&Channel::Stream(self.key));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::cluster::bus::{BusMessage, local::LocalBus};

    #[tokio::test(start_paused = true)]
    async fn readers_wake_for_what_is_new_to_them_and_leave_nothing() {
        let watchers = StreamWatchers::new(LocalBus::default().join().bus);
        let key = StreamKey(1);
        let (mut one, mut other) = (watchers.watch(key), watchers.watch(key));
        watchers.note(key, StreamNews { tail: 5, ended: false });
        one.passed(4).await;
        assert!(timeout(STREAM_RECHECK, other.passed(5)).await.is_err(), "nothing is new");
        // One of them looks again for all.
        assert_eq!([&one, &other].map(Watcher::takes_poll), [true, false]);
        watchers.note(key, StreamNews { tail: 3, ended: true });
        other.passed(5).await;
        drop((one, other));
        assert!(watchers.locked().is_empty());
        watchers.note(key, StreamNews { tail: 9, ended: false });
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_or_missed_hint_is_looked_at_once() {
        let watchers = StreamWatchers::new(LocalBus::default().join().bus);
        let key = StreamKey(1);
        let mut reader = watchers.watch(key);
        // The row has 5: its reader waits for more, and has looked for nothing.
        watchers.note(key, StreamNews { tail: 7, ended: false });
        reader.passed(5).await;
        assert!(timeout(STREAM_POLL, reader.passed(5)).await.is_err(), "the same hint again");
        watchers.look(key);
        reader.passed(5).await;
        assert!(timeout(STREAM_POLL, reader.passed(5)).await.is_err());
        watchers.look_everywhere();
        reader.passed(5).await;
        watchers.note(key, StreamNews { tail: 8, ended: false });
        reader.passed(5).await;
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_heard_on_other_nodes() {
        let net = LocalBus::default();
        let (writer, mut end) = (StreamWatchers::new(net.join().bus), net.join());
        let (key, news) = (StreamKey(1), StreamNews { tail: 5, ended: false });
        writer.written(key, news);
        assert_eq!(end.heard.recv().await, Some(BusMessage::Hint(Hint::Stream(key, news))));
    }
}
