//! The data of a lock's node, for people: it is not part of the protocol.

use leasehold_core::backend::Origin;
use leasehold_core::{AttemptId, Holder};
use serde::{Deserialize, Serialize};

/// The number of waiters that are named, and of readers; the others are only counted.
pub(crate) const SHOWN: usize = 100;

#[derive(Serialize, Deserialize)]
struct NodeData<'a> {
    host: std::borrow::Cow<'a, str>,
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<std::borrow::Cow<'a, str>>,
}

/// Returns the node's data: a line of JSON.
pub(crate) fn write(origin: &Origin) -> &str {
    origin.written(|host, pid, metadata| {
        let card = NodeData { host: host.into(), pid, metadata: metadata.map(Into::into) };
        serde_json::to_string(&card).unwrap_or_default()
    })
}

/// Reads the holder from a node's data. Other programs write other data: Curator writes the host's
/// address.
pub(crate) fn read(data: &[u8], attempt: Option<AttemptId>) -> Holder {
    let attempt = attempt.unwrap_or_else(|| AttemptId::from_bytes([0; 16]));
    match serde_json::from_slice::<NodeData<'_>>(data) {
        Ok(NodeData { host, pid, metadata }) => {
            let metadata = metadata.map(std::borrow::Cow::into_owned);
            Holder::new(attempt, host.into_owned(), pid, metadata)
        }
        Err(_) => {
            let text: String = String::from_utf8_lossy(data).chars().take(256).collect();
            let host = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            Holder::new(attempt, host, 0, None)
        }
    }
}
