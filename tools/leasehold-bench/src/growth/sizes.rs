//! The numbers of locks and waiters that are measured on each engine when none are named.

use crate::store::Store;

/// Those that are named, or else the usual ones, ascending.
pub(super) fn or(named: &[usize], usual: impl FnOnce() -> Vec<usize>) -> Vec<usize> {
    let mut sizes = if named.is_empty() { usual() } else { named.to_vec() };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Held locks. A held lock of a file store needs a descriptor; etcd, ZooKeeper and SQLite write each to the disk.
pub(super) fn locks(store: &Store) -> Vec<usize> {
    let last = match store {
        Store::Memory | Store::Redis => 6,
        Store::Redlock(_) | Store::Postgres | Store::MySql => 5,
        _ => 4,
    };
    powers(2, last)
}

/// Waiting clients. Where the store does not push, each of them asks again and again.
pub(super) fn waiters(store: &Store) -> Vec<usize> {
    let last = match store {
        Store::Memory | Store::Redis => 4,
        Store::Sqlite => 2,
        _ => 3,
    };
    powers(0, last)
}

/// From one power of ten to another.
fn powers(first: u32, last: u32) -> Vec<usize> {
    (first..=last).map(|power| 10_usize.pow(power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_sizes_replace_the_usual_ones_and_are_sorted() {
        assert_eq!(or(&[30, 10, 30], || unreachable!()), [10, 30]);
        assert_eq!(or(&[], || locks(&Store::File)), [100, 1_000, 10_000]);
        assert_eq!(waiters(&Store::Redis), [1, 10, 100, 1_000, 10_000]);
    }
}
