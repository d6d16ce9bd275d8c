//! The mark under the key that clients without the option `wire` use: they are refused, since they would not exclude
//! those of the other library.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Name, Result};
use redis::Cmd;

use super::Wire;
use crate::error::strange;
use crate::key::Keys;
use crate::script::Script;

/// How often a mark is renewed. It stays for five minutes.
const EVERY: Duration = Duration::from_secs(60);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;

/// When the marks of names are to be renewed.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<HashMap<Name, Deadline>>);

impl Marks {
    /// Returns true if the mark of a name is to be renewed.
    pub(super) fn is_due(&self, name: &Name, clock: &Clock) -> bool {
        self.lock().get(name).is_none_or(|until| until.has_passed(clock.now()))
    }

    /// Notes that a name was marked now.
    pub(super) fn done(&self, name: &Name, clock: &Clock) {
        let mut table = self.lock();
        let now = clock.now();
        if table.len() >= MOST {
            table.retain(|_, until| !until.has_passed(now));
        }
        if table.len() >= MOST {
            table.clear();
        }
        table.insert(name.clone(), Deadline::after(now, EVERY));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Deadline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the call that marks a name.
pub(super) fn command(script: &Script, keys: &Keys, name: &Name, wire: &Wire) -> Cmd {
    let key = keys.of(name);
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.hash()).arg(2).arg(&key).arg(format!("{key}:q")).arg(text(wire));
    command
}

/// Returns an error if the name may not be used with this format.
pub(super) fn check(answer: &str, name: &Name) -> Result<()> {
    let what = match answer.as_bytes().first() {
        Some(b'M') => return Ok(()),
        Some(b'H') => format!(
            "clients without the option wire use the lock {name}, and this client would not exclude them; give all clients \
             the same option, and stop the others for five minutes before"
        ),
        Some(b'O') => {
            let mark = answer.get(1 + MARK.len()..).unwrap_or_default();
            format!(
                "clients with wire={mark} use the lock {name}, and this client would not exclude them; give all clients \
                 the same option, and stop the others for five minutes before"
            )
        }
        _ => return Err(strange(answer)),
    };
    Err(Error::new(ErrorKind::Foreign, what))
}

/// What each mark begins with.
const MARK: &str = "leasehold wire ";

fn text(wire: &Wire) -> String {
    match wire {
        Wire::SetNx { prefix, .. } if !prefix.is_empty() => {
            format!("{MARK}{}&key-prefix={prefix}", wire.name())
        }
        _ => format!("{MARK}{}", wire.name()),
    }
}
