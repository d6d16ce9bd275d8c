//! The answers of the scripts.

use std::time::Duration;

use leasehold_core::backend::{Answer, Grant, Term, Verdict};
use leasehold_core::{
    AttemptId, Error, ErrorKind, Forced, Name, Result, Retry, State, Status, TokenBlock,
};
use redis::Value;

use crate::error::strange;
use crate::reply;

/// How much of another library's value is shown, in characters.
const SHOWN: usize = 64;

/// Parses the answer to an acquire. A waiter asks again at the latest after `longest`.
pub(crate) fn answer(text: &str, key: &str, longest: Duration) -> Result<Answer> {
    let rest = text.get(1..).unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'A') => {
            let tokens = TokenBlock::single(reply::token(rest)?);
            Ok(Answer::Granted(Grant::new(tokens, Term::Ttl, false)))
        }
        Some(b'B') => {
            // Below zero: the owner has set no end.
            let left = rest.parse::<i64>().map_err(|_| strange(text))?;
            let left = u64::try_from(left).map_or(longest, |ms| Duration::from_millis(ms + 1));
            Ok(Answer::Busy { ask_again: Some(left.min(longest)) })
        }
        Some(b'G') => {
            let ms = rest.parse().map_err(|_| strange(text))?;
            Ok(Answer::Busy { ask_again: Some(Duration::from_millis(ms)) })
        }
        Some(b'E') => Ok(Answer::Ended),
        Some(b'F') => Err(foreign(key)),
        _ => Err(strange(text)),
    }
}

pub(crate) fn verdict(text: &str) -> Result<Verdict> {
    match text {
        "R" => Ok(Verdict::Released),
        "L" => Ok(Verdict::Lost),
        "U" => Ok(Verdict::Unknown),
        "N" => Ok(Verdict::Gone),
        _ => Err(strange(text)),
    }
}

pub(crate) fn forced(text: &str) -> Result<Forced> {
    match text.as_bytes() {
        b"E" => Ok(Forced::Ended),
        b"N" => Ok(Forced::NotHeld),
        b"U" => {
            let what = "the server has lost the token of the holder; the holder's next renewal writes it again, at the latest \
                        a third of its ttl from now: try again then";
            Err(Error::new(ErrorKind::Conflict, what).with_retry(Retry::Useful))
        }
        [b'O', ..] => Ok(Forced::Other(reply::token(&text[1..])?)),
        _ => Err(strange(text)),
    }
}

/// Builds the status from the answers of the script: what the key holds, its owner, for how long, our last token,
/// our last holder, and since when.
pub(crate) fn status(name: &Name, key: &str, answers: &Value) -> Result<Status> {
    let Value::Array(answers) = answers else { return Err(strange(answers)) };
    let texts: Vec<String> = answers
        .iter()
        .map(|answer| match answer {
            Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            other => Err(strange(other)),
        })
        .collect::<Result<_>>()?;
    let [found, owner, left, token, holder, since] = texts.as_slice() else {
        return Err(strange(answers));
    };
    let mut status = Status::free(name);
    match found.as_str() {
        "none" => {
            if let Some(attempt) = ours(owner) {
                show(&mut status, attempt, (token, holder, since));
            }
            status.note = Some(last_of_ours(status.holder.is_some()).to_owned());
            return Ok(status);
        }
        "foreign" => return Err(foreign(key)),
        _ => status.state = State::Held,
    }
    status.remaining = left.parse().ok().map(Duration::from_millis);
    match ours(owner) {
        Some(attempt) => show(&mut status, attempt, (token, holder, since)),
        None => {
            let shown: String = owner.chars().take(SHOWN).collect();
            let end = match status.remaining {
                None => ", without an end",
                Some(_) => "",
            };
            status.note = Some(format!("a client of another library holds it{end}: {shown:?}"));
        }
    }
    Ok(status)
}

/// Shows a holder of ours, as our notes describe it.
fn show(status: &mut Status, attempt: AttemptId, (token, holder, since): (&str, &str, &str)) {
    status.token = reply::token(token).ok();
    status.since_unix_ms = since.parse().ok();
    status.holder = Some(reply::holder(attempt, holder.get(4..).unwrap_or_default()));
}

/// What is known of the last holder of a free lock.
fn last_of_ours(is_known: bool) -> &'static str {
    match is_known {
        true => "the last holder of Leasehold; those of other libraries leave no record",
        false => {
            "no client of Leasehold held it within the time of the option retain; other libraries leave no record"
        }
    }
}

/// Returns the attempt of an owner that is ours.
fn ours(owner: &str) -> Option<AttemptId> {
    AttemptId::parse(owner.strip_prefix("leasehold:")?.get(..32)?)
}

fn foreign(key: &str) -> Error {
    let what = format!(
        "the key {key:?} holds a value that is no lock of this format; use the wire of the library that wrote it, or \
         another name"
    );
    Error::new(ErrorKind::Foreign, what)
}
