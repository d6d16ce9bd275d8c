//! Identifies clients and attempts to acquire a lock.

use core::fmt;

/// Identifies the connection of one process to a backend: 64 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// Identifies one attempt to acquire a lock; the backend records it as the owner.
///
/// It has 128 bits: the client id, a sequence number within the client, and random bits. Each
/// acquisition uses a new id, so a late message of an earlier acquisition never affects a later
/// one. The random bits are drawn for each id, because a copy of the process (a cloned virtual
/// machine) has the same client id and sequence number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    client: ClientId,
    rest: u64,
}

impl ClientId {
    /// Creates a client id from these (random) bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl AttemptId {
    /// Creates the id of attempt number `sequence` of `client`. The random bits keep ids distinct
    /// if two processes have the same client id.
    pub fn new(client: ClientId, sequence: u32, random: u32) -> Self {
        Self { client, rest: u64::from(sequence) << 32 | u64::from(random) }
    }

    /// Returns the client that made the attempt. Pushes for the attempt go to this client.
    pub fn client(self) -> ClientId {
        self.client
    }

    /// Returns the random bits of the id.
    pub fn random(self) -> u32 {
        self.rest as u32
    }

    /// Returns the id as 16 bytes, big-endian.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.client.0) << 64 | u128::from(self.rest)).to_be_bytes()
    }

    /// Reads the id that [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let all = u128::from_be_bytes(bytes);
        Self { client: ClientId((all >> 64) as u64), rest: all as u64 }
    }

    /// Returns the id as 32 hexadecimal digits in ASCII, as `Display` writes it.
    pub fn to_hex(self) -> [u8; 32] {
        let mut hex = [0; 32];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.to_bytes()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        hex
    }

    /// Reads the id that `Display` wrote: 32 hexadecimal digits. Returns `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|all| Self::from_bytes(all.to_be_bytes()))
    }
}

fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value & 15)]
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", self.client, self.rest)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_survives_being_written_and_read() {
        let id = AttemptId::new(ClientId::from_bits(0x0123_4567_89ab_cdef), 7, 9);
        assert_eq!(AttemptId::from_bytes(id.to_bytes()), id);
        assert_eq!(AttemptId::parse(&id.to_string()), Some(id));
        assert_eq!(id.to_hex(), id.to_string().as_bytes());
        assert_eq!(id.client(), ClientId::from_bits(0x0123_4567_89ab_cdef));
        assert_eq!(AttemptId::parse("+1234567890123456789012345678901"), None);
    }
}
