//! The data of a lock's node: for people, and for clients with the option `wire`.

use std::borrow::Cow;

use leasehold_core::backend::AcquireRequest;
use leasehold_core::{AttemptId, Holder};
use serde::{Deserialize, Serialize};

/// The number of waiters that are named, and of readers; the others are only counted.
pub(crate) const SHOWN: usize = 100;

#[derive(Serialize, Deserialize)]
struct NodeData<'a> {
    host: Cow<'a, str>,
    pid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Cow<'a, str>>,
    /// Its client holds the lock in another format too. That is the one field that clients read for the protocol.
    #[serde(default, skip_serializing_if = "is_false")]
    also: bool,
}

fn is_false(also: &bool) -> bool {
    !also
}

/// Returns the node's data: a line of JSON.
pub(crate) fn write(request: &AcquireRequest) -> Cow<'_, str> {
    let write = |host: &str, pid: u32, metadata: Option<&str>, also: bool| {
        let data = NodeData { host: host.into(), pid, metadata: metadata.map(Into::into), also };
        serde_json::to_string(&data).unwrap_or_default()
    };
    let origin = &request.origin;
    match request.also {
        false => {
            Cow::Borrowed(origin.written(|host, pid, metadata| write(host, pid, metadata, false)))
        }
        true => {
            let Holder { host, pid, metadata, .. } = origin.holder(request.attempt);
            Cow::Owned(write(&host, pid, metadata.as_deref(), true))
        }
    }
}

/// Returns true if the data are those of a client that holds the lock in another format too.
pub(crate) fn is_also(data: &[u8]) -> bool {
    serde_json::from_slice::<NodeData<'_>>(data).is_ok_and(|data| data.also)
}

/// Reads the holder from a node's data. Other programs write other data: Curator writes the host's
/// address.
pub(crate) fn read(data: &[u8], attempt: Option<AttemptId>) -> Holder {
    let attempt = attempt.unwrap_or_else(|| AttemptId::from_bytes([0; 16]));
    match serde_json::from_slice::<NodeData<'_>>(data) {
        Ok(NodeData { host, pid, metadata, also: _ }) => {
            let metadata = metadata.map(Cow::into_owned);
            Holder::new(attempt, host.into_owned(), pid, metadata)
        }
        Err(_) => {
            let text: String = String::from_utf8_lossy(data).chars().take(256).collect();
            let host = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            Holder::new(attempt, host, 0, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::backend::Origin;
    use leasehold_core::{ClientId, Name};

    use super::*;

    #[test]
    fn data_say_whether_the_client_holds_the_lock_in_another_format_too() {
        let attempt = AttemptId::new(ClientId::from_bits(7), 1, 2);
        let request = AcquireRequest::new(Name::new("a").unwrap(), attempt, Duration::from_secs(9))
            .with_origin(Origin::new("host", 7, None));
        let alone = write(&request).into_owned();
        assert_eq!(alone, r#"{"host":"host","pid":7}"#);
        let also = request.with_also(true);
        let written = write(&also).into_owned();
        assert_eq!(written, r#"{"host":"host","pid":7,"also":true}"#);
        assert!(is_also(written.as_bytes()) && !is_also(alone.as_bytes()) && !is_also(b"10.0.0.7"));
        let holder = Holder::new(attempt, "host".to_owned(), 7, None);
        assert_eq!(read(written.as_bytes(), Some(attempt)), holder);
    }
}
