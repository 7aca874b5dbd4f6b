//! Things that live as long as somebody holds them, found by key.

use std::{
    fmt::Debug,
    hash::Hash,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;

/// A map of shared things; each one goes when the last [`Held`] of it does.
#[derive(Debug)]
pub struct Registry<K: Eq + Hash, V> {
    entries: Arc<DashMap<K, Arc<Entry<V>>>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    holders: AtomicUsize,
}

/// A hold on a thing of a [`Registry`].
#[derive(Debug)]
pub struct Held<K: Eq + Hash + Clone, V> {
    key: K,
    entry: Arc<Entry<V>>,
    entries: Arc<DashMap<K, Arc<Entry<V>>>>,
}

impl<K: Eq + Hash, V> Default for Registry<K, V> {
    fn default() -> Self {
        Self { entries: Arc::default() }
    }
}

impl<K: Eq + Hash + Clone, V> Registry<K, V> {
    /// Holds the thing of this key, making it if nobody does.
    pub fn hold(&self, key: K, make: impl FnOnce() -> V) -> Held<K, V> {
        let slot = self.entries.entry(key.clone());
        let entry = slot.or_insert_with(|| Arc::new(Entry { value: make(), holders: AtomicUsize::new(0) }));
        // Counted while the map's shard is locked, so that `Held::drop` cannot remove it in between.
        entry.holders.fetch_add(1, Ordering::Relaxed);
        Held { key, entry: entry.clone(), entries: self.entries.clone() }
    }

    /// Looks at the thing of this key, if somebody holds it.
    pub fn with<T>(&self, key: &K, look: impl FnOnce(&V) -> T) -> Option<T> {
        let entry = self.entries.get(key)?.clone();
        Some(look(&entry.value))
    }

    /// How many holds there are at this moment.
    pub fn holders(&self) -> usize {
        self.entries.iter().map(|entry| entry.holders.load(Ordering::Relaxed)).sum()
    }

    /// All keys held at this moment.
    pub fn keys(&self) -> Vec<K> {
        self.entries.iter().map(|entry| entry.key().clone()).collect()
    }
}

impl<K: Eq + Hash + Clone, V> Clone for Held<K, V> {
    fn clone(&self) -> Self {
        // This hold keeps the count above zero meanwhile.
        self.entry.holders.fetch_add(1, Ordering::Relaxed);
        Self { key: self.key.clone(), entry: self.entry.clone(), entries: self.entries.clone() }
    }
}

impl<K: Eq + Hash + Clone, V> Deref for Held<K, V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.entry.value
    }
}

impl<K: Eq + Hash + Clone, V> Drop for Held<K, V> {
    fn drop(&mut self) {
        if self.entry.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.entries.remove_if(&self.key, |_, entry| {
                Arc::ptr_eq(entry, &self.entry) && entry.holders.load(Ordering::Acquire) == 0
            });
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
}
