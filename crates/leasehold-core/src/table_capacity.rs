//! Gives memory back after a table has become empty.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// The number of entries that an empty map keeps room for.
const ROOM: usize = 128;

/// Shrinks a map after many entries have left it.
pub(crate) fn shrink_map<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.is_empty() {
        map.shrink_to(ROOM);
    }
}

/// Shrinks a set after many entries have left it.
pub(crate) fn shrink_set<T: Eq + Hash, S: BuildHasher>(set: &mut HashSet<T, S>) {
    if set.is_empty() {
        set.shrink_to(ROOM);
    }
}
