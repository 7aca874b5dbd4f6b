//! Memory of a node that all its clients share, and of which each stranger has at most a part: whoever holds on to what it
//! was given stands in its own way, and in nobody else's.

use std::{fmt, sync::Arc};

use dashmap::DashMap;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::Key;
use crate::domain::{Principal, limits::STRANGERS_PART};

/// Bytes that may be held at once. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<Shared>);

struct Shared {
    size: usize,
    /// What one stranger may hold.
    part: usize,
    free: Arc<Semaphore>,
    /// Of those strangers only who hold something or wait for it.
    strangers: DashMap<Key, Stranger>,
}

struct Stranger {
    free: Arc<Semaphore>,
    held: usize,
}

/// Who takes room: a stranger, or anybody else.
#[derive(Debug, Clone, Default)]
pub struct Taker(Option<Arc<Key>>);

impl Taker {
    /// Only who comes with a token is a stranger.
    pub fn of(principal: &Principal) -> Self {
        let user = principal.user.as_ref().filter(|_| principal.is_stranger());
        Self(user.map(|user| Arc::new(Key::User(principal.project.clone(), user.clone()))))
    }
}

/// There was no room in time, of which there is this much for the one who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub usize);

/// What was taken; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    room: Room,
    taker: Taker,
    /// The part of the stranger, from the first byte on that was asked for.
    part: Option<Arc<Semaphore>>,
    bytes: usize,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("size", &self.0.size).field("free", &self.free()).finish_non_exhaustive()
    }
}

impl Room {
    /// Room for this many bytes. A stranger has its part, but not less than `least`.
    pub fn new(size: usize, least: usize) -> Self {
        let size = size.min(Semaphore::MAX_PERMITS);
        let part = (size / STRANGERS_PART).max(least).min(size);
        Self(Arc::new(Shared { size, part, free: Arc::new(Semaphore::new(size)), strangers: DashMap::new() }))
    }

    /// A place for bytes, which holds none yet.
    pub fn place(&self, taker: &Taker) -> Held {
        Held { room: self.clone(), taker: taker.clone(), part: None, bytes: 0 }
    }

    /// Bytes that nobody holds.
    pub fn free(&self) -> usize {
        self.0.free.available_permits()
    }
}

impl Held {
    /// How much is held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most that this taker can ever hold.
    pub fn most(&self) -> usize {
        if self.taker.0.is_some() { self.room.0.part } else { self.room.0.size }
    }

    /// Takes this much more as soon as there is room. What is over a stranger's part waits for that stranger alone.
    pub async fn take(&mut self, more: usize, until: Instant) -> Result<(), Full> {
        let (size, most) = (self.room.0.size, self.most());
        let permits = u32::try_from(more).map_err(|_| Full(most))?;
        let own = match self.part() {
            Some(part) => Some(acquire(part, permits, until).await.ok_or(Full(most))?),
            None => None,
        };
        let all = acquire(self.room.0.free.clone(), permits, until).await.ok_or(Full(size))?;
        // From here on it is counted; if the future is dropped before, the permits go back by themselves.
        own.into_iter().chain([all]).for_each(OwnedSemaphorePermit::forget);
        self.bytes += more;
        Ok(())
    }

    /// Gives back what is held, and can take again.
    pub fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.room.0.free.add_permits(bytes);
        if let Some(part) = &self.part {
            part.add_permits(bytes);
        }
    }

    fn part(&mut self) -> Option<Arc<Semaphore>> {
        let key = self.taker.0.as_deref()?;
        let part = self.part.get_or_insert_with(|| {
            let new = || Stranger { free: Arc::new(Semaphore::new(self.room.0.part)), held: 0 };
            let mut stranger = self.room.0.strangers.entry(key.clone()).or_insert_with(new);
            stranger.held += 1;
            stranger.free.clone()
        });
        Some(part.clone())
    }
}

async fn acquire(room: Arc<Semaphore>, permits: u32, until: Instant) -> Option<OwnedSemaphorePermit> {
    // It is never closed.
    timeout_at(until, room.acquire_many_owned(permits)).await.ok()?.ok()
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
        if let (Some(key), Some(_)) = (&self.taker.0, &self.part) {
            let strangers = &self.room.0.strangers;
            if let Some(mut stranger) = strangers.get_mut(&**key) {
                stranger.held -= 1;
            }
            strangers.remove_if(&**key, |_, stranger| stranger.held == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;
    use crate::quota::tests::{key, stranger};

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_a_part_and_leaves_nothing_behind() {
        let room = Room::new(STRANGERS_PART * 100, 0);
        let soon = || Instant::now() + Duration::from_secs(1);
        let ann = Taker::of(&stranger("p", "ann"));
        let (mut first, mut second) = (room.place(&ann), room.place(&ann));
        assert_eq!(first.take(60, soon()).await, Ok(()));
        assert_eq!(second.take(60, soon()).await, Err(Full(100)));
        // Nobody else has to do with it.
        let mut others = Vec::new();
        for other in [stranger("p", "bob"), stranger("q", "ann"), key("p", Some("ann"))] {
            let mut held = room.place(&Taker::of(&other));
            assert_eq!(held.take(100, soon()).await, Ok(()), "{other:?}");
            others.push(held);
        }
        assert_eq!(others[2].most(), STRANGERS_PART * 100);
        // Who waits is let in as soon as there is room, and who has gone meanwhile keeps none.
        drop(room.place(&ann).take(50, soon()));
        let waiting = tokio::spawn(async move { second.take(60, soon()).await.map(|()| second) });
        tokio::task::yield_now().await;
        drop(first);
        let second = waiting.await.expect("no panic").expect("room");
        assert_eq!((second.bytes(), room.free()), (60, STRANGERS_PART * 100 - 360));
        drop((second, others));
        assert_eq!((room.free(), room.0.strangers.len()), (STRANGERS_PART * 100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn room_that_all_have_taken_costs_a_stranger_nothing_of_its_part() {
        let room = Room::new(STRANGERS_PART * 100, 100);
        let mut all = room.place(&Taker::default());
        assert_eq!(all.take(STRANGERS_PART * 100, Instant::now()).await, Ok(()));
        let mut held = room.place(&Taker::of(&stranger("p", "ann")));
        let until = Instant::now() + Duration::from_secs(1);
        assert_eq!(held.take(100, until).await, Err(Full(STRANGERS_PART * 100)));
        all.give_back();
        assert_eq!(held.take(100, until).await, Ok(()));
    }
}
