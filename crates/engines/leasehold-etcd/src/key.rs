//! Converts a name and an attempt to a key, and back.

use leasehold_core::backend::Mode;
use leasehold_core::{AttemptId, Name};

/// All keys of a name begin with `PREFIX/NAME` and a control character. A name contains none, and all its characters
/// sort after them. So the keys of a name are contiguous, the keys of two names never mix, and names sort by
/// themselves.
///
/// | key, after `PREFIX/NAME` | of |
/// |---|---|
/// | tab, attempt | a writer in the queue of a lock |
/// | tab, `r`, attempt | a reader in it; `r` sorts after all hexadecimal digits, so one range has the writers alone |
/// | tab, `~latch` | a latch |
/// | tab, `~limit` | the limit of a semaphore |
/// | tab, `~permit/`, attempt | a permit, or a client that waits for one |
/// | newline, `wire` | the mark of clients with the option `wire`, which use other keys |
/// | newline, `wire-also` | what clients with the option `also` leave while they rely on that mark |
/// | vertical tab | the token of the readers of a lock |
///
/// The queue of a lock ends before the tilde. For clients of revision c26c1cc it ends before the newline, so they wait for
/// the keys of the other kinds (`decisions/0051-kinds-in-the-queue.md`).
///
/// With `wire=concurrency`, the keys of a lock are `KEYPREFIX NAME/LEASE`, without the blank: the layout of Go's
/// `concurrency.Mutex`. All keys that begin with `KEYPREFIX NAME/` are in its queue, whichever program wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    start: String,
    is_wire: bool,
}

const QUEUE: char = '\t';
const MARKS: char = '\n';
const PHASE: char = '\u{b}';
const AFTER_PHASE: char = '\u{c}';
const READER: char = 'r';
/// Begins what is no lock, behind the tab. It sorts after all attempts.
const OTHER: &str = "~";
const LATCH: &str = "~latch";
const LIMIT: &str = "~limit";
const PERMIT: &str = "~permit/";
const WIRE: &str = "wire";
const ALSO: &str = "wire-also";
/// Separates name and lease in the format of other libraries, and what sorts directly after it.
const LEASE: char = '/';
const AFTER_LEASES: char = '0';
/// Sorts directly after the last key of a semaphore.
const AFTER_PERMITS: &str = "~permit0";

/// The first key of a range, and its end, which is not part of it.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

/// What a key is of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// An entry in the queue of a lock.
    Queued(AttemptId, Mode),
    Latch,
    Limit,
    Permit(AttemptId),
    Phase,
    /// The mark of clients with the option `wire`.
    Wire,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { start: format!("{prefix}/"), is_wire: false }
    }

    /// Returns the keys of locks in the format of `concurrency.Mutex`, which begin with this.
    pub(crate) fn of_wire(prefix: &str) -> Self {
        Self { start: prefix.to_owned(), is_wire: true }
    }

    /// Returns true if all these keys begin with this.
    pub(crate) fn begin_as(&self, with: &[u8]) -> bool {
        self.start.as_bytes().starts_with(with)
    }

    /// Returns true for the format of other libraries. It has writers alone, and no record.
    pub(crate) fn is_wire(&self) -> bool {
        self.is_wire
    }

    /// Returns the key of a writer with this lease, if the format names keys by leases.
    pub(crate) fn of_lease(&self, name: &Name, lease: i64) -> Option<Vec<u8>> {
        self.is_wire.then(|| format!("{}{name}{LEASE}{lease:x}", self.start).into_bytes())
    }

    /// Returns the key of the mark of clients with the option `wire`.
    pub(crate) fn wire(&self, name: &Name) -> Vec<u8> {
        self.key(name, MARKS, WIRE)
    }

    /// Returns the key of clients with the option `also` that rely on this mark.
    pub(crate) fn also(&self, name: &Name) -> Vec<u8> {
        self.key(name, MARKS, ALSO)
    }

    /// Returns the key of an attempt.
    pub(crate) fn of(&self, name: &Name, attempt: AttemptId, mode: Mode) -> Vec<u8> {
        match mode {
            Mode::Shared => self.key(name, QUEUE, &format!("{READER}{attempt}")),
            Mode::Permit => self.key(name, QUEUE, &format!("{PERMIT}{attempt}")),
            _ => self.key(name, QUEUE, &attempt.to_string()),
        }
    }

    pub(crate) fn latch(&self, name: &Name) -> Vec<u8> {
        self.key(name, QUEUE, LATCH)
    }

    pub(crate) fn limit(&self, name: &Name) -> Vec<u8> {
        self.key(name, QUEUE, LIMIT)
    }

    /// Returns the key of the token of the readers.
    pub(crate) fn phase(&self, name: &Name) -> Vec<u8> {
        self.key(name, PHASE, "")
    }

    /// Returns the range of a lock's queue.
    pub(crate) fn lock(&self, name: &Name) -> Range {
        if self.is_wire {
            return (self.key(name, LEASE, ""), self.key(name, AFTER_LEASES, ""));
        }
        (self.key(name, QUEUE, ""), self.key(name, QUEUE, OTHER))
    }

    /// Returns the range of the writers in a lock's queue.
    pub(crate) fn writers(&self, name: &Name) -> Range {
        (self.key(name, QUEUE, ""), self.key(name, QUEUE, "g"))
    }

    /// Returns the range of what is no lock: a latch, a semaphore, or the mark of clients with the option `wire`.
    pub(crate) fn other_kinds(&self, name: &Name) -> Range {
        (self.key(name, QUEUE, OTHER), self.key(name, PHASE, ""))
    }

    /// Returns the range of a semaphore: its limit, its permits and its waiters.
    pub(crate) fn semaphore(&self, name: &Name) -> Range {
        (self.limit(name), self.key(name, QUEUE, AFTER_PERMITS))
    }

    /// Returns the range of all keys of a name.
    pub(crate) fn all(&self, name: &Name) -> Range {
        if self.is_wire {
            return self.lock(name);
        }
        (self.key(name, QUEUE, ""), self.key(name, AFTER_PHASE, ""))
    }

    /// Returns the range of the keys of all names that begin with `names`.
    pub(crate) fn names(&self, names: &str) -> Range {
        let first = format!("{}{names}", self.start).into_bytes();
        let mut end = first.clone();
        // The last byte is not 0xff: both parts are UTF-8.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (first, end)
    }

    /// Returns the name and the part of a key; `None` if this engine did not write it.
    pub(crate) fn read(&self, key: &[u8]) -> Option<(Name, Part)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.start)?;
        let at = rest.find([QUEUE, MARKS, PHASE])?;
        let (name, rest) = rest.split_at(at);
        let mut rest = rest.chars();
        let part = match (rest.next()?, rest.as_str()) {
            (QUEUE, LATCH) => Part::Latch,
            (QUEUE, LIMIT) => Part::Limit,
            (QUEUE, entry) => match (entry.strip_prefix(PERMIT), entry.strip_prefix(READER)) {
                (Some(attempt), _) => Part::Permit(AttemptId::parse(attempt)?),
                (_, Some(attempt)) => Part::Queued(AttemptId::parse(attempt)?, Mode::Shared),
                _ => Part::Queued(AttemptId::parse(entry)?, Mode::Exclusive),
            },
            (MARKS, WIRE | ALSO) => Part::Wire,
            (PHASE, "") => Part::Phase,
            _ => return None,
        };
        Some((Name::new(name).ok()?, part))
    }

    fn key(&self, name: &Name, kind: char, rest: &str) -> Vec<u8> {
        format!("{}{name}{kind}{rest}", self.start).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::ClientId;

    fn attempt() -> AttemptId {
        AttemptId::new(ClientId::from_bits(u64::MAX), 1, 2)
    }

    #[test]
    fn keys_stand_in_the_order_of_names_and_come_back() {
        let (keys, attempt) = (Keys::new("leasehold"), attempt());
        let names = [" ", "!", "a", "a ", "a-b", "a/b", "ab", "锁/1"];
        let mut last: Vec<u8> = Vec::new();
        for name in names.map(|name| Name::new(name).unwrap()) {
            let (first, end) = keys.all(&name);
            assert!(last <= first, "{name}");
            let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit];
            let of = modes.map(|mode| keys.of(&name, attempt, mode));
            let others =
                [keys.latch(&name), keys.limit(&name), keys.wire(&name), keys.phase(&name)];
            for key in of.iter().chain(&others) {
                assert!(first <= *key && *key < end, "{name}");
            }
            let parts = [
                Part::Queued(attempt, Mode::Exclusive),
                Part::Queued(attempt, Mode::Shared),
                Part::Permit(attempt),
                Part::Latch,
                Part::Limit,
                Part::Wire,
                Part::Phase,
            ];
            for (key, part) in of.iter().chain(&others).zip(parts) {
                assert_eq!(keys.read(key), Some((name.clone(), part)));
            }
            last = end;
        }
        let (first, end) = keys.names("a");
        let inside = |name: &str| {
            let key = keys.of(&Name::new(name).unwrap(), attempt, Mode::Exclusive);
            first <= key && key < end
        };
        assert!(inside("a") && inside("a/b") && !inside("b") && !inside("A"));
        for foreign in ["a\tx", "a\t~", "a\t~permit/x", "a\nx", "a\nlimit", "a\u{b}x", "a"] {
            assert_eq!(keys.read(format!("leasehold/{foreign}").as_bytes()), None, "{foreign:?}");
        }
    }

    #[test]
    fn each_range_has_its_own_keys_alone() {
        let (keys, name) = (Keys::new("leasehold"), Name::new("a").unwrap());
        let of = |mode| keys.of(&name, attempt(), mode);
        let all = [
            of(Mode::Exclusive),
            of(Mode::Shared),
            of(Mode::Permit),
            keys.latch(&name),
            keys.limit(&name),
            keys.wire(&name),
            keys.phase(&name),
        ];
        let earlier_queue = (keys.key(&name, '\t', ""), keys.key(&name, '\n', ""));
        for (range, expected) in [
            (keys.lock(&name), [true, true, false, false, false, false, false]),
            (keys.writers(&name), [true, false, false, false, false, false, false]),
            (keys.semaphore(&name), [false, false, true, false, true, false, false]),
            (keys.other_kinds(&name), [false, false, true, true, true, true, false]),
            (earlier_queue, [true, true, true, true, true, false, false]),
        ] {
            let (first, end) = range;
            let inside: Vec<bool> = all.iter().map(|key| first <= *key && *key < end).collect();
            assert_eq!(inside, expected);
        }
    }

    #[test]
    fn keys_of_other_libraries_are_named_by_leases() {
        let keys = Keys::of_wire("locks/");
        let key = |name: &str| keys.of_lease(&Name::new(name).unwrap(), 0x4014_a203).unwrap();
        assert_eq!(key("/a"), b"locks//a/4014a203");
        let (first, end) = keys.lock(&Name::new("a").unwrap());
        let inside = |key: &[u8]| *first <= *key && *key < *end;
        assert!(inside(&key("a")) && inside(&key("a/b")) && inside(b"locks/a/"));
        assert!(!inside(&key("ab")) && !inside(&key("a-b")) && !inside(b"locks/a"));
        assert_eq!(Keys::new("a").of_lease(&Name::new("a").unwrap(), 1), None);
    }
}
