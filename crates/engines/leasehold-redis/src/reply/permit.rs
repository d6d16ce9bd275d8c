//! Decodes the replies of the semaphore scripts.

use leasehold_core::backend::{
    Answer, Grant, StoredLimit, Term, answer_of_semaphore, is_a_latch, is_a_lock, refused_by_limit,
};
use leasehold_core::proto::semaphore::{self, Demand, Limit};
use leasehold_core::{Error, ErrorKind, Result};

use super::{grant, number, waiting};
use crate::error::{foreign, strange};

/// The length of a record in bytes.
const RECORD: usize = 55;

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
        _ => waiting(text),
    }
}

/// Parses `base(16) top(16) w or - (1)`; returns what follows.
pub(crate) fn granted(text: &str, term: Term) -> Result<(Grant, &str)> {
    let mut grant = grant(text, term)?;
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
pub(crate) fn of_semaphore(why: u8, key: &str) -> Error {
    match why {
        b'K' => is_a_lock(),
        b'L' => is_a_latch(),
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
    Ok(StoredLimit::new(stored_limit(field(19, 24)?)?, number(field(24, 40)?)?))
}

/// Returns true for the record of a semaphore of this version.
pub(crate) fn is_record(record: &str) -> bool {
    record.starts_with("S1") && record.len() == RECORD && record.is_ascii()
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
