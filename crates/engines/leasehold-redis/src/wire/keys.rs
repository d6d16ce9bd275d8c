//! The keys of a lock in another library's format, and of our notes beside it.

use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result};
use redis::Cmd;

use super::Wire;
use crate::topology::{slot, tag};

/// The keys and channels of one lock.
#[derive(Clone, Debug)]
pub(crate) struct WireKeys {
    /// The key that the other library uses.
    pub(crate) lock: String,
    notes: String,
    format: Format,
}

#[derive(Clone, Debug)]
enum Format {
    SetNx {
        channel: Option<String>,
    },
    /// The keys after the first.
    Rueidis {
        more: Vec<String>,
    },
    Redisson {
        token: String,
        queue: String,
        channels: [String; 2],
    },
}

impl WireKeys {
    /// Returns the keys of a name.
    pub(crate) fn of(wire: &Wire, name: &Name) -> Self {
        let name = name.as_str();
        match wire {
            Wire::SetNx { prefix, spring } => {
                let lock = format!("{prefix}{name}");
                let channel = spring.as_ref().map(|key| format!("{key}-channel:{lock}"));
                Self { notes: notes(&lock), lock, format: Format::SetNx { channel } }
            }
            Wire::Rueidis { prefix, majority } => {
                let key = |number: usize| format!("{prefix}:{number}:{name}");
                let (lock, more) = (key(0), (1..2 * majority - 1).map(key).collect());
                Self { notes: notes(&lock), lock, format: Format::Rueidis { more } }
            }
            Wire::Redisson => {
                // As Redisson does: a name with braces has its tag already.
                let tagged = match name.contains('{') {
                    true => name.to_owned(),
                    false => format!("{{{name}}}"),
                };
                let beside = |what: &str| format!("{what}:{tagged}");
                Self {
                    lock: name.to_owned(),
                    notes: notes(name),
                    format: Format::Redisson {
                        token: beside("redisson_lock_token"),
                        queue: beside("redisson_lock_queue"),
                        channels: [beside("redisson_lock__channel"), beside("redisson_rwlock")],
                    },
                }
            }
        }
    }

    /// The keys that tell who holds the lock.
    pub(super) fn locks(&self) -> Vec<String> {
        let more = match &self.format {
            Format::Rueidis { more } => more.as_slice(),
            _ => &[],
        };
        [&self.lock].into_iter().chain(more).cloned().collect()
    }

    /// The further keys of the format, as its script takes them.
    fn beside(&self) -> Vec<&String> {
        match &self.format {
            Format::SetNx { .. } => Vec::new(),
            Format::Rueidis { more } => more.iter().collect(),
            Format::Redisson { token, queue, .. } => vec![token, queue],
        }
    }

    /// Refuses a name whose keys are in several slots of a cluster.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for such a name.
    pub(crate) fn check_slot(&self) -> Result<()> {
        let at = slot(self.lock.as_bytes());
        let beside = self.beside();
        if beside.into_iter().chain([&self.notes]).all(|key| slot(key.as_bytes()) == at) {
            return Ok(());
        }
        let what = match &self.format {
            Format::Rueidis { .. } => format!(
                "key {:?}: it and the other keys of the lock are in several slots of the cluster, so no script can take \
                 them all; use a name with a tag in braces in all programs",
                self.lock
            ),
            _ => format!(
                "key {:?}: its braces put it and the keys beside it into several slots of the cluster; use a name without \
                 braces, or with one pair around some text",
                self.lock
            ),
        };
        Err(Error::new(ErrorKind::Invalid, what))
    }

    /// Begins a call of a script with its keys.
    pub(crate) fn call(&self, hash: &str, attempt: AttemptId) -> Cmd {
        let tombstone = format!("{}:{attempt}", self.notes);
        let mut command = redis::cmd("EVALSHA");
        let beside = self.beside();
        command.arg(hash).arg(3 + beside.len());
        command.arg(&self.lock).arg(&self.notes).arg(tombstone).arg(beside);
        command
    }

    /// Adds the channels to a call that may free the lock.
    pub(crate) fn push_channels(&self, command: &mut Cmd, in_cluster: bool) {
        match &self.format {
            Format::SetNx { channel } => {
                command.arg(channel);
            }
            Format::Rueidis { .. } => {}
            Format::Redisson { channels, .. } => {
                command.arg(u8::from(in_cluster)).arg(channels);
            }
        }
    }
}

/// Returns the key of the notes: in the slot of the lock, and no name that a lock of another library has.
fn notes(lock: &str) -> String {
    let tag = String::from_utf8_lossy(tag(lock.as_bytes()));
    format!("leasehold:wire:{{{tag}}}:{lock}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(wire: &Wire, name: &str) -> WireKeys {
        WireKeys::of(wire, &Name::new(name).unwrap())
    }

    #[test]
    fn keys_are_those_of_the_library_and_lie_in_one_slot() {
        let set_nx = Wire::SetNx { prefix: "redlock:".into(), spring: None };
        let rueidis = Wire::Rueidis { prefix: "rueidislock".into(), majority: 2 };
        for (wire, name, lock) in [
            (&set_nx, "orders", "redlock:orders"),
            (&set_nx, "a{b}c", "redlock:a{b}c"),
            (&rueidis, "{orders}/5", "rueidislock:0:{orders}/5"),
            (&Wire::Redisson, "orders", "orders"),
            (&Wire::Redisson, "a{b}c", "a{b}c"),
        ] {
            let keys = keys(wire, name);
            assert_eq!(keys.lock, lock);
            keys.check_slot().unwrap();
        }
        let locks = keys(&rueidis, "a").locks();
        assert_eq!(locks, ["rueidislock:0:a", "rueidislock:1:a", "rueidislock:2:a"]);
        let Format::Redisson { token, .. } = keys(&Wire::Redisson, "orders").format else {
            unreachable!()
        };
        assert_eq!(token, "redisson_lock_token:{orders}");
    }

    #[test]
    fn names_that_a_cluster_would_tear_apart_are_refused() {
        for (wire, name) in [
            (Wire::Rueidis { prefix: "rueidislock".into(), majority: 2 }, "orders"),
            (Wire::Redisson, "a{b"),
            (Wire::Redisson, "a{}b"),
            (Wire::SetNx { prefix: String::new(), spring: None }, "a}b"),
        ] {
            let error = keys(&wire, name).check_slot().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
        }
    }
}
