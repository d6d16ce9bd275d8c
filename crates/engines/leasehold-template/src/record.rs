//! One lock as it is stored: the hand-off machine of `leasehold-proto`, as JSON.

use leasehold_core::proto::handoff::{Parts, Record, State};
use leasehold_core::{AttemptId, Error, ErrorKind, Holder, Name, Result};
use serde::{Deserialize, Serialize};

/// The process that an attempt belongs to, for display.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Participant {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) metadata: Option<String>,
    /// Since when it holds, in milliseconds since the Unix epoch.
    pub(crate) since_unix_ms: u64,
}

/// Everything that must survive between two calls. There is no queue: no client waits in it.
#[derive(Debug, Deserialize, Serialize)]
struct Stored {
    /// A later version that stores other fields writes another number.
    format: u32,
    state: char,
    owner: Option<(String, Participant)>,
    base: u64,
    top: u64,
    until_ns: u64,
    lost: u64,
    refused: Vec<(String, u64)>,
}

const FORMAT: u32 = 1;

impl Participant {
    pub(crate) fn holder(&self, attempt: AttemptId) -> Holder {
        let Self { host, pid, metadata, .. } = self.clone();
        Holder::new(attempt, host, pid, metadata)
    }
}

pub(crate) fn encode(record: Record<Participant>) -> String {
    let parts = Parts::from(record);
    let state = match parts.state {
        State::Free => 'f',
        State::Held => 'h',
        State::Kept => 'k',
    };
    let stored = Stored {
        format: FORMAT,
        state,
        owner: parts.owner.map(|(attempt, participant)| (attempt.to_string(), participant)),
        base: parts.base,
        top: parts.top,
        until_ns: parts.until_ns,
        lost: parts.lost,
        refused: parts.tombstones.iter().map(|(one, until)| (one.to_string(), *until)).collect(),
    };
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Parses a record. A record of another program is an error, and is not changed.
pub(crate) fn decode(name: &Name, text: &str) -> Result<Record<Participant>> {
    let foreign = || {
        let message = format!(
            "the value of the lock {name:?} is not a lock record of this version; move it, or use \
             another lock name"
        );
        Error::new(ErrorKind::Foreign, message)
    };
    let stored: Stored = serde_json::from_str(text).map_err(|_| foreign())?;
    let state = match stored.state {
        'f' => State::Free,
        'h' => State::Held,
        'k' => State::Kept,
        _ => return Err(foreign()),
    };
    let attempt = |text: &str| AttemptId::parse(text).ok_or_else(foreign);
    let owner =
        |(one, participant): (String, Participant)| Ok::<_, Error>((attempt(&one)?, participant));
    let refused = |(one, until): (String, u64)| Ok::<_, Error>((attempt(&one)?, until));
    if stored.format != FORMAT {
        return Err(foreign());
    }
    Ok(Record::from(Parts {
        state,
        owner: stored.owner.map(owner).transpose()?,
        base: stored.base,
        top: stored.top,
        until_ns: stored.until_ns,
        confirmed: true,
        lost: stored.lost,
        queue: Vec::new(),
        tombstones: stored.refused.into_iter().map(refused).collect::<Result<_>>()?,
    }))
}
