//! The bytes of an entry in Redis.

use leasehold_cache_redis::{RUN_SIZE, ServerRun};
use leasehold_core::random;

/// Magic byte and version.
const HEAD: &[u8; 2] = b"L1";
/// The number of bytes before the payload.
const HEADER: usize = 23;

const NULL: u8 = 1;
const COMPRESSED: u8 = 2;
/// The schema number (4 bytes) follows the header.
const SCHEMA: u8 = 4;
const KNOWN: u8 = NULL | COMPRESSED | SCHEMA;

/// One entry. `payload` is encoded, and empty if the value does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// The value does not exist. This is a flag, not a special payload.
    pub(crate) null: bool,
    pub(crate) compressed: bool,
    /// The id of the fill: the server run in which the fill was allowed, and 3 random bytes. An
    /// entry of another run may be out of date and is not used.
    pub(crate) id: [u8; 8],
    /// When it stops being fresh, in Unix milliseconds.
    pub(crate) soft_unix_ms: u64,
    /// The duration of the load in microseconds.
    pub(crate) load_us: u32,
    /// The schema number of the program that wrote it; 0 by default.
    pub(crate) schema: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses bytes from Redis; `None` for other data or another version.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, payload) = bytes.split_at_checked(HEADER)?;
        let flags = header[2];
        if &header[..2] != HEAD || flags & !KNOWN != 0 {
            return None;
        }
        let (schema, payload) = match flags & SCHEMA {
            0 => (0, payload),
            _ => {
                let (schema, payload) = payload.split_first_chunk()?;
                (u32::from_be_bytes(*schema), payload)
            }
        };
        Some(Self {
            null: flags & NULL != 0,
            compressed: flags & COMPRESSED != 0,
            id: header[3..11].try_into().ok()?,
            soft_unix_ms: u64::from_be_bytes(header[11..19].try_into().ok()?),
            load_us: u32::from_be_bytes(header[19..23].try_into().ok()?),
            schema,
            payload,
        })
    }

    /// Returns the bytes for Redis.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + size_of::<u32>() + self.payload.len());
        bytes.extend_from_slice(HEAD);
        let flag = |is, flag| if is { flag } else { 0 };
        let null = flag(self.null, NULL);
        bytes.push(null | flag(self.compressed, COMPRESSED) | flag(self.schema != 0, SCHEMA));
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.soft_unix_ms.to_be_bytes());
        bytes.extend_from_slice(&self.load_us.to_be_bytes());
        if self.schema != 0 {
            bytes.extend_from_slice(&self.schema.to_be_bytes());
        }
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

/// Returns a new fill id of this run.
pub(crate) fn id(run: ServerRun) -> [u8; 8] {
    let mut id = random::fresh().to_be_bytes();
    id[..RUN_SIZE].copy_from_slice(&run.bytes());
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(payload: &[u8]) -> Entry<'_> {
        let (soft_unix_ms, load_us) = (1_790_000_000_000, 1_500);
        let (id, schema) = (*b"12345678", 0);
        Entry { null: false, compressed: false, id, soft_unix_ms, load_us, schema, payload }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let plain = entry(b"value");
        assert_eq!(Entry::read(&plain.write()), Some(plain.clone()));
        assert_eq!(plain.write().len(), HEADER + 5);
        let other = Entry { schema: 258, ..plain.clone() };
        assert_eq!(Entry::read(&other.write()), Some(other.clone()));
        assert_eq!(Entry::read(&other.write()[..HEADER + 3]), None, "cut off");
        let null = Entry { null: true, payload: b"", ..plain };
        assert_eq!(Entry::read(&null.write()), Some(null));
    }

    #[test]
    fn other_versions_and_foreign_values_are_no_entries() {
        for bytes in [&b""[..], b"L1", b"hello, this is a foreign value"] {
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
            // A schema of 0 is not written.
            if let Some(entry) = Entry::read(&bytes)
                && (entry.schema != 0 || bytes[2] & SCHEMA == 0)
            {
                prop_assert_eq!(entry.write(), bytes);
            }
        }
    }
}
