//! Encodes values to bytes, and decodes them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Selects how values are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// `postcard`: small and fast. In a cache, raise `schema` when the type of the values changes:
    /// without that, old bytes may decode as the new type.
    #[default]
    Postcard,
    /// JSON: readable by people and other languages; you may add fields. Needs the feature `json`.
    #[cfg(feature = "json")]
    Json,
}

impl Codec {
    /// Encodes a value.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a value that cannot be encoded.
    pub fn encode<V: Serialize>(self, value: &V) -> Result<Vec<u8>> {
        let invalid = |error: &dyn std::fmt::Display| {
            Error::invalid(format!("value: cannot be encoded as {self:?}: {error}"))
        };
        match self {
            Self::Postcard => postcard::to_stdvec(value).map_err(|error| invalid(&error)),
            #[cfg(feature = "json")]
            Self::Json => serde_json::to_vec(value).map_err(|error| invalid(&error)),
        }
    }

    /// Decodes a value. Returns `None` if the bytes are not a value of this type.
    pub fn decode<V: DeserializeOwned>(self, bytes: &[u8]) -> Option<V> {
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
