//! The mark under the key that clients without the option `wire` use: they are refused, since they would not exclude
//! those of the other library.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::Covered;
use leasehold_core::clock::Clock;
use leasehold_core::{Deadline, Error, ErrorKind, Name, Now, Result};
use redis::Cmd;

use crate::error::strange;
use crate::key::Keys;
use crate::script::Script;

/// How often a mark is renewed.
const EVERY: Duration = Duration::from_secs(60);
/// How long a mark stays at least. It outlives the lease of the lock for which it was made, too.
const STAYS: Duration = Duration::from_secs(300);
/// How much longer than its lease a client with `also` makes a mark last.
const SPARE: Duration = Duration::from_secs(1);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;

/// When the marks of names are to be renewed.
#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<HashMap<Name, Marked>>);

#[derive(Debug)]
struct Marked {
    again: Deadline,
    /// When the mark ends, by the steady clock.
    ends_ns: u64,
}

/// What a client does with a mark.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// It has clients without the option refused.
    Mark,
    /// It has just taken the lock of the other library, and uses a mark of others.
    Cover,
    /// It relies on the mark that it has covered.
    Keep,
}

impl Marks {
    /// Returns true if the mark of a name is to be renewed for a lease of this ttl.
    pub(super) fn is_due(&self, name: &Name, ttl: Duration, now: Now) -> bool {
        let until = now.steady_ns.saturating_add(nanos(ttl));
        let table = self.lock();
        table.get(name).is_none_or(|mark| mark.again.has_passed(now) || mark.ends_ns < until)
    }

    /// Returns true if a name was marked, even if that was long ago.
    pub(super) fn is_known(&self, name: &Name) -> bool {
        self.lock().contains_key(name)
    }

    /// Notes that a name was marked by a request of this time.
    pub(super) fn done(&self, name: &Name, ttl: Duration, sent: Now, clock: &Clock) {
        let mut table = self.lock();
        let now = clock.now();
        if table.len() >= MOST {
            table.retain(|_, mark| !mark.again.has_passed(now));
        }
        if table.len() >= MOST {
            table.clear();
        }
        let ends_ns = sent.steady_ns.saturating_add(nanos(stays(ttl)));
        table.insert(name.clone(), Marked { again: Deadline::after(sent, EVERY), ends_ns });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Marked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns how long the mark for a lease of this ttl lasts.
fn stays(ttl: Duration) -> Duration {
    STAYS.max(ttl + EVERY)
}

/// Builds the call for the mark of a name and a lease of this ttl.
pub(super) fn command(
    script: &Script,
    step: Step,
    keys: &Keys,
    name: &Name,
    (format, ttl): (&str, Duration),
) -> Cmd {
    let key = keys.of(name);
    let (step, time) = match step {
        Step::Mark => ("W", stays(ttl)),
        Step::Cover => ("C", ttl + SPARE),
        Step::Keep => ("K", ttl + SPARE),
    };
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.hash()).arg(2).arg(&key).arg(format!("{key}:q"));
    command.arg(step).arg(format).arg(time.as_millis() as u64);
    command
}

/// How a name was found when it was to be marked.
pub(crate) enum Found {
    Marked,
    /// Clients without the option hold the lock or wait, with the error for that.
    Native(Error),
}

/// Reads the answer to [`Step::Mark`] of a client of this format.
///
/// # Errors
/// [`ErrorKind::Foreign`] for the mark of another format.
pub(crate) fn found(answer: &str, name: &Name, format: &str) -> Result<Found> {
    match answer.as_bytes().first() {
        Some(b'M') => Ok(Found::Marked),
        Some(b'H') => {
            let what = format!(
                "clients without the option wire use the lock {name}, and this client would not exclude them; give all \
                 clients the same option, and stop the others for five minutes before"
            );
            Ok(Found::Native(Error::new(ErrorKind::Foreign, what)))
        }
        _ => Err(other_mark(answer, name, format)),
    }
}

/// Reads the answer to the other steps.
///
/// # Errors
/// As [`found`].
pub(crate) fn covered(answer: &str, name: &Name, format: &str) -> Result<Covered> {
    match answer {
        "M" => Ok(Covered::Marked),
        "N" => Ok(Covered::Open),
        _ => Err(other_mark(answer, name, format)),
    }
}

fn other_mark(answer: &str, name: &Name, format: &str) -> Error {
    let Some(mark) = answer.strip_prefix('O') else { return strange(answer) };
    let what = format!(
        "clients with wire={mark} use the lock {name}, and this client, of {format}, would not exclude them; give \
         all clients the same options, and stop the others for five minutes before"
    );
    Error::new(ErrorKind::Foreign, what)
}
