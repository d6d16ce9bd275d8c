//! Decodes the replies of the scripts, byte by byte.

pub(crate) mod permit;

use std::time::Duration;

use leasehold_core::backend::{AcquireRequest, Answer, Converted, Grant, Term, Verdict};
use leasehold_core::{AttemptId, Error, Holder, Result, Token, TokenBlock};
use serde::Deserialize;

use crate::error::{foreign, strange};
use crate::key::Keys;
use crate::request::{Kind, Request};

/// The length of a record before its tail, in bytes.
pub(crate) const FIXED: usize = 136;

/// The reply of a script to one request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// How the attempt that the request ended was ended; `Gone` if there was none.
    pub(crate) verdict: Verdict,
    /// The lock is free, and its queue continues after more dead waiters than one call removes.
    pub(crate) more: bool,
    /// The answer to an acquire, with the server's time in microseconds if the reply contains it.
    pub(crate) answer: Option<(Answer, Option<u64>)>,
    /// Clients read under the lock, so the scripts of exclusive locks have done nothing. The
    /// request belongs to the shared scripts.
    pub(crate) shared: Option<Box<Request>>,
}

impl Reply {
    /// The reply to a request for the shared scripts.
    pub(crate) fn shared(request: Request) -> Self {
        let (verdict, shared) = (Verdict::Gone, Some(Box::new(request)));
        Self { verdict, more: false, answer: None, shared }
    }
}

/// Splits the answer of a script into the replies to this many requests: one line each, or one line
/// for all. Returns `None` for any other answer.
pub(crate) fn lines(text: &str, count: usize) -> Option<impl Iterator<Item = &str>> {
    let for_all = text.starts_with('A') || text == "R";
    let lines = text.split('\n').count();
    let times = if lines == 1 && for_all { count } else { 1 };
    (times * lines == count)
        .then(|| std::iter::repeat_n(text, times).flat_map(|text| text.split('\n')))
}

/// Parses the reply to one request: the answer to an acquire, or a verdict with the answer to an
/// acquire right after it.
pub(crate) fn reply(request: &Request, line: &str, keys: &Keys) -> Result<Reply> {
    if line == "XS" {
        return Ok(Reply::shared(request.clone()));
    }
    let key = || keys.of(request.name());
    let (verdict, more, rest) = match request.kind() {
        Kind::Acquire => (Verdict::Gone, false, line),
        _ => {
            let more = line.starts_with(|letter: char| letter.is_ascii_lowercase());
            (verdict(line, key)?, more, line.get(1..).unwrap_or_default())
        }
    };
    let answer = request.acquire().map(|request| answer(request, rest, key)).transpose()?;
    Ok(Reply { verdict, more, answer, shared: None })
}

/// Parses the answer to a conversion.
pub(crate) fn converted(text: &str, key: &str) -> Result<Converted> {
    let rest = text.get(1..).unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'G') => Ok(Converted::Granted(granted(rest)?)),
        Some(b'D') => Ok(Converted::Refused { wanted: rest == "w" }),
        Some(b'L') => Ok(Converted::Lost),
        Some(b'X') => Err(foreign(*rest.as_bytes().first().unwrap_or(&b'F'), key)),
        _ => Err(strange(text)),
    }
}

/// Parses `base(16) top(16) w?`.
fn granted(text: &str) -> Result<Grant> {
    let mut grant = grant(text, Term::Ttl)?;
    grant.wanted = text.as_bytes().get(32) == Some(&b'w');
    Ok(grant)
}

fn answer(
    request: &AcquireRequest,
    text: &str,
    key: impl Fn() -> String,
) -> Result<(Answer, Option<u64>)> {
    if let Some(demand) = request.demand {
        return permit::answer(demand, text, key);
    }
    let rest = text.get(1..).unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'A') => {
            let tokens = TokenBlock::new(token(rest)?, request.tokens.max(1));
            let tokens = tokens.ok_or_else(|| strange(text))?;
            Ok((Answer::Granted(Grant::new(tokens, Term::Ttl, false)), None))
        }
        Some(b'G') => Ok((Answer::Granted(granted(rest)?), None)),
        Some(b'X') => Err(foreign(*rest.as_bytes().first().unwrap_or(&b'F'), &key())),
        _ => waiting(text),
    }
}

/// Parses the answer to an acquire that grants nothing.
pub(crate) fn waiting(text: &str) -> Result<(Answer, Option<u64>)> {
    let rest = text.get(1..).unwrap_or_default();
    match text.as_bytes().first() {
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
        _ => Err(strange(text)),
    }
}

/// Parses `base(16) top(16)`.
pub(crate) fn grant(text: &str, term: Term) -> Result<Grant> {
    let (base, top) = text.split_at_checked(16).ok_or_else(|| strange(text))?;
    let top = top.get(..16).ok_or_else(|| strange(text))?;
    let (base, top) = (token(base)?, token(top)?);
    let count = top.get().checked_sub(base.get()).and_then(|count| u32::try_from(count + 1).ok());
    let tokens = count.and_then(|count| TokenBlock::new(base, count));
    Ok(Grant::new(tokens.ok_or_else(|| strange(text))?, term, false))
}

fn verdict(text: &str, key: impl Fn() -> String) -> Result<Verdict> {
    match text.as_bytes() {
        [b'R' | b'r', ..] => Ok(Verdict::Released),
        [b'L' | b'l', ..] => Ok(Verdict::Lost),
        [b'G' | b'g', ..] => Ok(Verdict::Gone),
        [b'U' | b'u', ..] => Ok(Verdict::Unknown),
        [b'X', why, ..] => Err(foreign(*why, &key())),
        other => Err(strange(other)),
    }
}

/// Parses a tail as it is stored in a record or in the queue.
pub(crate) fn holder(attempt: AttemptId, tail: &str) -> Holder {
    #[derive(Deserialize)]
    struct StoredHolder {
        h: String,
        p: u32,
        m: Option<String>,
    }
    let StoredHolder { h, p, m } =
        serde_json::from_str(tail).unwrap_or(StoredHolder { h: "unknown".into(), p: 0, m: None });
    Holder::new(attempt, h, p, m)
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
