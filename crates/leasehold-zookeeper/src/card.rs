//! What stands in a lock's node, for people to read: it has no part in the protocol.

use leasehold_core::AttemptId;
use leasehold_core::backend::{Holder, Origin};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Card<'a> {
    host: std::borrow::Cow<'a, str>,
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<std::borrow::Cow<'a, str>>,
}

/// The node's data: a line of JSON.
pub(crate) fn write(origin: &Origin) -> &str {
    origin.written(|host, pid, metadata| {
        let card = Card { host: host.into(), pid, metadata: metadata.map(Into::into) };
        serde_json::to_string(&card).unwrap_or_default()
    })
}

/// Whose node it is. Other programs write what they like: Curator the address of the host.
pub(crate) fn read(data: &[u8], attempt: Option<AttemptId>) -> Holder {
    let attempt = attempt.unwrap_or_else(|| AttemptId::from_bytes([0; 16]));
    match serde_json::from_slice::<Card<'_>>(data) {
        Ok(Card { host, pid, metadata }) => Holder {
            attempt,
            host: host.into_owned(),
            pid,
            metadata: metadata.map(std::borrow::Cow::into_owned),
        },
        Err(_) => {
            let text: String = String::from_utf8_lossy(data).chars().take(256).collect();
            let host = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            Holder { attempt, host, pid: 0, metadata: None }
        }
    }
}
