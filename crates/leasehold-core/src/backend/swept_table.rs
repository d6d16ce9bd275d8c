//! A table whose entries die by themselves.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// The number of entries below which a table is not swept.
const LEAST: usize = 64;

/// A table whose entries die by themselves, such as the sources of changes that no one observes any more. An insertion
/// removes the dead ones if the table has doubled since the last time: on average it looks at two entries, however
/// large the table is.
#[derive(Debug)]
pub struct SweptTable<K, V> {
    entries: HashMap<K, V>,
    /// The number of entries at which the dead ones are removed.
    sweep_at: usize,
}

impl<K: Eq + Hash, V> SweptTable<K, V> {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self { entries: HashMap::new(), sweep_at: LEAST }
    }

    /// Returns the entry of a key, dead or not. If there is none, it is made, and dead entries may be removed.
    pub fn entry_or(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        mut is_alive: impl FnMut(&V) -> bool,
    ) -> &mut V {
        if self.entries.len() >= self.sweep_at && !self.entries.contains_key(&key) {
            self.entries.retain(|_, value| is_alive(value));
            self.sweep_at = LEAST.max(self.entries.len() * 2);
        }
        self.entries.entry(key).or_insert_with(make)
    }

    /// Returns the entry of a key, dead or not.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// Returns the entry of a key, dead or not.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key)
    }

    /// Removes the entry of a key.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key)
    }

    /// Returns all entries, dead or not.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries, dead or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<K: Eq + Hash, V> Default for SweptTable<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insertion_looks_at_two_entries_on_average_however_many_there_are() {
        const ENTRIES: usize = 10_000;
        let (mut table, mut looks) = (SweptTable::new(), 0);
        for key in 0..ENTRIES {
            table.entry_or(
                key,
                || (),
                |()| {
                    looks += 1;
                    true
                },
            );
        }
        assert_eq!(table.len(), ENTRIES);
        assert!(looks <= 2 * ENTRIES, "{looks} looks");
    }

    #[test]
    fn dead_entries_are_at_most_as_many_as_living_ones_and_a_few() {
        let mut table = SweptTable::new();
        for key in 0..10_000 {
            table.entry_or(key, || key, |value| value % 100 == 0);
            assert!(table.len() <= LEAST.max(2 * (key / 100 + 1)), "{} at {key}", table.len());
        }
        assert!(
            (0..9_900).step_by(100).all(|key| table.get(&key).is_some()),
            "a living one is gone"
        );
    }

    #[test]
    fn the_entry_of_a_key_stays_while_others_are_removed() {
        let mut table = SweptTable::new();
        for key in 0..LEAST {
            table.entry_or(key, || key, |_| false);
        }
        assert_eq!(*table.entry_or(7, || 0, |_| false), 7);
        assert_eq!(table.len(), LEAST);
        table.entry_or(LEAST, || 0, |_| false);
        assert_eq!(table.len(), 1);
    }
}
