//! Encodes the requests to the scripts, byte by byte.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_core::backend::{AcquireRequest, Origin, ReleaseRequest, Renewal};
use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result, Token};
use serde::Serialize;

use crate::key::Keys;
use crate::script::Script;

/// The purpose of a request. Requests of one kind may share one script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To acquire.
    Acquire,
    /// To release a lease whose state is fully known, which is nearly every end.
    Release,
    /// To end an attempt in any state.
    End,
    /// To end an attempt, and to acquire in the same step.
    Rotate,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Acquire, Self::Release, Self::End, Self::Rotate];
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) what: Operation,
    pub(crate) limit: Duration,
}

/// What a request asks for.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Acquire(AcquireRequest),
    /// With the attempt's entry in the queue, if it may have one.
    Release(ReleaseRequest, Option<Box<str>>),
}

/// The longest time that the fields of an acquire can hold.
const LONGEST: Duration = Duration::from_millis(99_999_999);
const TOKENS: u32 = 99_999_999;
pub(crate) const TAIL: usize = 9_999;

/// Refuses a time that does not fit into its field; a client allows at most 24 h anyway.
pub(crate) fn fits(what: &str, time: Duration) -> Result<()> {
    match time > LONGEST {
        true => Err(invalid(format!("{what}: {time:?}; at most {LONGEST:?} is allowed"))),
        false => Ok(()),
    }
}

/// Refuses an acquire that does not fit into its fields.
pub(crate) fn acquire_fits(request: &AcquireRequest) -> Result<()> {
    fits("ttl", request.ttl)?;
    if request.tokens > TOKENS {
        return Err(invalid(format!("tokens: {}; at most {TOKENS} are allowed", request.tokens)));
    }
    let tail = request.origin.written(tail).len().saturating_sub(4);
    if tail > TAIL {
        let what =
            format!("metadata: {tail} bytes with host and process; at most {TAIL} are allowed");
        return Err(invalid(what));
    }
    Ok(())
}

fn invalid(what: String) -> Error {
    Error::new(ErrorKind::Invalid, what)
}

/// The entry of an attempt in the queue: `attempt(32) ttl_ms(8) tokens(8) length(4) tail`. In the queue of a
/// semaphore the number of slots(5) follows the attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) slots: Option<u32>,
    pub(crate) ttl: Duration,
    pub(crate) tokens: u32,
    pub(crate) origin: &'a Origin,
}

/// The holder in a record, for display.
#[derive(Serialize)]
struct StoredHolder<'a> {
    h: &'a str,
    p: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<&'a str>,
}

impl Request {
    pub(crate) fn kind(&self) -> Kind {
        match &self.what {
            Operation::Acquire(_) => Kind::Acquire,
            Operation::Release(ReleaseRequest { then: Some(_), .. }, _) => Kind::Rotate,
            Operation::Release(
                ReleaseRequest { base: Some(_), last: Some(_), suspect: false, keep: None, .. },
                None,
            ) => Kind::Release,
            Operation::Release(..) => Kind::End,
        }
    }

    pub(crate) fn name(&self) -> &Name {
        match &self.what {
            Operation::Acquire(AcquireRequest { name, .. })
            | Operation::Release(ReleaseRequest { name, .. }, _) => name,
        }
    }

    /// Returns the acquire that the request contains.
    pub(crate) fn acquire(&self) -> Option<&AcquireRequest> {
        match &self.what {
            Operation::Acquire(request) => Some(request),
            Operation::Release(release, _) => release.then.as_deref(),
        }
    }
}

/// Builds the script call for requests of one kind: first the keys, then the data of each request.
pub(crate) fn command<'a>(
    script: &Script,
    kind: Kind,
    keys: &Keys,
    batch: impl ExactSizeIterator<Item = &'a Request> + Clone,
) -> redis::Cmd {
    let mut command = redis::Cmd::with_capacity(5 + 3 * batch.len(), 256 + 128 * batch.len());
    command.arg("EVALSHA").arg(script.hash()).arg(batch.len());
    let mut text = String::with_capacity(128 + 66 * batch.len());
    for request in batch.clone() {
        text.clear();
        keys.push(request.name(), &mut text);
        command.arg(&text);
    }
    text.clear();
    let asks = batch.clone().filter_map(|request| request.acquire());
    let ends = batch.clone().filter_map(|request| match &request.what {
        Operation::Release(release, member) => Some((release, member.as_deref())),
        Operation::Acquire(_) => None,
    });
    match kind {
        Kind::Acquire => {
            asks.clone().for_each(|request| push_attempt(&mut text, request.attempt));
            command.arg(&text);
            let alike = asks.clone().zip(asks.clone().skip(1)).all(|(one, next)| alike(one, next));
            let each = if alike && all_differ(batch) { 1 } else { usize::MAX };
            for request in asks.take(each) {
                text.clear();
                push_says(&mut text, request);
                command.arg(&text);
            }
        }
        Kind::Release if all_differ(batch) => {
            ends.for_each(|(release, _)| push_held(&mut text, release));
            command.arg(&text);
        }
        Kind::Release | Kind::End => {
            command.arg("");
            for (release, member) in ends {
                text.clear();
                push_end(&mut text, release, member);
                command.arg(&text);
            }
        }
        Kind::Rotate => {
            for ((release, member), request) in ends.zip(asks) {
                text.clear();
                push_end(&mut text, release, member);
                command.arg(&text);
                text.clear();
                push_attempt(&mut text, request.attempt);
                push_says(&mut text, request);
                command.arg(&text);
            }
        }
    }
    command
}

/// Returns true if no key occurs twice.
fn all_differ<'a>(mut batch: impl ExactSizeIterator<Item = &'a Request>) -> bool {
    let mut names = HashSet::with_capacity_and_hasher(batch.len(), RandomState::default());
    batch.len() == 1 || batch.all(|request| names.insert(request.name()))
}

/// Returns true if two acquires have the same data.
fn alike(one: &AcquireRequest, other: &AcquireRequest) -> bool {
    let said = |request: &AcquireRequest| (request.wait, request.fair, request.ttl, request.tokens);
    said(one) == said(other)
        && (Arc::ptr_eq(&one.origin, &other.origin) || one.origin == other.origin)
}

impl Member<'_> {
    pub(crate) fn text(&self, attempt: AttemptId) -> String {
        let mut text = String::with_capacity(128);
        push_attempt(&mut text, attempt);
        if let Some(slots) = self.slots {
            push_number(&mut text, slots.into(), 5);
        }
        push_terms(&mut text, self.ttl, self.tokens, self.origin);
        text
    }
}

/// Appends `flags(1) ttl_ms(8) tokens(8) length(4) tail`.
pub(crate) fn push_says(text: &mut String, request: &AcquireRequest) {
    push_number(text, u64::from(request.wait) + 2 * u64::from(request.fair), 1);
    push_terms(text, request.ttl, request.tokens, &request.origin);
}

/// Appends the entry of an attempt in the queue of a semaphore.
pub(crate) fn push_permit_entry(text: &mut String, request: &AcquireRequest) {
    let slots = Some(request.demand.map_or(0, |demand| demand.slots()));
    let (ttl, tokens, origin) = (request.ttl, request.tokens, &*request.origin);
    text.push_str(&Member { slots, ttl, tokens, origin }.text(request.attempt));
}

/// Appends `ttl_ms(8) tokens(8) length(4) tail`.
fn push_terms(text: &mut String, ttl: Duration, tokens: u32, origin: &Origin) {
    push_number(text, ttl.as_millis() as u64, 8);
    push_number(text, tokens.max(1).into(), 8);
    text.push_str(origin.written(tail));
}

/// Appends the record of a lease without waiters: state, flags, owner, base, and its last used
/// token as the last reserved token.
fn push_held(text: &mut String, release: &ReleaseRequest) {
    text.push_str("H0");
    push_attempt(text, release.attempt);
    push_number(text, number(release.base), 16);
    push_number(text, number(release.last), 16);
}

/// Appends `attempt(32) base(16) last(16) flags(1) keep_ms(8)`, and the entry in the queue.
pub(crate) fn push_end(text: &mut String, release: &ReleaseRequest, member: Option<&str>) {
    let flags = u64::from(release.base.is_some())
        + 2 * u64::from(release.last.is_some())
        + 4 * u64::from(release.suspect);
    push_attempt(text, release.attempt);
    push_number(text, number(release.base), 16);
    push_number(text, number(release.last), 16);
    push_number(text, flags, 1);
    push_number(text, release.keep.unwrap_or_default().as_millis() as u64, 8);
    text.push_str(member.unwrap_or_default());
}

/// Appends the end of a permit: `attempt(32) base(16) last(16) flags(2) slot(5)`, and the entry in the queue.
pub(crate) fn push_end_of_permit(
    text: &mut String,
    release: &ReleaseRequest,
    member: Option<&str>,
) {
    let flags = u64::from(release.base.is_some())
        + 2 * u64::from(release.last.is_some())
        + 4 * u64::from(release.suspect)
        + 8 * u64::from(release.slot.is_some());
    push_attempt(text, release.attempt);
    push_number(text, number(release.base), 16);
    push_number(text, number(release.last), 16);
    push_number(text, flags, 2);
    push_number(text, release.slot.unwrap_or_default().into(), 5);
    text.push_str(member.unwrap_or_default());
}

fn number(token: Option<Token>) -> u64 {
    token.map_or(0, Token::get)
}

/// Builds the script call that renews.
pub(crate) fn renewals(hash: &str, keys: &Keys, leases: &[Renewal]) -> redis::Cmd {
    let mut command = redis::Cmd::with_capacity(5 + 2 * leases.len(), 64 + 128 * leases.len());
    command.arg("EVALSHA").arg(hash).arg(leases.len());
    let mut text = String::with_capacity(48 * leases.len().max(16));
    for lease in leases {
        text.clear();
        keys.push(&lease.name, &mut text);
        command.arg(&text);
    }
    text.clear();
    for lease in leases {
        push_attempt(&mut text, lease.attempt);
        push_number(&mut text, lease.base.get(), 16);
    }
    command.arg(&text);
    let alike = leases.iter().zip(leases.iter().skip(1)).all(|(one, next)| one.ttl == next.ttl);
    for lease in leases.iter().take(if alike { 1 } else { usize::MAX }) {
        text.clear();
        push_number(&mut text, lease.ttl.as_millis() as u64, 8);
        command.arg(&text);
    }
    command
}

/// Returns the holder for display, with its length in front.
pub(crate) fn tail(h: &str, p: u32, m: Option<&str>) -> String {
    let tail = serde_json::to_string(&StoredHolder { h, p, m }).unwrap_or_default();
    format!("{:04}{tail}", tail.len())
}

pub(crate) fn push_attempt(text: &mut String, attempt: AttemptId) {
    text.push_str(std::str::from_utf8(&attempt.to_hex()).unwrap_or_default());
}

const ZEROS: &str = "0000000000000000";

/// Appends a number with at least `width` digits, 16 at most.
pub(crate) fn push_number(text: &mut String, number: u64, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    text.push_str(ZEROS.get(..width.saturating_sub(digits.len())).unwrap_or(ZEROS));
    text.push_str(digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_digits() {
        for (number, width, written) in [
            (0, 1, "0"),
            (7, 8, "00000007"),
            (123, 2, "123"),
            (u64::MAX, 1, "18446744073709551615"),
        ] {
            let mut text = String::new();
            push_number(&mut text, number, width);
            assert_eq!(text, written);
        }
    }
}
