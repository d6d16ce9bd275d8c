//! What lies under a key in Redis, byte for byte.

/// Magic and version.
const HEAD: &[u8; 2] = b"L1";
/// Bytes before the payload.
const HEADER: usize = 23;

const NULL: u8 = 1;
const COMPRESSED: u8 = 2;
const KNOWN: u8 = NULL | COMPRESSED;

/// One entry; `payload` is encoded, and empty when the value does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// There is no such value: a type of its own, no magic payload.
    pub(crate) null: bool,
    pub(crate) compressed: bool,
    /// Which fill it came from.
    pub(crate) id: [u8; 8],
    /// When it stops being fresh: Unix milliseconds.
    pub(crate) soft_unix_ms: u64,
    /// How long the load took, in microseconds.
    pub(crate) load_us: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Reads what came from Redis; `None` for what is not ours or of another version.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_at_checked(HEADER)?;
        let flags = header[2];
        if &header[..2] != HEAD || flags & !KNOWN != 0 {
            return None;
        }
        Some(Self {
            null: flags & NULL != 0,
            compressed: flags & COMPRESSED != 0,
            id: header[3..11].try_into().ok()?,
            soft_unix_ms: u64::from_be_bytes(header[11..19].try_into().ok()?),
            load_us: u32::from_be_bytes(header[19..23].try_into().ok()?),
            payload,
        })
    }

    /// The bytes for Redis.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload.len());
        bytes.extend_from_slice(HEAD);
        let null = if self.null { NULL } else { 0 };
        bytes.push(null | if self.compressed { COMPRESSED } else { 0 });
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.soft_unix_ms.to_be_bytes());
        bytes.extend_from_slice(&self.load_us.to_be_bytes());
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(payload: &[u8]) -> Entry<'_> {
        let (soft_unix_ms, load_us) = (1_790_000_000_000, 1_500);
        Entry { null: false, compressed: false, id: *b"12345678", soft_unix_ms, load_us, payload }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let plain = entry(b"value");
        assert_eq!(Entry::read(&plain.write()), Some(plain.clone()));
        let null = Entry { null: true, payload: b"", ..plain };
        assert_eq!(Entry::read(&null.write()), Some(null));
    }

    #[test]
    fn other_versions_and_foreign_values_are_no_entries() {
        for bytes in [&b""[..], b"L1", b"hello, this is somebody's own value"] {
            assert_eq!(Entry::read(bytes), None);
        }
        let mut newer = entry(b"value").write();
        newer[1] = b'2';
        assert_eq!(Entry::read(&newer), None);
        let mut flags = entry(b"value").write();
        flags[2] = 64;
        assert_eq!(Entry::read(&flags), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(entry) = Entry::read(&bytes) {
                prop_assert_eq!(entry.write(), bytes);
            }
        }
    }
}
