//! The calls of the semaphore scripts. Each request is a call of its own; renewals of one semaphore share
//! calls.

use leasehold_core::Name;
use leasehold_core::backend::{AcquireRequest, Answer, Grant, Mode, ReleaseRequest, Renewal};
use redis::Cmd;

use crate::key::Keys;
use crate::request::{
    Operation, Request, push_attempt, push_end_of_permit, push_number, push_permit_entry,
};
use crate::script::{Script, Scripts};

impl Request {
    /// Returns true if it is about a permit.
    pub(crate) fn is_for_permit(&self) -> bool {
        match &self.what {
            Operation::Acquire(request) => request.mode == Mode::Permit,
            Operation::Release(release, _) => release.mode == Mode::Permit,
        }
    }
}

/// Builds the call for a request.
pub(crate) fn request(scripts: &Scripts, keys: &Keys, request: &Request) -> Cmd {
    match &request.what {
        Operation::Acquire(asks) => {
            command(&scripts.semaphore_acquire, keys, &asks.name, &["A", &ask(asks)])
        }
        Operation::Release(release, member) => {
            let mut end = String::new();
            push_end_of_permit(&mut end, release, member.as_deref());
            let then = release.then.as_deref().map(ask);
            let words = ["E", &end].into_iter().chain(then.as_deref()).collect::<Vec<_>>();
            command(&scripts.semaphore, keys, &release.name, &words)
        }
    }
}

/// Builds the renewal of permits of one semaphore.
pub(crate) fn renewal<'a>(
    scripts: &Scripts,
    keys: &Keys,
    name: &Name,
    leases: impl IntoIterator<Item = &'a Renewal>,
) -> Cmd {
    let mut text = String::new();
    for lease in leases {
        push_attempt(&mut text, lease.attempt);
        push_number(&mut text, lease.base.get(), 16);
        push_number(&mut text, lease.ttl.as_millis() as u64, 8);
    }
    command(&scripts.semaphore, keys, name, &["N", &text])
}

/// Builds the call of a script for one semaphore.
pub(crate) fn command(script: &Script, keys: &Keys, name: &Name, words: &[&str]) -> Cmd {
    let keys = keys.of_semaphore(name);
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.hash()).arg(keys.len()).arg(&keys).arg(words);
    command
}

/// Builds `flags(1) limit(5)` and the entry of the queue.
fn ask(request: &AcquireRequest) -> String {
    let mut text = String::with_capacity(160);
    push_number(&mut text, u64::from(request.wait), 1);
    let limit = request.demand.map_or(0, |demand| demand.limit().get());
    push_number(&mut text, limit.into(), 5);
    push_permit_entry(&mut text, request);
    text
}

/// Returns the end of an attempt of this mode that does not exist: it only continues the queue.
pub(crate) fn end_of_none(release: ReleaseRequest, mode: Mode) -> ReleaseRequest {
    match mode {
        Mode::Permit => release.with_slot(None),
        _ => release,
    }
}

/// Returns the first slot and the grant of an answer that grants.
pub(crate) fn grant_of(answer: &Answer) -> Option<(Grant, Option<u32>)> {
    match answer {
        Answer::Granted(grant) => Some((*grant, None)),
        Answer::Permit { grant, slots } => Some((*grant, slots.first().copied())),
        _ => None,
    }
}
