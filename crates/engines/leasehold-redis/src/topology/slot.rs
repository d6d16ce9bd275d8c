//! Computes the slot of a key: CRC16 of its hash tag.

/// The number of slots of a cluster.
pub(crate) const SLOTS: usize = 16384;

/// CRC16/XMODEM, as in the Redis Cluster specification.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Returns the slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let step = |crc: u16, byte: &u8| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)];
    tag(key).iter().fold(0, step) % SLOTS as u16
}

/// Returns the text in the first braces, unless it is empty.
pub(crate) fn tag(key: &[u8]) -> &[u8] {
    let place = |byte: u8, from: usize| key.iter().skip(from).position(|b| *b == byte);
    let Some(open) = place(b'{', 0) else { return key };
    match place(b'}', open + 1) {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_redis_computes() {
        // From the specification, and from CLUSTER KEYSLOT.
        for (key, expected) in [
            ("123456789", 0x31C3),
            ("foo", 12182),
            ("leasehold:{foo}", 12182),
            ("leasehold:{foo}:q", 12182),
            ("{}foo", 9500),
            ("", 0),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
