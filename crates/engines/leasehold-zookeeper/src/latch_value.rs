//! A value in the data of a node, as of a latch, and until when it is kept by the clock of the servers.

use std::time::Duration;

use leasehold_core::Result;
use zookeeper_client::{Error as ZkError, Stat};

use crate::error::{ROUNDS, foreign, from_zk, not_a_latch, unsettled};
use crate::path;
use crate::session::Session;

/// The first words of the data of a latch's node; the ttl in milliseconds and the value follow.
const HEADER: &str = "leasehold value 1 ";

/// A value, and how long it is kept after its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) ttl_ms: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A value that was read, and its state at that time.
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) stat: Stat,
    /// How long it lasts yet, by the clock of the servers; zero if it has expired.
    pub(crate) remaining: Duration,
}

impl Value {
    pub(crate) fn written(&self) -> Vec<u8> {
        let mut data = format!("{HEADER}{}\n", self.ttl_ms).into_bytes();
        data.extend_from_slice(&self.bytes);
        data
    }

    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let rest = data.strip_prefix(HEADER.as_bytes())?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (ttl, bytes) = (rest.get(..end)?, rest.get(end + 1..)?);
        let ttl_ms = str::from_utf8(ttl).ok()?.parse().ok()?;
        Some(Self { ttl_ms, bytes: bytes.to_vec() })
    }

    /// Returns how long the value lasts, if it changed last at `changed_ms`, and it is `now_ms`.
    pub(crate) fn remaining(&self, changed_ms: i64, now_ms: i64) -> Duration {
        let ends = i128::from(changed_ms) + i128::from(self.ttl_ms);
        let left = ends - i128::from(now_ms);
        Duration::from_millis(u64::try_from(left.max(0)).unwrap_or(u64::MAX))
    }
}

/// Removes the value in the node of one of these names among the nodes of a lock, if it has expired. Returns true if it
/// was removed.
pub(crate) async fn removed_expired(
    session: &Session,
    lock: &str,
    nodes: &[String],
    names: &[&str],
) -> Result<bool> {
    let Some(node) = nodes.iter().find(|node| names.contains(&&***node)) else { return Ok(false) };
    let path = format!("{lock}/{node}");
    let Some(read) = read_at(session, &path).await? else { return Ok(true) };
    if !read.remaining.is_zero() {
        return Ok(false);
    }
    match session.remove_value(&path, read.stat.version).await {
        Ok(()) | Err(ZkError::NoNode) => Ok(true),
        Err(ZkError::BadVersion) => Ok(false),
        Err(error) => Err(from_zk(error, &path)),
    }
}

/// Reads the latch of a name and how long it lasts; `None` if there is none.
pub(crate) async fn read(session: &Session, lock: &str) -> Result<Option<Read>> {
    read_at(session, &path::latch(lock)).await
}

/// Reads the value in a node and how long it lasts; `None` if there is none.
pub(crate) async fn read_at(session: &Session, path: &str) -> Result<Option<Read>> {
    let failed = |error| from_zk(error, path);
    for _ in 0..ROUNDS {
        let Some((data, stat)) = session.read_now(path).await.map_err(failed)? else {
            return Ok(None);
        };
        let value = Value::read(&data).ok_or_else(|| match path.ends_with(path::LATCH) {
            true => not_a_latch(path),
            false => foreign(path, "exists"),
        })?;
        match session.server_time(path).await {
            Ok(now) => {
                let remaining = value.remaining(stat.mtime, now);
                return Ok(Some(Read { value, stat, remaining }));
            }
            // It was removed meanwhile.
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(unsettled(ROUNDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_back_and_nothing_else_is() {
        for bytes in [&b""[..], b"\n", b"leasehold latch 1\n1 1 1\n", &[0, 255, 10]] {
            let value = Value { ttl_ms: 1_000, bytes: bytes.to_vec() };
            assert_eq!(Value::read(&value.written()), Some(value));
        }
        for bad in ["", "leasehold value 2 1\n", "leasehold value 1 1", "leasehold value 1 -1\n"] {
            assert_eq!(Value::read(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn a_value_lasts_for_its_ttl_after_the_last_change() {
        let value = Value { ttl_ms: 1_000, bytes: Vec::new() };
        let left = |changed, now| value.remaining(changed, now).as_millis();
        assert_eq!((left(5_000, 5_000), left(5_000, 5_999), left(5_000, 6_000)), (1_000, 1, 0));
        // The clock of the next leader is behind, or far ahead.
        assert_eq!((left(5_000, 4_000), left(5_000, i64::MAX)), (2_000, 0));
        let long = Value { ttl_ms: u64::MAX, bytes: Vec::new() };
        assert!(!long.remaining(i64::MAX, i64::MAX).is_zero());
    }
}
