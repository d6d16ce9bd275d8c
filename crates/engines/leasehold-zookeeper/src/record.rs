//! The record of the token that the readers of a phase share. It is the data of the lock's node, so that
//! a list of the queue tells its version and when it changed last.

use leasehold_core::proto::fifo::PhaseRecord;
use leasehold_core::{Error, Result, Token};
use serde::{Deserialize, Serialize};
use zookeeper_client::Stat;

use crate::error::not_a_record;

/// The places of a queue relative to the number of one of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places(pub(crate) i32);

impl Places {
    /// Returns the place of a number; the numbers continue below zero after their largest.
    pub(crate) fn of(self, number: i32) -> i64 {
        number.wrapping_sub(self.0).into()
    }

    fn number(self, place: i64) -> i32 {
        self.0.wrapping_add(place as i32)
    }
}

/// A record as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    token: u64,
    /// The number of the last node that the token is for.
    last: i32,
    /// The transaction that created the lock's node: a request of the time before that node was removed
    /// may arrive late.
    queue: i64,
}

impl Record {
    /// Reads the record from the data and stat of a lock's node; `None` if none was stored.
    pub(crate) fn read(data: &[u8], stat: &Stat, lock: &str) -> Result<Option<Self>, Error> {
        if stat.version == 0 {
            return Ok(None); // Whatever created the node may have written anything.
        }
        let record: Self = serde_json::from_slice(data).map_err(|_| not_a_record(lock))?;
        Ok(Some(record).filter(|record| record.queue == stat.czxid))
    }

    /// Returns the record to store in the node with this stat.
    pub(crate) fn of(record: PhaseRecord<i64>, places: Places, stat: &Stat) -> Self {
        let PhaseRecord { token, last } = record;
        Self { token: token.get(), last: places.number(last), queue: stat.czxid }
    }

    /// Returns the data of the node.
    pub(crate) fn written(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the record with places; `None` if its token is none.
    pub(crate) fn phase(&self, places: Places) -> Option<PhaseRecord<i64>> {
        Some(PhaseRecord { token: self.token()?, last: places.of(self.last) })
    }

    /// Returns the token.
    pub(crate) fn token(&self) -> Option<Token> {
        Token::new(self.token)
    }

    /// Returns true if the record is for the node with this number, which is in the queue.
    pub(crate) fn is_for(&self, number: i32) -> bool {
        Places(self.last).of(number) <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(version: i32, czxid: i64) -> Stat {
        let zero = 0;
        Stat {
            czxid,
            mzxid: zero,
            pzxid: zero,
            ctime: zero,
            mtime: zero,
            version,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
        }
    }

    #[test]
    fn a_record_is_read_back_and_other_data_is_refused() {
        let phase = PhaseRecord { token: Token::new(9).unwrap(), last: 3 };
        let places = Places(i32::MAX);
        let record = Record::of(phase, places, &stat(1, 7));
        assert!(record.last < 0, "the numbers go on at the lowest one");
        let read = |data: &[u8], stat| Record::read(data, &stat, "/a");
        assert_eq!(read(&record.written(), stat(1, 7)).unwrap(), Some(record));
        assert_eq!(record.phase(places), Some(phase));
        // Of a queue that was removed, or never stored.
        assert_eq!(read(&record.written(), stat(1, 8)).unwrap(), None);
        assert_eq!(read(b"what I like", stat(0, 7)).unwrap(), None);
        for other in ["", "10.0.0.7", r#"{"token":9,"last":3,"queue":7,"new":1}"#] {
            let error = read(other.as_bytes(), stat(1, 7)).unwrap_err();
            assert_eq!(error.kind(), leasehold_core::ErrorKind::Foreign, "{other}");
        }
    }

    #[test]
    fn a_record_is_for_all_places_up_to_its_last() {
        let record = Record { token: 9, last: i32::MIN, queue: 7 };
        for (number, expected) in
            [(i32::MAX, true), (i32::MIN, true), (i32::MIN + 1, false), (-9, false)]
        {
            assert_eq!(record.is_for(number), expected, "{number}");
        }
    }
}
