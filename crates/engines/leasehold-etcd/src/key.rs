//! Converts a lock's name and an attempt to a key, and back.

use leasehold_core::{AttemptId, Name};

/// Keys have the form `PREFIX/NAME<tab>ATTEMPT`. A name contains no tab, and all its characters
/// sort after a tab. So the keys of one lock are contiguous, the keys of two locks never mix, and
/// locks sort by their names.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    start: String,
}

const TAB: u8 = b'\t';

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { start: format!("{prefix}/") }
    }

    /// Returns the key of an attempt.
    pub(crate) fn of(&self, name: &Name, attempt: AttemptId) -> Vec<u8> {
        format!("{}{name}\t{attempt}", self.start).into_bytes()
    }

    /// Returns the range of a lock's keys: the first key, and the end, which is not part of it.
    pub(crate) fn lock(&self, name: &Name) -> (Vec<u8>, Vec<u8>) {
        let key = |end: u8| {
            let mut key = format!("{}{name}", self.start).into_bytes();
            key.push(end);
            key
        };
        (key(TAB), key(TAB + 1))
    }

    /// Returns the range of the keys of all locks whose names begin with `names`.
    pub(crate) fn locks(&self, names: &str) -> (Vec<u8>, Vec<u8>) {
        let first = format!("{}{names}", self.start).into_bytes();
        let mut end = first.clone();
        // The last byte is not 0xff: both parts are UTF-8.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (first, end)
    }

    /// Returns the lock and the attempt of a key; `None` if this engine did not write it.
    pub(crate) fn read(&self, key: &[u8]) -> Option<(Name, AttemptId)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.start)?;
        let (name, attempt) = rest.split_once('\t')?;
        Some((Name::new(name).ok()?, AttemptId::parse(attempt)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::ClientId;

    #[test]
    fn keys_stand_in_the_order_of_names_and_come_back() {
        let keys = Keys::new("leasehold");
        let attempt = AttemptId::new(ClientId::from_bits(u64::MAX), 1, 2);
        let names = [" ", "!", "a", "a ", "a-b", "a/b", "ab", "锁/1"];
        let mut last: Vec<u8> = Vec::new();
        for name in names.map(|name| Name::new(name).unwrap()) {
            let key = keys.of(&name, attempt);
            let (first, end) = keys.lock(&name);
            assert!(last <= first && first < key && key < end, "{name}");
            assert_eq!(keys.read(&key), Some((name, attempt)));
            last = end;
        }
        let (first, end) = keys.locks("a");
        let inside = |name: &str| {
            let key = keys.of(&Name::new(name).unwrap(), attempt);
            first <= key && key < end
        };
        assert!(inside("a") && inside("a/b") && !inside("b") && !inside("A"));
        assert_eq!(keys.read(b"leasehold/a\tx"), None);
    }
}
