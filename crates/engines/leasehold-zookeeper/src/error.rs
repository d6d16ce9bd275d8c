//! Classifies errors of ZooKeeper: the request was certainly not executed, or its result is unknown.

use std::io;

use leasehold_core::{Error, ErrorKind};
use zookeeper_client::Error as ZkError;

/// Converts the error of a request for the node `path`.
pub(crate) fn from_zk(error: ZkError, path: &str) -> Error {
    let (kind, what) = match &error {
        ZkError::NoAuth => (
            ErrorKind::Refused,
            format!(
                "the user may not do this at the node {path}: user or password are wrong, or its \
                 ACL lacks the right to create, read, write or delete; see docs/zookeeper.md"
            ),
        ),
        ZkError::AuthFailed => (
            ErrorKind::Refused,
            "the server does not accept the user, or requires another login method".to_owned(),
        ),
        ZkError::InvalidAcl => (
            ErrorKind::Refused,
            "the connection has no user that can own the nodes; set user and password, or acl=open"
                .to_owned(),
        ),
        ZkError::QuotaExceeded => {
            (ErrorKind::Refused, format!("the quota of a node above {path} is used up; raise it"))
        }
        ZkError::NoChildrenForEphemerals => return foreign(path, "is an ephemeral node"),
        ZkError::NotReadOnly => (
            ErrorKind::Unavailable,
            "the server cannot reach a majority of its ensemble and is read-only; start the other \
             servers"
                .into(),
        ),
        ZkError::BadArguments(what) => {
            (ErrorKind::Invalid, format!("the path {path} is not allowed: {what}"))
        }
        ZkError::SessionExpired => (ErrorKind::Unavailable, "the session has expired".into()),
        ZkError::Timeout => {
            (ErrorKind::Unavailable, "the server did not answer in time".to_owned())
        }
        _ => (ErrorKind::Unavailable, "the connection failed".to_owned()),
    };
    Error::new(kind, format!("{what} ({error})")).with_source(error)
}

/// Returns the error for a node at `path` that does not belong to a lock.
pub(crate) fn foreign(path: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the node {path} {what} and does not belong to a lock; choose another chroot or name, or remove it"
        ),
    )
}

/// Returns the error for a node at `path` that belongs to a lock of another library than the one that the URL names.
pub(crate) fn of_another_library(path: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the node {path} belongs to a lock of another kind or library, and this client would not exclude it; use the \
             wire of the library that wrote it, or another name"
        ),
    )
}

/// Returns the error for a name whose node is marked.
pub(crate) fn with_wire(key: &str) -> Error {
    let what = format!(
        "clients with the option wire use the lock {key}, and this client would not exclude them; give it the option \
         also with their format, until the last of them has ended for five minutes"
    );
    Error::new(ErrorKind::Foreign, what)
}

/// Returns the error for a name that clients without the option wire use.
pub(crate) fn without_wire(name: &str) -> Error {
    let what = format!(
        "clients without the option wire use the lock {name}, and this client would not exclude them; give all clients \
         the same option, and stop the others for five minutes before"
    );
    Error::new(ErrorKind::Foreign, what)
}

/// Returns true for the error of [`without_wire`].
pub(crate) fn is_without_wire(error: &Error, name: &str) -> bool {
    error.message() == without_wire(name).message()
}

/// Returns the error for a lock whose nodes would be those of clients without the option.
pub(crate) fn same_nodes(name: &str) -> Error {
    let what = format!(
        "the path of the lock {name} in kazoo is that of clients without the option also, and one path has the locks of \
         one library; leave out the chroot, or use another name"
    );
    Error::new(ErrorKind::Invalid, what)
}

/// Returns the error for a name that clients with another option wire use.
pub(crate) fn with_other_wire(mark: &str, name: &str) -> Error {
    let what = format!(
        "clients with wire={mark} use the lock {name}, and this client would not exclude them; give all clients the \
         same option, and stop the others for five minutes before"
    );
    Error::new(ErrorKind::Foreign, what)
}

/// Returns the error for the node of a lock whose data was not written by a client of this version.
pub(crate) fn not_a_record(path: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the data of the node {path} is no record of a read-write lock that this version knows; \
             update the clients, or remove the node while no client uses the lock"
        ),
    )
}

/// Returns the error for the node of a latch whose data was not written by a client of this version.
pub(crate) fn not_a_latch(path: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the data of the node {path} is no latch that this version knows; update the clients, or remove the node \
             while no client uses the latch"
        ),
    )
}

/// Returns the error for the node of a semaphore whose data was not written by a client of this version.
pub(crate) fn not_a_semaphore(path: &str) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the data of the node {path} is no record of a semaphore that this version knows; update the clients, or \
             remove the node while no client uses the semaphore"
        ),
    )
}

/// Returns the error for a transaction id that is too large for a token.
pub(crate) fn used_up(path: &str, zxid: i64) -> Error {
    Error::new(
        ErrorKind::Foreign,
        format!(
            "the tokens of {path} are used up: transaction {zxid:#x} is beyond 2^53-1, which is \
             after 2,097,151 elections; set up a new ensemble, and reset the tokens at the resources"
        ),
    )
}

/// The number of rounds in which the queue may change before a request fails.
pub(crate) const ROUNDS: usize = 32;

/// Returns the error for a queue that changed each time it was read.
pub(crate) fn unsettled(rounds: usize) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the queue of the lock changed {rounds} times while it was read; try again"),
    )
}

/// Returns the error for a missing connection, with the reason of the last failed attempt.
pub(crate) fn no_connection(why: Option<&str>) -> Error {
    let mut what = "no connection to ZooKeeper at the moment; reconnecting".to_owned();
    if let Some(why) = why {
        what = format!("{what} fails: {why}");
    }
    Error::new(ErrorKind::Unavailable, what)
}

pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
