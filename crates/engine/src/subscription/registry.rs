//! Shared values that live as long as they are held, found by key.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    hash::Hash,
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use tokio::sync::Notify;

/// Map of shared values; each value is removed when its last [`RegistryGuard`] is dropped.
#[derive(Debug)]
pub struct Registry<K: Ord + Hash, V> {
    shared: Arc<Shared<K, V>>,
}

#[derive(Debug)]
struct Shared<K: Ord + Hash, V> {
    entries: DashMap<K, Arc<Entry<V>>>,
    /// Keys that were added or removed since the last call of [`Registry::changed`].
    changed: Mutex<BTreeSet<K>>,
    changes: Notify,
}

impl<K: Ord + Hash, V> Shared<K, V> {
    fn note(&self, key: K) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        self.changes.notify_one();
    }
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    holders: AtomicUsize,
}

/// Reference to a value of a [`Registry`]; keeps the value in the map.
#[derive(Debug)]
pub struct RegistryGuard<K: Ord + Hash + Clone, V> {
    key: K,
    entry: Arc<Entry<V>>,
    shared: Arc<Shared<K, V>>,
}

impl<K: Ord + Hash, V> Default for Registry<K, V> {
    fn default() -> Self {
        let shared = Shared { entries: DashMap::new(), changed: Mutex::default(), changes: Notify::new() };
        Self { shared: Arc::new(shared) }
    }
}

impl<K: Ord + Hash + Clone, V> Registry<K, V> {
    /// Holds the value of this key, and makes it if it is not held.
    pub fn hold(&self, key: K, make: impl FnOnce() -> V) -> RegistryGuard<K, V> {
        let mut new = false;
        let slot = self.shared.entries.entry(key.clone());
        let entry = slot.or_insert_with(|| {
            new = true;
            Arc::new(Entry { value: make(), holders: AtomicUsize::new(0) })
        });
        // The count grows while the map's shard is locked, so that `RegistryGuard::drop` cannot remove the entry in between.
        entry.holders.fetch_add(1, Ordering::Relaxed);
        let held = RegistryGuard { key: key.clone(), entry: entry.clone(), shared: self.shared.clone() };
        drop(entry);
        if new {
            self.shared.note(key);
        }
        held
    }

    /// Waits until keys are added or removed, and returns them; [`Registry::is_held`] says which of the two. One caller
    /// only.
    pub async fn changed(&self) -> Vec<K> {
        loop {
            let changed = std::mem::take(&mut *self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner));
            if !changed.is_empty() {
                return changed.into_iter().collect();
            }
            self.shared.changes.notified().await;
        }
    }

    /// True if the value of this key is held.
    pub fn is_held(&self, key: &K) -> bool {
        self.shared.entries.contains_key(key)
    }

    /// Reads the value of this key, if it is held.
    pub fn with<T>(&self, key: &K, look: impl FnOnce(&V) -> T) -> Option<T> {
        let entry = self.shared.entries.get(key)?.clone();
        Some(look(&entry.value))
    }

    /// Number of values held at this moment.
    pub fn len(&self) -> usize {
        self.shared.entries.len()
    }

    /// Number of references at this moment, over all values.
    pub fn holders(&self) -> usize {
        self.shared.entries.iter().map(|entry| entry.holders.load(Ordering::Relaxed)).sum()
    }

    /// All keys held at this moment, in order.
    pub fn keys(&self) -> Vec<K> {
        let mut keys: Vec<_> = self.shared.entries.iter().map(|entry| entry.key().clone()).collect();
        keys.sort_unstable();
        keys
    }
}

impl<K: Ord + Hash + Clone, V> Clone for RegistryGuard<K, V> {
    fn clone(&self) -> Self {
        // The cloned reference keeps the count above zero meanwhile.
        self.entry.holders.fetch_add(1, Ordering::Relaxed);
        Self { key: self.key.clone(), entry: self.entry.clone(), shared: self.shared.clone() }
    }
}

impl<K: Ord + Hash + Clone, V> Deref for RegistryGuard<K, V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.entry.value
    }
}

impl<K: Ord + Hash + Clone, V> Drop for RegistryGuard<K, V> {
    fn drop(&mut self) {
        if self.entry.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let gone = self.shared.entries.remove_if(&self.key, |_, entry| {
                Arc::ptr_eq(entry, &self.entry) && entry.holders.load(Ordering::Acquire) == 0
            });
            if gone.is_some() {
                self.shared.note(self.key.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_lives_as_long_as_it_is_held() {
        let registry = Registry::<u32, u32>::default();
        let first = registry.hold(1, || 10);
        let second = registry.hold(1, || 20);
        assert_eq!((*first, *second), (10, 10));
        drop(first);
        assert_eq!(registry.with(&1, |value| *value), Some(10));
        drop(second);
        assert_eq!(registry.with(&1, |value| *value), None);
        assert!(registry.keys().is_empty());
    }

    #[tokio::test]
    async fn holds_and_releases_are_reported() {
        let registry = Registry::<u32, u32>::default();
        let first = registry.hold(1, || 10);
        let again = registry.hold(1, || 10);
        assert_eq!((registry.changed().await, registry.is_held(&1)), (vec![1], true));
        drop((first, again));
        assert_eq!((registry.changed().await, registry.is_held(&1)), (vec![1], false));
    }
}
