//! The admission marker: what lies in a node's data to show that no data was lost.

use core::fmt;
use core::time::Duration;

/// One run of a server process: 160 random bits, new at each start (Redis: `run_id`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId([u8; 20]);

impl ProcessId {
    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The id as a server writes it: 40 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 40 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 20];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What lies in the data. Any loss of data removes it; a restart makes it name another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The process that it was written for.
    pub process: ProcessId,
    /// Random: tells one admission from the next one of the same process.
    pub nonce: u64,
    /// The longest ttl that is granted.
    pub max_ttl: Duration,
    /// False while the node waits for its admission.
    pub admitted: bool,
}

/// What a node says of itself to anybody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The process that answers.
    pub process: ProcessId,
    /// The marker that is there, whoever it was written for.
    pub marker: Option<Marker>,
    /// The marker shows that the node has voted: it is admitted, or has a high-water mark.
    pub voted: bool,
}

impl Look {
    /// The marker, if it was written for the process that answers.
    pub fn current(&self) -> Option<Marker> {
        self.marker.filter(|marker| marker.process == self.process)
    }
}

/// What a node says of its past to an operator who sets nodes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Survey {
    /// What it says to anybody.
    pub look: Look,
    /// Its data show that it has voted: it is admitted, has a high-water mark, or knows some lock.
    pub voted: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_survives_being_written_and_read() {
        let id = ProcessId::from_bytes(core::array::from_fn(|at| 13 * at as u8));
        assert_eq!(ProcessId::parse(&id.to_string()), Some(id));
        assert_eq!(ProcessId::parse(&"é".repeat(20)), None);
    }
}
