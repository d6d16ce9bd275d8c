//! Values to bytes and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// How values are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// `postcard`: small and quick; a changed type needs a new cache name.
    #[default]
    Postcard,
    /// JSON: for other languages and for people; fields may be added. Needs the feature `json`.
    #[cfg(feature = "json")]
    Json,
}

impl Codec {
    pub(crate) fn encode<V: Serialize>(self, value: &V) -> Result<Vec<u8>> {
        let invalid = |error: &dyn std::fmt::Display| {
            Error::invalid(format!("value: cannot be written as {self:?}: {error}"))
        };
        match self {
            Self::Postcard => postcard::to_stdvec(value).map_err(|error| invalid(&error)),
            #[cfg(feature = "json")]
            Self::Json => serde_json::to_vec(value).map_err(|error| invalid(&error)),
        }
    }

    /// `None` when the bytes are no such value: a miss.
    pub(crate) fn decode<V: DeserializeOwned>(self, bytes: &[u8]) -> Option<V> {
        match self {
            Self::Postcard => postcard::from_bytes(bytes).ok(),
            #[cfg(feature = "json")]
            Self::Json => serde_json::from_slice(bytes).ok(),
        }
    }
}

/// The smaller of the two, and whether it is compressed.
#[cfg(feature = "compression")]
pub(crate) fn pack(bytes: Vec<u8>, from: usize) -> (Vec<u8>, bool) {
    if bytes.len() < from {
        return (bytes, false);
    }
    let packed = lz4_flex::compress_prepend_size(&bytes);
    if packed.len() < bytes.len() { (packed, true) } else { (bytes, false) }
}

/// What was packed; `None` when it is damaged or longer than `limit`.
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
