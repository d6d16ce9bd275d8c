//! The arguments, answers and records of the scripts, byte by byte as `docs/redis-wire.md` describes
//! them.

use std::time::Duration;

use leasehold_proto::handoff::{
    AcquireRequest, Answer, Forced, OFFER, Push, ReleaseRequest, Verdict,
};
use leasehold_proto::{AttemptId, Token};
use leasehold_sim::script::{Request, terms};

use super::KEPT_MS;
use super::steps::UNIT;

/// Returns the tail of an attempt: some tails are equal.
pub(super) fn tail(attempt: AttemptId) -> String {
    let [.., client, _, _, _, sequence, _, _, _, _] = attempt.to_bytes();
    format!("{}{}", "x".repeat(usize::from(sequence) * 3), client / 2)
}

/// Returns the queue entry of an attempt.
pub(super) fn member(attempt: AttemptId) -> String {
    let (ttl, tokens) = terms(attempt, UNIT);
    let tail = tail(attempt);
    format!("{attempt}{:08}{tokens:08}{:04}{tail}", ttl.as_millis(), tail.len())
}

/// Builds the arguments of one call for these requests, in the short form if allowed.
pub(super) fn arguments(requests: &[&Request], short: bool) -> Vec<String> {
    let alike = |each: Vec<String>| match short && each.iter().all(|one| *one == each[0]) {
        true => vec![each[0].clone()],
        false => each,
    };
    let asks = requests.iter().filter_map(|request| match request {
        Request::Acquire(request) => Some(request),
        _ => None,
    });
    let ends = requests.iter().filter_map(|request| match request {
        Request::Release(release) => Some(release),
        _ => None,
    });
    match requests[0] {
        Request::Acquire(_) => {
            let attempts: String =
                asks.clone().map(|request| request.attempt.to_string()).collect();
            [vec![attempts], alike(asks.map(says).collect())].concat()
        }
        Request::Renew(..) => {
            let leases = requests.iter().filter_map(|request| match request {
                Request::Renew(attempt, base, ttl) => Some((
                    format!("{attempt}{:016}", base.get()),
                    format!("{:08}", ttl.as_millis()),
                )),
                _ => None,
            });
            let (leases, ttls): (Vec<String>, Vec<String>) = leases.unzip();
            [vec![leases.concat()], alike(ttls)].concat()
        }
        Request::Release(_) if short && ends.clone().all(is_plain) => {
            vec![ends.map(held).collect()]
        }
        Request::Release(_) => [vec![String::new()], ends.map(release).collect()].concat(),
        Request::Rotate(request, then) => {
            vec![release(request), format!("{}{}", then.attempt, says(then))]
        }
        Request::Force(token) => vec![format!("{:016}", token.get())],
    }
}

pub(super) fn says(request: &AcquireRequest) -> String {
    let flags = u8::from(request.wait) + 2 * u8::from(request.fair);
    format!("{flags}{}", &member(request.attempt)[32..])
}

/// An end of a lease whose state is fully known.
fn is_plain(release: &ReleaseRequest) -> bool {
    release.base.is_some() && release.last.is_some() && !release.suspect && release.keep.is_none()
}

fn held(release: &ReleaseRequest) -> String {
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    format!("H0{}{:016}{:016}", release.attempt, number(release.base), number(release.last))
}

pub(super) fn release(release: &ReleaseRequest) -> String {
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    let flags = u8::from(release.base.is_some())
        + 2 * u8::from(release.last.is_some())
        + 4 * u8::from(release.suspect);
    let keep = release.keep.unwrap_or_default().as_millis();
    let (base, last) = (number(release.base), number(release.last));
    format!("{}{base:016}{last:016}{flags}{keep:08}{}", release.attempt, member(release.attempt))
}

/// `A` with the first token means as many tokens as were requested.
pub(super) fn in_full(answer: String, request: &Request) -> String {
    match request {
        Request::Acquire(request) => full_grant(&answer, request.tokens),
        _ => answer,
    }
}

pub(super) fn full_grant(answer: &str, tokens: u32) -> String {
    let Some(base) = answer.strip_prefix('A') else { return answer.to_owned() };
    let top = base.parse::<u64>().unwrap_or_default() + u64::from(tokens) - 1;
    format!("G{base}{top:016}")
}

/// `wanted`: other clients wait.
pub(super) fn answer(answer: Answer, now_us: u64, wanted: bool) -> String {
    match answer {
        Answer::Granted { tokens, .. } => {
            let wanted = if wanted { "w" } else { "" };
            format!("G{:016}{:016}{wanted}", tokens.base().get(), tokens.top().get())
        }
        Answer::Queued { place, remaining, .. } => {
            let again = ms(remaining) + place as u64 * OFFER.as_millis() as u64;
            format!("Q{now_us:016}{again:010}{place}")
        }
        Answer::Busy(remaining) => format!("B{}", ms(remaining)),
        Answer::Ended => "E".to_owned(),
        Answer::UsedUp => "XT".to_owned(),
    }
}

pub(super) fn verdict(verdict: Verdict) -> String {
    let letter = match verdict {
        Verdict::Released => "R",
        Verdict::Lost => "L",
        Verdict::Gone => "G",
        Verdict::Unknown => "U",
    };
    letter.to_owned()
}

pub(super) fn forced(forced: Forced) -> String {
    match forced {
        Forced::Ended => "E".to_owned(),
        Forced::NotHeld => "N".to_owned(),
        Forced::Other(base) => format!("O{:016}", base.get()),
    }
}

pub(super) fn push(attempt: AttemptId, push: Push, now_us: u64, key: &str) -> String {
    let message = match push {
        Push::Granted { tokens, offer, waiters } => format!(
            "G{attempt}{:016}{:016}{now_us:016}{:08}{}{key}",
            tokens.base().get(),
            tokens.top().get(),
            offer.as_millis(),
            if waiters > 0 { 'w' } else { '-' },
        ),
        Push::Next { remaining, .. } => format!("N{attempt}{:010}{key}", ms(remaining)),
        Push::Wanted { .. } => format!("W{attempt}{key}"),
        Push::Lost { base } => format!("L{attempt}{:016}{key}", base.map_or(0, Token::get)),
    };
    format!("to {}: {message}", &attempt.to_string()[..16])
}

/// Rounds up: no client may ask again too early.
pub(super) fn ms(time: Duration) -> u64 {
    time.as_micros().div_ceil(1000) as u64
}

/// A record as it is stored.
#[derive(Debug)]
pub(super) struct Fields {
    /// Its version is that of a lock that clients read under.
    pub(super) shared: bool,
    pub(super) state: char,
    pub(super) waits: bool,
    pub(super) readers: bool,
    pub(super) lost: u64,
    pub(super) tombs: bool,
    pub(super) owner: String,
    pub(super) base: u64,
    pub(super) top: u64,
    pub(super) ends: u64,
    pub(super) lives: u64,
    pub(super) tail: String,
}

impl Fields {
    pub(super) fn read(record: &str) -> Result<Self, String> {
        let text = |from: usize, length: usize| {
            record.get(from..from + length).ok_or_else(|| format!("too short: {record:?}"))
        };
        let number = |from: usize, length: usize| {
            let text = text(from, length)?;
            text.parse::<u64>().map_err(|_| format!("{text:?} at {from} in {record:?}"))
        };
        if !matches!(text(0, 2)?, "L1" | "L2") {
            return Err(format!("not a record: {record:?}"));
        }
        let flags = number(35, 1)?;
        number(116, 16)?;
        Ok(Self {
            shared: text(0, 2)? == "L2",
            readers: flags >= 4,
            lost: number(18, 16)?,
            state: text(34, 1)?.chars().next().unwrap_or_default(),
            waits: flags % 2 == 1,
            tombs: flags % 4 >= 2,
            owner: text(36, 32)?.to_owned(),
            base: number(68, 16)?,
            top: number(84, 16)?,
            ends: number(100, 16)?,
            lives: number(2, 16)? + KEPT_MS * 1000,
            tail: text(136, number(132, 4)? as usize)?.to_owned(),
        })
    }
}
