//! The calls of the shared scripts, for locks that clients read under or wait to read: one for each
//! request. These scripts also handle exclusive locks, but the others are faster. Permits of semaphores have
//! scripts of their own.

use leasehold_core::backend::{AcquireRequest, ConvertRequest, Mode, Renewal, mode_of};
use leasehold_core::{AttemptId, Name, Token};
use redis::Cmd;

use crate::key::Keys;
use crate::request::{Operation, Request, push_attempt, push_end, push_number, push_says};
use crate::script::{Script, Scripts};
use crate::semaphore;

impl Request {
    /// Returns true if it is surely about a permit, or about a lock that clients read under.
    pub(crate) fn is_apart(&self) -> bool {
        if self.is_for_permit() {
            return true;
        }
        let next = self.acquire().is_some_and(|request| request.mode == Mode::Shared);
        next || match &self.what {
            Operation::Acquire(_) => false,
            Operation::Release(release, _) => mode_of(release.attempt) == Mode::Shared,
        }
    }
}

/// Builds the call for a request.
pub(crate) fn request(scripts: &Scripts, keys: &Keys, request: &Request) -> Cmd {
    if request.is_for_permit() {
        return semaphore::request(scripts, keys, request);
    }
    match &request.what {
        Operation::Acquire(asks) => {
            command(&scripts.shared_acquire, keys, &asks.name, &["A", &ask(asks)])
        }
        Operation::Release(release, member) => {
            let mut end = String::new();
            push_end(&mut end, release, member.as_deref());
            let then = release.then.as_deref().map(ask);
            let words = ["E", &end].into_iter().chain(then.as_deref()).collect::<Vec<_>>();
            command(&scripts.shared, keys, &release.name, &words)
        }
    }
}

/// Builds the renewal of one lease.
pub(crate) fn renewal(scripts: &Scripts, keys: &Keys, lease: &Renewal) -> Cmd {
    let mut text = String::with_capacity(56);
    push_attempt(&mut text, lease.attempt);
    push_number(&mut text, lease.base.get(), 16);
    push_number(&mut text, lease.ttl.as_millis() as u64, 8);
    command(&scripts.shared, keys, &lease.name, &["N", &text])
}

/// Builds the call that ends a phase by force.
pub(crate) fn force_release(scripts: &Scripts, keys: &Keys, name: &Name, token: Token) -> Cmd {
    command(&scripts.shared, keys, name, &["F", &format!("{:016}", token.get())])
}

/// Builds the call that ends one reader by force.
pub(crate) fn force_release_attempt(
    scripts: &Scripts,
    keys: &Keys,
    name: &Name,
    attempt: AttemptId,
) -> Cmd {
    command(&scripts.shared, keys, name, &["O", &attempt.to_string()])
}

/// Builds the call that turns a lease into one of the other mode.
pub(crate) fn conversion(scripts: &Scripts, keys: &Keys, request: &ConvertRequest) -> Cmd {
    let ConvertRequest { end, next, again, .. } = request;
    let mut ended = String::new();
    push_end(&mut ended, end, None);
    let operation = if next.mode == Mode::Shared { "D" } else { "U" };
    let words = [operation, &ended, &ask(next), if *again { "1" } else { "0" }];
    command(&scripts.shared, keys, &next.name, &words)
}

fn command(script: &Script, keys: &Keys, name: &Name, words: &[&str]) -> Cmd {
    let keys = keys.all(name);
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.hash()).arg(keys.len()).arg(&keys).arg(words);
    command
}

/// Builds `mode(1) attempt(32)` and the parameters of an acquire.
fn ask(request: &AcquireRequest) -> String {
    let mut text = String::with_capacity(160);
    text.push(if request.mode == Mode::Shared { 'R' } else { 'W' });
    push_attempt(&mut text, request.attempt);
    push_says(&mut text, request);
    text
}
