//! Encodes values to bytes, and decodes them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Selects how values are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// `postcard`: small and fast. Raise [`schema`](crate::Builder::schema) when the type of the
    /// values changes: the bytes of one type may decode as another type.
    #[default]
    Postcard,
    /// JSON: readable for other languages and for people; fields may be added. Needs the feature
    /// `json`.
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
            // Bytes that are left over are those of another type.
            Self::Postcard => match postcard::take_from_bytes(bytes) {
                Ok((value, [])) => Some(value),
                _ => None,
            },
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
