//! What goes into the scripts and comes out of them, byte by byte.

use std::time::Duration;

use leasehold_core::backend::{Answer, Ask, End, Grant, Holder, Renewal, Term, Verdict};
use leasehold_core::{AttemptId, Error, ErrorKind, Result, Token, TokenBlock};
use serde::{Deserialize, Serialize};

use crate::error::{foreign, strange};

/// Bytes of a record before its tail.
pub(crate) const FIXED: usize = 136;

/// What a record says of its holder, for people.
#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    h: String,
    p: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<String>,
}

/// What the fields of an ask have room for.
const LONGEST: Duration = Duration::from_millis(99_999_999);
const TOKENS: u32 = 99_999_999;
const TAIL: usize = 9_999;

/// Refuses a time that does not fit into its field; a client allows 24 h anyway.
pub(crate) fn fits(what: &str, time: Duration) -> Result<()> {
    match time > LONGEST {
        true => Err(invalid(format!("{what}: {time:?}; at most {LONGEST:?} is allowed"))),
        false => Ok(()),
    }
}

/// Refuses an ask that does not fit into its fields.
pub(crate) fn ask_fits(ask: &Ask, member: &str) -> Result<()> {
    fits("ttl", ask.ttl)?;
    if ask.tokens > TOKENS {
        return Err(invalid(format!("tokens: {}; at most {TOKENS} are allowed", ask.tokens)));
    }
    let tail = member.len().saturating_sub(48);
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

/// `attempt(32) ttl_ms(8) tokens(8) tail`: how an attempt stands in the queue.
pub(crate) fn member(ask: &Ask) -> String {
    let Holder { host, pid, metadata, .. } = &*ask.holder;
    let tail = Tail { h: host.clone(), p: *pid, m: metadata.clone() };
    let tail = serde_json::to_string(&tail).unwrap_or_default();
    format!("{}{:08}{:08}{tail}", ask.attempt, ask.ttl.as_millis(), ask.tokens.max(1))
}

/// `attempt(32) flags(1) ttl_ms(8) tokens(8) tail`.
pub(crate) fn ask(ask: &Ask, member: &str) -> String {
    let flags = u8::from(ask.wait) + 2 * u8::from(ask.fair);
    format!("{}{flags}{}", &member[..32], &member[32..])
}

/// `attempt(32) base(16) last(16) flags(1) keep_ms(8) member`.
pub(crate) fn end(end: &End, member: &str) -> String {
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    let flags =
        u8::from(end.base.is_some()) + 2 * u8::from(end.last.is_some()) + 4 * u8::from(end.suspect);
    let keep = end.keep.unwrap_or_default().as_millis();
    format!(
        "{}{:016}{:016}{flags}{keep:08}{member}",
        end.attempt,
        number(end.base),
        number(end.last)
    )
}

/// `attempt(32) base(16) ttl_ms(8)`.
pub(crate) fn renewal(lease: &Renewal) -> String {
    format!("{}{:016}{:08}", lease.attempt, lease.base.get(), lease.ttl.as_millis())
}

/// What an ask was answered, and the server's time in microseconds where it says.
pub(crate) fn answer(bytes: &[u8], key: &str) -> Result<(Answer, Option<u64>)> {
    let text = std::str::from_utf8(bytes).map_err(|_| strange(bytes))?;
    let rest = text.get(1..).unwrap_or_default();
    match bytes.first() {
        Some(b'G') => Ok((Answer::Granted(grant(rest, Term::Ttl)?), None)),
        Some(b'E') => Ok((Answer::Ended, None)),
        Some(b'B') => {
            Ok((Answer::Busy { ask_again: Some(Duration::from_millis(number(rest)?)) }, None))
        }
        Some(b'Q') => {
            let (now, rest) = rest.split_at_checked(16).ok_or_else(|| strange(text))?;
            let (again, place) = rest.split_at_checked(10).ok_or_else(|| strange(text))?;
            let ask_again = Duration::from_millis(number(again)?);
            let place = Some(number(place)?);
            Ok((Answer::Queued { place, ask_again }, Some(number(now)?)))
        }
        Some(b'X') => Err(foreign(*rest.as_bytes().first().unwrap_or(&b'F'), key)),
        _ => Err(strange(text)),
    }
}

/// `base(16) top(16)`.
pub(crate) fn grant(text: &str, term: Term) -> Result<Grant> {
    let (base, top) = text.split_at_checked(16).ok_or_else(|| strange(text))?;
    let (base, top) = (token(base)?, token(&top[..top.len().min(16)])?);
    let count = top.get().checked_sub(base.get()).and_then(|count| u32::try_from(count + 1).ok());
    let tokens = count.and_then(|count| TokenBlock::new(base, count));
    Ok(Grant { tokens: tokens.ok_or_else(|| strange(text))?, term })
}

/// What became of a release.
pub(crate) fn verdict(bytes: &[u8], key: &str) -> Result<Verdict> {
    match bytes {
        b"R" => Ok(Verdict::Released),
        b"L" => Ok(Verdict::Lost),
        b"G" => Ok(Verdict::Gone),
        b"U" => Ok(Verdict::Unknown),
        [b'X', why, ..] => Err(foreign(*why, key)),
        other => Err(strange(other)),
    }
}

/// A tail as it stands in a record or in the queue.
pub(crate) fn holder(attempt: AttemptId, tail: &str) -> Holder {
    let Tail { h, p, m } =
        serde_json::from_str(tail).unwrap_or(Tail { h: "unknown".into(), p: 0, m: None });
    Holder { attempt, host: h, pid: p, metadata: m }
}

pub(crate) fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| strange(text))
}

pub(crate) fn token(text: &str) -> Result<Token> {
    Token::new(number(text)?).ok_or_else(|| strange(text))
}

pub(crate) fn attempt(text: &str) -> Result<AttemptId, Error> {
    AttemptId::parse(text).ok_or_else(|| strange(text))
}
