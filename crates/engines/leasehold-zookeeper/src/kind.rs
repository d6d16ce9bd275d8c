//! What a name belongs to: a lock, a latch, a semaphore, or clients with another format. The node below it tells.

use leasehold_core::backend::{is_a_latch, is_a_lock, is_a_semaphore, is_no_latch};
use leasehold_core::{Error, Result};
use zookeeper_client::Error as ZkError;

use crate::error::{
    ROUNDS, foreign, from_zk, of_another_library, unsettled, with_wire, without_wire,
};
use crate::format::Format;
use crate::latch_value;
use crate::path::{LATCH, QueueNode, SEMAPHORE, WIRE};
use crate::session::Session;

/// What the nodes below a name belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: any kind may begin.
    Free,
    Lock,
    Latch,
    Semaphore,
    /// Clients with the option `wire` use it in another format.
    Marked,
}

impl Kind {
    /// Returns the kind by the nodes below `lock`.
    pub(crate) fn of(nodes: &[String], lock: &str) -> Result<Self> {
        let of_node = |node: &String| match &**node {
            LATCH => Some(Self::Latch),
            SEMAPHORE => Some(Self::Semaphore),
            WIRE => Some(Self::Marked),
            node => QueueNode::parse(node).map(|_| Self::Lock),
        };
        let mut kind = Self::Free;
        for node in nodes {
            let one = of_node(node).ok_or_else(|| foreign(&format!("{lock}/{node}"), "exists"))?;
            // The attempt of a lock may queue for a moment before it sees what else is there.
            if kind == Self::Free || one != Self::Lock {
                kind = one;
            }
        }
        Ok(kind)
    }

    /// Returns the error for a latch of a name of this kind.
    pub(crate) fn no_latch(self, lock: &str) -> Result<()> {
        match self {
            Self::Free | Self::Latch => Ok(()),
            Self::Lock | Self::Semaphore => Err(is_no_latch()),
            Self::Marked => Err(with_wire(lock)),
        }
    }

    /// Returns the error for a semaphore of a name of this kind.
    pub(crate) fn no_semaphore(self, lock: &str) -> Result<()> {
        match self {
            Self::Free | Self::Semaphore => Ok(()),
            Self::Lock => Err(is_a_lock()),
            Self::Latch => Err(is_a_latch()),
            Self::Marked => Err(with_wire(lock)),
        }
    }

    /// Returns the error for a mark of a name of this kind.
    fn no_mark(self, lock: &str) -> Result<()> {
        match self {
            Self::Free | Self::Marked => Ok(()),
            Self::Lock => Err(without_wire(lock)),
            Self::Latch => Err(is_a_latch()),
            Self::Semaphore => Err(is_a_semaphore()),
        }
    }
}

/// Returns the error for a node among those of a lock that is none of a lock in this format.
pub(crate) fn no_lock(lock: &str, node: &str, format: Format) -> Error {
    match node {
        LATCH => is_a_latch(),
        SEMAPHORE => is_a_semaphore(),
        WIRE => with_wire(lock),
        _ if format == Format::Own => foreign(&format!("{lock}/{node}"), "exists"),
        _ => of_another_library(&format!("{lock}/{node}")),
    }
}

/// Returns the kind of a name, no older than this call. A latch or a mark that has expired is none.
pub(crate) async fn now(session: &Session, lock: &str) -> Result<Kind> {
    for _ in 0..ROUNDS {
        let listed = session.queue_now(lock).await.map_err(|error| from_zk(error, lock))?;
        let nodes = listed.as_ref().map(|(nodes, _)| &**nodes).unwrap_or_default();
        if latch_value::removed_expired(session, lock, nodes, &[LATCH, WIRE]).await? {
            continue;
        }
        return Kind::of(nodes, lock);
    }
    Err(unsettled(ROUNDS))
}

/// Creates the node `own` below `lock`, which makes the name one of this kind: in one transaction that fails if the
/// name has any other node. Returns false if the node exists already.
pub(crate) async fn make(
    session: &Session,
    lock: &str,
    (kind, own): (Kind, &str),
    data: &[u8],
) -> Result<bool> {
    let failed = |error| from_zk(error, lock);
    for _ in 0..ROUNDS {
        let found = now(session, lock).await?;
        if found == kind {
            return Ok(false);
        }
        match kind {
            Kind::Latch => found.no_latch(lock)?,
            Kind::Marked => found.no_mark(lock)?,
            _ => found.no_semaphore(lock)?,
        }
        match session.make_kind(lock, own, data).await {
            Ok(()) => return Ok(true),
            // The node of the name is missing, or another client has put something below it.
            Err(ZkError::NoNode) => {
                let made = session.make_container(lock).await;
                made.map_err(|(error, path)| from_zk(error, &path))?;
            }
            Err(ZkError::NotEmpty | ZkError::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(unsettled(ROUNDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_a_lock_that_is_refused_hides_no_other_kind() {
        let of = |nodes: &[&str]| {
            let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
            Kind::of(&nodes, "/l/a")
        };
        let waits = "_c_01234567-89ab-cdef-0000-000700000009-lock-0000000012";
        assert_eq!(of(&[]).unwrap(), Kind::Free);
        assert_eq!(of(&[waits]).unwrap(), Kind::Lock);
        for (node, kind) in
            [("latch", Kind::Latch), ("semaphore", Kind::Semaphore), ("wire", Kind::Marked)]
        {
            assert_eq!(of(&[node]).unwrap(), kind);
            assert_eq!(of(&[waits, node]).unwrap(), kind);
            assert_eq!(of(&[node, waits]).unwrap(), kind);
        }
        assert!(of(&["config"]).unwrap_err().to_string().contains("/l/a/config"));
    }
}
