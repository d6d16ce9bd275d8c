//! The bytes of a semaphore's record: its limit, the tokens of its slots, its queue, and the attempts
//! that are refused. Its permits have rows of their own, so that renewals do not write the record.

use std::time::Duration;

use leasehold_core::proto::semaphore::{Limit, Mark, Parts, Waiter};
use leasehold_core::{AttemptId, Error, ErrorKind, Result};

use crate::error::strange;
use crate::record::{Tag, us};

/// What the bytes of a record begin with, and its version.
const MAGIC: [u8; 2] = *b"S1";

/// Writes the record; numbers are big endian, times in microseconds.
pub(crate) fn encode(parts: &Parts<Tag>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let (limit, version) = parts.limit.map_or((0, 0), |(limit, version)| (limit.get(), version));
    put_u32(&mut bytes, limit);
    put_u64(&mut bytes, version);
    put_u32(&mut bytes, parts.slots.len() as u32);
    for (slot, Mark { top, lost }) in &parts.slots {
        put_u32(&mut bytes, *slot);
        put_u64(&mut bytes, *top);
        put_u64(&mut bytes, *lost);
    }
    put_u32(&mut bytes, parts.queue.len() as u32);
    for Waiter { attempt, slots, ttl, tokens, seen_ns, tag } in &parts.queue {
        bytes.extend(attempt.to_bytes());
        put_u32(&mut bytes, *slots);
        put_u64(&mut bytes, us(*ttl));
        put_u32(&mut bytes, *tokens);
        put_u64(&mut bytes, seen_ns / 1000);
        put_u64(&mut bytes, tag.asked_us);
        put_u32(&mut bytes, tag.person.len() as u32);
        bytes.extend(&tag.person);
    }
    put_u32(&mut bytes, parts.tombstones.len() as u32);
    for (attempt, until_ns) in &parts.tombstones {
        bytes.extend(attempt.to_bytes());
        // Rounded up: it must not end before the record says.
        put_u64(&mut bytes, until_ns.div_ceil(1000));
    }
    bytes
}

/// Parses a record; it has no permits.
///
/// # Errors
/// `Foreign` for bytes that this program does not write.
pub(crate) fn decode(bytes: &[u8]) -> Result<Parts<Tag>> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| match bytes {
        [b'S', ..] => newer(),
        _ => strange("a record of a semaphore"),
    })?;
    let mut rest = Rest(rest);
    let (limit, version) = (rest.u32()?, rest.u64()?);
    let limit = match limit {
        0 => None,
        limit => Some((Limit::new(limit).map_err(|_| strange("a limit"))?, version)),
    };
    let slots =
        rest.many(|rest| Ok((rest.u32()?, Mark { top: rest.u64()?, lost: rest.u64()? })))?;
    let queue = rest.many(|rest| {
        let (attempt, slots) = (rest.attempt()?, rest.u32()?);
        let (ttl, tokens) = (Duration::from_micros(rest.u64()?), rest.u32()?);
        let (seen_ns, asked_us) = (rest.u64()?.saturating_mul(1000), rest.u64()?);
        let length = rest.u32()? as usize;
        let tag = Tag { person: rest.bytes(length)?.to_vec(), asked_us };
        Ok(Waiter { attempt, slots, ttl, tokens, seen_ns, tag })
    })?;
    let tombstones = rest.many(|rest| Ok((rest.attempt()?, rest.u64()?.saturating_mul(1000))))?;
    match rest.0 {
        [] => Ok(Parts { limit, slots, permits: Vec::new(), queue, tombstones }),
        _ => Err(strange("a long record of a semaphore")),
    }
}

/// Returns true for the first bytes of a record of a newer version.
pub(crate) fn is_newer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"S") && !bytes.starts_with(&MAGIC)
}

fn newer() -> Error {
    let message = "a newer version of leasehold wrote this semaphore; use that version";
    Error::new(ErrorKind::Foreign, message)
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_be_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_be_bytes());
}

/// The bytes that are yet to be parsed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| strange("a short record of a semaphore"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes(N)?.try_into();
        bytes.map_err(|_| strange("a short record of a semaphore"))
    }

    fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn attempt(&mut self) -> Result<AttemptId> {
        self.array().map(AttemptId::from_bytes)
    }

    /// Parses a number, and as many items.
    fn many<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let many = self.u32()?;
        (0..many).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests {
    use leasehold_core::ClientId;

    use super::*;

    fn parts() -> Parts<Tag> {
        let attempt = |number| AttemptId::new(ClientId::from_bits(7), number, 4);
        let tag = Tag { person: b"host".to_vec(), asked_us: 5 };
        let waiter = Waiter {
            attempt: attempt(1),
            slots: 3,
            ttl: Duration::from_millis(1500),
            tokens: 2,
            seen_ns: 17_000,
            tag,
        };
        Parts {
            limit: Some((Limit::new(9).unwrap(), 4)),
            slots: vec![(0, Mark { top: 8, lost: 3 }), (5, Mark { top: 1 << 52, lost: 0 })],
            permits: Vec::new(),
            queue: vec![waiter],
            tombstones: vec![(attempt(2), 3_000)],
        }
    }

    #[test]
    fn a_record_is_the_same_after_it_was_written_and_read() {
        assert_eq!(decode(&encode(&parts())).unwrap(), parts());
        let empty = Parts {
            limit: None,
            slots: Vec::new(),
            queue: Vec::new(),
            tombstones: Vec::new(),
            ..parts()
        };
        assert_eq!(decode(&encode(&empty)).unwrap(), empty);
    }

    #[test]
    fn bytes_that_this_program_does_not_write_are_refused() {
        let bytes = encode(&parts());
        for length in 0..bytes.len() {
            let error = decode(&bytes[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Foreign, "{length}: {error}");
        }
        let error = decode(&[&bytes[..], b"x"].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        let error = decode(b"S2").unwrap_err();
        assert!(error.message().contains("newer"), "{error}");
    }
}
