//! What goes into the scripts, byte by byte.

use std::time::Duration;

use leasehold_core::backend::{Ask, End, Origin, Renewal};
use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result, Token};
use serde::Serialize;

use crate::key::Keys;

/// Which script a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One argument: an ask.
    Acquire,
    /// One argument: an end.
    Release,
    /// Two arguments: an end, and an ask to do then.
    Rotate,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Acquire, Self::Release, Self::Rotate];
}

/// One request: a key and one or two arguments, in one piece of text.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) limit: Duration,
    text: String,
    key: usize,
    first: usize,
}

/// What the fields of an ask have room for.
const LONGEST: Duration = Duration::from_millis(99_999_999);
const TOKENS: u32 = 99_999_999;
pub(crate) const TAIL: usize = 9_999;

/// Refuses a time that does not fit into its field; a client allows 24 h anyway.
pub(crate) fn fits(what: &str, time: Duration) -> Result<()> {
    match time > LONGEST {
        true => Err(invalid(format!("{what}: {time:?}; at most {LONGEST:?} is allowed"))),
        false => Ok(()),
    }
}

/// Refuses an ask that does not fit into its fields.
pub(crate) fn ask_fits(ask: &Ask) -> Result<()> {
    fits("ttl", ask.ttl)?;
    if ask.tokens > TOKENS {
        return Err(invalid(format!("tokens: {}; at most {TOKENS} are allowed", ask.tokens)));
    }
    let tail = ask.origin.written(tail).len().saturating_sub(4);
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

/// How an attempt stands in the queue: `attempt(32) ttl_ms(8) tokens(8) length(4) tail`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) ttl: Duration,
    pub(crate) tokens: u32,
    pub(crate) origin: &'a Origin,
}

/// What a record says of its holder, for people.
#[derive(Serialize)]
struct Tail<'a> {
    h: &'a str,
    p: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<&'a str>,
}

impl Request {
    pub(crate) fn acquire(keys: &Keys, ask: &Ask, limit: Duration) -> Self {
        let mut request = Self::new(Kind::Acquire, keys, &ask.name, limit);
        push_ask(&mut request.text, ask);
        request.first = request.text.len();
        request
    }

    /// Ends an attempt that may stand in the queue, and asks anew if there is something to ask.
    pub(crate) fn release(
        keys: &Keys,
        end: &End,
        member: Option<Member<'_>>,
        limit: Duration,
    ) -> Self {
        let kind = if end.then.is_some() { Kind::Rotate } else { Kind::Release };
        let mut request = Self::new(kind, keys, &end.name, limit);
        push_end(&mut request.text, end);
        if let Some(member) = member {
            member.push(&mut request.text, end.attempt);
        }
        request.first = request.text.len();
        if let Some(ask) = &end.then {
            push_ask(&mut request.text, ask);
        }
        request
    }

    fn new(kind: Kind, keys: &Keys, name: &Name, limit: Duration) -> Self {
        let mut text = String::with_capacity(256);
        keys.push(name, &mut text);
        let key = text.len();
        Self { kind, limit, text, key, first: key }
    }

    pub(crate) fn key(&self) -> &str {
        &self.text[..self.key]
    }

    pub(crate) fn argument(&self) -> &str {
        &self.text[self.key..self.first]
    }

    pub(crate) fn second(&self) -> Option<&str> {
        (self.kind == Kind::Rotate).then(|| &self.text[self.first..])
    }
}

impl<'a> Member<'a> {
    pub(crate) fn of(ask: &'a Ask) -> Self {
        Self { ttl: ask.ttl, tokens: ask.tokens, origin: &ask.origin }
    }

    fn push(&self, text: &mut String, attempt: AttemptId) {
        push_attempt(text, attempt);
        self.push_rest(text);
    }

    fn push_rest(&self, text: &mut String) {
        push_number(text, self.ttl.as_millis() as u64, 8);
        push_number(text, self.tokens.max(1).into(), 8);
        text.push_str(self.origin.written(tail));
    }
}

/// `attempt(32) flags(1) ttl_ms(8) tokens(8) length(4) tail`.
fn push_ask(text: &mut String, ask: &Ask) {
    push_attempt(text, ask.attempt);
    push_number(text, u64::from(ask.wait) + 2 * u64::from(ask.fair), 1);
    Member::of(ask).push_rest(text);
}

/// `attempt(32) base(16) last(16) flags(1) keep_ms(8)`.
fn push_end(text: &mut String, end: &End) {
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    let flags = u64::from(end.base.is_some())
        + 2 * u64::from(end.last.is_some())
        + 4 * u64::from(end.suspect);
    push_attempt(text, end.attempt);
    push_number(text, number(end.base), 16);
    push_number(text, number(end.last), 16);
    push_number(text, flags, 1);
    push_number(text, end.keep.unwrap_or_default().as_millis() as u64, 8);
}

/// The call of the script that renews: for each lease `attempt(32) base(16) ttl_ms(8)`.
pub(crate) fn renewals(hash: &str, keys: &Keys, leases: &[Renewal]) -> redis::Cmd {
    let mut command = redis::Cmd::with_capacity(3 + 2 * leases.len(), 64 + 128 * leases.len());
    command.arg("EVALSHA").arg(hash).arg(leases.len());
    let mut text = String::with_capacity(128);
    for lease in leases {
        text.clear();
        keys.push(&lease.name, &mut text);
        command.arg(&text);
    }
    for lease in leases {
        text.clear();
        push_attempt(&mut text, lease.attempt);
        push_number(&mut text, lease.base.get(), 16);
        push_number(&mut text, lease.ttl.as_millis() as u64, 8);
        command.arg(&text);
    }
    command
}

/// What is shown of the holder, its length before it.
pub(crate) fn tail(h: &str, p: u32, m: Option<&str>) -> String {
    let tail = serde_json::to_string(&Tail { h, p, m }).unwrap_or_default();
    format!("{:04}{tail}", tail.len())
}

pub(crate) fn push_attempt(text: &mut String, attempt: AttemptId) {
    text.push_str(std::str::from_utf8(&attempt.to_hex()).unwrap_or_default());
}

/// A number of at least `width` digits.
pub(crate) fn push_number(text: &mut String, number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let (mut rest, mut at) = (number, digits.len());
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let from = at.min(digits.len() - width);
    text.push_str(std::str::from_utf8(&digits[from..]).unwrap_or_default());
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
