//! The process that an attempt belongs to, as it is stored for display.

use leasehold_core::backend::Origin;
use serde::{Deserialize, Serialize};

/// The process that an attempt belongs to, as it is stored.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct StoredOrigin {
    pub(crate) host: String,
    pub(crate) pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<String>,
}

pub(crate) fn stored_origin(origin: &Origin) -> &str {
    origin.written(|host, pid, metadata| {
        let person =
            StoredOrigin { host: host.to_owned(), pid, metadata: metadata.map(str::to_owned) };
        serde_json::to_string(&person).unwrap_or_default()
    })
}
