//! The layouts of a lock's nodes: the engine's own, and those of other libraries (`?wire=`).

mod curator;
mod kazoo;

use leasehold_core::backend::Mode;
use leasehold_core::{AttemptId, Name, Result, StoreUrl};
use zookeeper_client::CreateMode;

use crate::path::{self, QueueNode, Root};

/// The layout of the nodes below a lock's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// The engine's own, for locks, semaphores and latches.
    #[default]
    Own,
    /// That of Curator's `InterProcessMutex`.
    Curator,
    /// That of kazoo's `Lock`.
    Kazoo,
}

/// The nodes below a lock's node in the order of a format.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ordered {
    /// Those that hold the lock or wait for it.
    pub(crate) nodes: Vec<QueueNode>,
    /// Those that belong to no lock, but come before one of `nodes` in the order of the library, or before all that may
    /// come: its clients wait for them.
    pub(crate) strays: Vec<String>,
    /// Those whose names are what kazoo's `Semaphore` gives its leases. They are leases if they are ephemeral.
    pub(crate) suspects: Vec<String>,
}

/// The texts before the numbers of Curator's locks that are no mutexes.
const CURATOR: [&str; 3] = ["__READ__", "__WRIT__", "-latch-"];
/// The node of the holders of Curator's semaphores, and of its `InterProcessSemaphoreMutex`. Beside it is one with the name
/// `locks`, which may as well be a mutex of that name.
const LEASES: &str = "leases";

/// Returns true if a node is that of a lock of Curator that excludes neither a mutex nor a lock of kazoo.
fn is_other_kind(node: &str) -> bool {
    node == LEASES || CURATOR.iter().any(|mark| number_behind(node, mark).is_some())
}

/// Returns true if a node may be a lease of kazoo's `Semaphore`: a UUID without dashes.
fn is_suspect(node: &str) -> bool {
    node.len() == 32 && node.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Format {
    /// Takes the option `wire` out of a URL.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold_core::ErrorKind::Invalid) for an unknown format.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Self> {
        match url.take("wire").as_deref() {
            None => Ok(Self::Own),
            Some("curator") => Ok(Self::Curator),
            Some("kazoo") => Ok(Self::Kazoo),
            Some(other) => {
                let meant = StoreUrl::meant(other, ["curator", "kazoo"]);
                let what = format!("wire {other:?}{meant}; curator or kazoo is allowed");
                Err(StoreUrl::invalid(what))
            }
        }
    }

    /// The name of the format, as in the URL; `None` for the engine's own.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Curator => Some("curator"),
            Self::Kazoo => Some("kazoo"),
        }
    }

    /// Returns the path of a lock's node. For another library, a name is a path below the root.
    pub(crate) fn lock(self, root: &Root, name: &Name) -> String {
        match self {
            Self::Own => root.lock(name),
            Self::Curator | Self::Kazoo => root.below(name),
        }
    }

    /// Returns how the node of a lock and those above it are created. Clients of Curator re-create what the servers
    /// remove; those of kazoo fail.
    pub(crate) fn parents(self) -> CreateMode {
        match self {
            Self::Own | Self::Curator => CreateMode::Container,
            Self::Kazoo => CreateMode::Persistent,
        }
    }

    /// Returns the beginning of the name of an attempt's node; the server adds the number.
    pub(crate) fn prefix(self, attempt: AttemptId, mode: Mode) -> String {
        match self {
            Self::Own | Self::Curator => path::prefix(attempt, mode),
            Self::Kazoo => kazoo::prefix(attempt),
        }
    }

    /// Returns what the names of all nodes of an attempt have in common.
    pub(crate) fn stem(self, attempt: AttemptId) -> String {
        match self {
            Self::Own | Self::Curator => path::stem(attempt),
            Self::Kazoo => kazoo::prefix(attempt),
        }
    }

    /// Returns the attempt in the name of a node, if it has one.
    pub(crate) fn attempt(self, node: &QueueNode) -> Option<AttemptId> {
        match self {
            Self::Own | Self::Curator => node.attempt(),
            Self::Kazoo => kazoo::attempt(&node.node),
        }
    }

    /// Orders the nodes of a lock. The error is the name of a node that the clients of this format must not meet.
    pub(crate) fn order(self, nodes: Vec<String>) -> Result<Ordered, String> {
        match self {
            Self::Own => path::queue(nodes).map(|nodes| Ordered { nodes, ..Ordered::default() }),
            Self::Curator => curator::order(nodes),
            Self::Kazoo => kazoo::order(nodes),
        }
    }

    /// Returns the node that the one at this place waits for.
    pub(crate) fn before<'a>(
        self,
        nodes: &'a [QueueNode],
        strays: &'a [String],
        place: usize,
    ) -> Option<&'a str> {
        match self {
            Self::Own | Self::Kazoo => Some(&nodes.get(place.checked_sub(1)?)?.node),
            Self::Curator => curator::before(nodes, strays, place),
        }
    }
}

/// Returns the number that a server has added behind `mark` in a node's name, as text.
fn number_behind<'a>(node: &'a str, mark: &str) -> Option<&'a str> {
    let (_, number) = node.rsplit_once(mark)?;
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_padded = number.len() == 10 || number.len() == 11 && number.starts_with('-');
    (is_padded && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// Returns the node with this text of its number. Its order goes by the text.
fn queued(node: &str, number: &str) -> QueueNode {
    let number = number.parse().unwrap_or_default();
    QueueNode { node: node.to_owned(), number, reads: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_understood_and_a_wrong_one_named_with_what_is_allowed() {
        let take = |query: &str| {
            Format::take(&mut StoreUrl::parse(&format!("zookeeper://h{query}")).unwrap())
        };
        assert_eq!(take("").unwrap(), Format::Own);
        for format in [Format::Curator, Format::Kazoo] {
            assert_eq!(take(&format!("?wire={}", format.name().unwrap())).unwrap(), format);
        }
        let error = take("?wire=kazo").unwrap_err().to_string();
        assert!(error.contains("kazo") && error.contains("curator or kazoo"), "{error}");
    }
}
