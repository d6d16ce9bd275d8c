//! Compresses large values for Redis.

/// Returns the smaller of the plain and the compressed bytes, and whether they are compressed.
#[cfg(feature = "compression")]
pub(crate) fn pack(bytes: Vec<u8>, from: usize) -> (Vec<u8>, bool) {
    if bytes.len() < from {
        return (bytes, false);
    }
    let packed = lz4_flex::compress_prepend_size(&bytes);
    if packed.len() < bytes.len() { (packed, true) } else { (bytes, false) }
}

/// Decompresses bytes; `None` if they are damaged or longer than `limit`.
#[cfg(feature = "compression")]
pub(crate) fn unpack(bytes: &[u8], limit: usize) -> Option<Vec<u8>> {
    let size = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    if size > limit {
        return None;
    }
    lz4_flex::decompress_size_prepended(bytes).ok()
}

#[cfg(not(feature = "compression"))]
pub(crate) fn unpack(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}
