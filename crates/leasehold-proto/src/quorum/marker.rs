//! The admission marker: a value in the data of a node that shows that no data was lost.

use core::fmt;
use core::time::Duration;

/// Identifies one run of a server process: 160 random bits, new at each start (Redis: `run_id`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId([u8; 20]);

impl ProcessId {
    /// Creates the id from these bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Reads the id as a server writes it: 40 hexadecimal digits. Returns `None` for other text.
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

/// A marker in the data of a node. A loss of data removes it; after a restart it names another
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The process that it was written for.
    pub process: ProcessId,
    /// Random: distinguishes two admissions of the same process.
    pub nonce: u64,
    /// The longest ttl that the node grants.
    pub max_ttl: Duration,
    /// False while the node waits for its admission.
    pub admitted: bool,
}

/// The answer of a node to any client that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The process that answers.
    pub process: ProcessId,
    /// The marker that the node has; it may have been written for another process.
    pub marker: Option<Marker>,
    /// True if the marker shows that the node has voted: it is admitted, or has a high-water mark.
    pub voted: bool,
}

impl Look {
    /// Returns the marker, if it was written for the process that answers.
    pub fn current(&self) -> Option<Marker> {
        self.marker.filter(|marker| marker.process == self.process)
    }
}

/// The answer of a node to an operator who sets nodes up, about its past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Survey {
    /// The answer that any client gets.
    pub look: Look,
    /// True if its data shows that it has voted: it is admitted, has a high-water mark, or knows a
    /// lock.
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
