//! The key with the token of the readers of a lock: which token, and up to which place in the queue it counts.

use leasehold_core::proto::fifo::PhaseRecord;
use leasehold_core::{Error, ErrorKind, Result, Token};
use leasehold_etcd_api::KeyValue;
use serde::{Deserialize, Serialize};

/// The record, and the revision of its last change; 0 if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub(crate) phase: Option<PhaseRecord<i64>>,
    pub(crate) changed: i64,
}

#[derive(Deserialize, Serialize)]
struct Stored {
    token: u64,
    last: i64,
}

impl Record {
    /// Reads the key of the record.
    pub(crate) fn read(kv: Option<&KeyValue>) -> Result<Self> {
        let Some(kv) = kv else { return Ok(Self::default()) };
        let stored = serde_json::from_slice::<Stored>(&kv.value).ok();
        let phase = stored.and_then(|stored| {
            Some(PhaseRecord { token: Token::new(stored.token)?, last: stored.last })
        });
        match phase {
            Some(phase) => Ok(Self { phase: Some(phase), changed: kv.mod_revision }),
            None => Err(Error::new(
                ErrorKind::Foreign,
                format!(
                    "the value of the key {:?} is not a record of leasehold; delete the key while no client holds the \
                     lock, or update leasehold if a newer version wrote it",
                    String::from_utf8_lossy(&kv.key)
                ),
            )),
        }
    }

    /// Returns the token of the entry at this place, if the record is for it.
    pub(crate) fn token_of(&self, place: i64) -> Option<Token> {
        self.phase.filter(|phase| place <= phase.last).map(|phase| phase.token)
    }
}

/// Returns the value to store.
pub(crate) fn write(phase: PhaseRecord<i64>) -> Vec<u8> {
    let stored = Stored { token: phase.token.get(), last: phase.last };
    serde_json::to_vec(&stored).unwrap_or_default()
}
