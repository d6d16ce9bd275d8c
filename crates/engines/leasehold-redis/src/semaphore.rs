//! The calls of the semaphore scripts, and their answers. Each request is a call of its own; renewals of
//! one semaphore share calls.

use leasehold_core::backend::{
    AcquireRequest, Answer, Grant, LimitChange, LimitChanged, Mode, ReleaseRequest, Renewal,
    Renewed, StoredLimit, Term, answer_of_semaphore, is_a_lock, refused_by_limit,
};
use leasehold_core::proto::semaphore::{self, Conflict, Demand, Limit};
use leasehold_core::{Error, ErrorKind, Forced, Name, Result, Token};
use redis::{Cmd, Value};

use crate::backend::RedisBackend;
use crate::batcher::text;
use crate::call_limit::{LIMITS, limit};
use crate::error::{foreign, strange};
use crate::key::Keys;
use crate::reply;
use crate::request::{
    self, Operation, Request, push_attempt, push_end_of_permit, push_number, push_permit_entry,
};
use crate::script::{Script, Scripts};

/// The most renewals in one call.
const RENEWALS: usize = 256;
/// The length of a record in bytes.
pub(crate) const RECORD: usize = 55;

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

fn command(script: &Script, keys: &Keys, name: &Name, words: &[&str]) -> Cmd {
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

/// Parses the answer to an acquire of a permit; with the server's time in µs if it waits.
pub(crate) fn answer(
    demand: Demand,
    text: &str,
    key: impl Fn() -> String,
) -> Result<(Answer, Option<u64>)> {
    let rest = text.get(1..).unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'G') => {
            let (grant, slots) = granted(rest, Term::Ttl)?;
            Ok((Answer::Permit { grant, slots: self::slots(slots)? }, None))
        }
        Some(b'I') => Err(refused_by_limit(stored_limit(rest)?, demand)),
        Some(b'X') => Err(match rest.as_bytes().first() {
            Some(b'T') => match answer_of_semaphore(semaphore::Answer::UsedUp, demand) {
                Err(error) => error,
                Ok(_) => strange(text),
            },
            Some(&why) => of_semaphore(why, &key()),
            None => strange(text),
        }),
        _ => reply::waiting(text),
    }
}

/// Parses `base(16) top(16) w or - (1)`; returns what follows.
pub(crate) fn granted(text: &str, term: Term) -> Result<(Grant, &str)> {
    let mut grant = reply::grant(text, term)?;
    let wanted = text.get(32..33).ok_or_else(|| strange(text))?;
    grant.wanted = wanted == "w";
    Ok((grant, text.get(33..).unwrap_or_default()))
}

/// Parses the numbers of slots, with commas between them.
pub(crate) fn slots(text: &str) -> Result<Vec<u32>> {
    text.split(',').map(|slot| slot.parse().map_err(|_| strange(text))).collect()
}

pub(crate) fn stored_limit(text: &str) -> Result<Limit> {
    let number = text.parse().map_err(|_| strange(text))?;
    Limit::new(number).map_err(|_| strange(text))
}

/// The error for a value that is not a semaphore.
fn of_semaphore(why: u8, key: &str) -> Error {
    match why {
        b'K' => is_a_lock(),
        b'V' => foreign(why, key),
        _ => {
            let what = format!(
                "{key} holds a value that is not a semaphore; choose another prefix or name"
            );
            Error::new(ErrorKind::Foreign, what)
        }
    }
}

/// Returns the limit in a record; the value is one of [`is_record`].
pub(crate) fn limit_in(record: &str) -> Result<StoredLimit> {
    let field = |from: usize, to: usize| record.get(from..to).ok_or_else(|| strange(record));
    Ok(StoredLimit::new(stored_limit(field(19, 24)?)?, reply::number(field(24, 40)?)?))
}

/// Returns true for the record of a semaphore of this version.
pub(crate) fn is_record(record: &str) -> bool {
    record.starts_with("S1") && record.len() == RECORD && record.is_ascii()
}

impl RedisBackend {
    /// Renews permits, those of one semaphore in calls of at most [`RENEWALS`].
    pub(crate) async fn renew_permits(&self, leases: &[&Renewal]) -> Vec<Result<Renewed>> {
        let mut by_name: Vec<usize> = (0..leases.len()).collect();
        by_name.sort_by_key(|&number| &leases[number].name);
        let groups = by_name.chunk_by(|&one, &next| leases[one].name == leases[next].name);
        let calls: Vec<&[usize]> = groups.flat_map(|group| group.chunks(RENEWALS)).collect();
        let renewing = calls.iter().map(|call| async move {
            let leases: Vec<&Renewal> = call.iter().map(|&number| leases[number]).collect();
            self.renew_together(&leases).await
        });
        let mut answers: Vec<Result<Renewed>> = Vec::new();
        answers.resize_with(leases.len(), || Err(strange("no answer to a renewal")));
        for (call, renewed) in calls.iter().zip(futures_util::future::join_all(renewing).await) {
            match renewed {
                Ok(renewed) => call.iter().zip(renewed).for_each(|(&at, one)| answers[at] = one),
                Err(error) => call.iter().for_each(|&at| answers[at] = Err(error.clone())),
            }
        }
        answers
    }

    /// Renews permits of one semaphore.
    async fn renew_together(&self, leases: &[&Renewal]) -> Result<Vec<Result<Renewed>>> {
        let Some(first) = leases.first() else { return Ok(Vec::new()) };
        leases.iter().try_for_each(|lease| request::fits("ttl", lease.ttl))?;
        let shortest = leases.iter().map(|lease| lease.ttl).min().unwrap_or_default();
        let scripts = self.route.scripts();
        let command = renewal(scripts, &self.keys, &first.name, leases.iter().copied());
        let key = self.keys.of(&first.name);
        let answer = text(self.route.run(&key, &command, limit(shortest)).await?)?;
        if answer.len() != leases.len() {
            return Err(strange(answer));
        }
        let renewed = |letter| match letter {
            'R' => Ok(Renewed::Renewed),
            'L' => Ok(Renewed::Lost),
            other => Err(strange(other)),
        };
        Ok(answer.chars().map(renewed).collect())
    }

    /// Reads the limit of a semaphore.
    pub(crate) async fn stored_limit(&self, name: &Name) -> Result<Option<StoredLimit>> {
        let key = self.keys.of(name);
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.route.scripts().status.hash()).arg(1).arg(&key);
        let Value::Array(answers) = self.route.run(&key, &command, LIMITS.1).await? else {
            return Err(strange("status is not an array"));
        };
        match answers.first() {
            Some(Value::Nil) => Ok(None),
            Some(Value::BulkString(record)) => {
                let record = String::from_utf8_lossy(record);
                match record.as_bytes() {
                    _ if is_record(&record) => limit_in(&record).map(Some),
                    [b'L', b'1' | b'2', ..] if record.len() >= reply::FIXED => Err(is_a_lock()),
                    [b'L' | b'S', b'3'..=b'9', ..] | [b'S', b'2', ..] => {
                        Err(of_semaphore(b'V', &key))
                    }
                    _ => Err(of_semaphore(b'F', &key)),
                }
            }
            other => Err(strange(other)),
        }
    }

    /// Changes the limit of a semaphore, and serves its queue.
    pub(crate) async fn change_limit(&self, change: LimitChange) -> Result<LimitChanged> {
        let LimitChange { name, version, limit, .. } = &change;
        let (key, word) = (self.keys.of(name), format!("{version:016}{:05}", limit.get()));
        let command =
            command(&self.route.scripts().semaphore_acquire, &self.keys, name, &["L", &word]);
        let answer = text(self.route.run_patiently(&key, &command, false, LIMITS.1).await?)?;
        let rest = answer.get(1..).unwrap_or_default();
        match answer.as_bytes() {
            [letter @ (b'S' | b's'), ..] => {
                if *letter == b's' {
                    self.clear_queue(name.clone(), Mode::Permit);
                }
                Ok(LimitChanged::Changed(reply::number(rest)?))
            }
            [b'C', ..] => {
                let (limit, version) = rest.split_at_checked(5).ok_or_else(|| strange(&answer))?;
                let version = reply::number(version)?;
                let limit = (version > 0).then(|| stored_limit(limit)).transpose()?;
                Ok(LimitChanged::Conflict(Conflict { limit, version }))
            }
            [b'X', why, ..] => Err(of_semaphore(*why, &key)),
            _ => Err(strange(answer)),
        }
    }

    /// Ends the permit with this token by force.
    pub(crate) async fn end_permit(&self, name: &Name, token: Token) -> Result<Forced> {
        let (key, word) = (self.keys.of(name), format!("{:016}-", token.get()));
        let command = command(&self.route.scripts().semaphore, &self.keys, name, &["F", &word]);
        let answer = text(self.route.run(&key, &command, LIMITS.1).await?)?;
        match answer.as_bytes() {
            b"e" => {
                self.clear_queue(name.clone(), Mode::Permit);
                Ok(Forced::Ended)
            }
            b"E" => Ok(Forced::Ended),
            b"N" => Ok(Forced::NotHeld),
            b"M" => Ok(Forced::Several),
            [b'X', why, ..] => Err(of_semaphore(*why, &key)),
            _ => Err(strange(answer)),
        }
    }
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

#[cfg(test)]
mod tests {
    use leasehold_core::proto::Token;

    use super::*;

    #[test]
    fn answers_are_read_as_the_scripts_write_them() {
        let demand = Demand::new(2, 4).unwrap();
        let read = |text: &str| answer(demand, text, || "k".to_owned());
        let text = format!("G{:016}{:016}w0,3", 7, 9);
        let Ok((Answer::Permit { grant, slots }, None)) = read(&text) else { panic!("{text}") };
        assert_eq!((grant.tokens.base(), grant.wanted), (Token::new(7).unwrap(), true));
        assert_eq!((grant.tokens.top().get(), slots), (9, vec![0, 3]));
        let error = read("I00006").unwrap_err();
        assert!(error.message().contains("limit 6") && error.message().contains("2 of 4"));
        assert_eq!(read("XK").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(read("XT").unwrap_err().kind(), ErrorKind::Foreign);
        assert!(matches!(read("B25").unwrap(), (Answer::Busy { .. }, None)));
        for bad in ["", "G", "G1", "I", "I0", "X", "Z"] {
            read(bad).unwrap_err();
        }
    }

    #[test]
    fn the_limit_is_read_from_a_record() {
        let record = format!("S1K{:016}{:05}{:016}{:015}", 1, 6, 3, 0);
        assert!(is_record(&record));
        let limit = limit_in(&record).unwrap();
        assert_eq!((limit.limit.get(), limit.version), (6, 3));
        assert!(!is_record("S1") && !is_record(&"L1".repeat(30)));
    }
}
