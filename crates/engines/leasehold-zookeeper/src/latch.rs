//! The latch of a name: a node with the value, which expires by the clock of the servers.

use leasehold_core::backend::ValueSwap;
use leasehold_core::{Name, Result, Status};
use zookeeper_client::Error as ZkError;

use crate::error::{ROUNDS, from_zk, unsettled};
use crate::kind::{self, Kind};
use crate::latch_value::{Value, read};
use crate::path;
use crate::session::Session;
use crate::store::Store;

/// Returns the value of a name.
pub(crate) async fn value(store: &Store, name: &Name) -> Result<Option<Vec<u8>>> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    for _ in 0..ROUNDS {
        if let Some(read) = read(&session, &lock).await? {
            return Ok((!read.remaining.is_zero()).then_some(read.value.bytes));
        }
        match kind::now(&session, &lock).await? {
            Kind::Latch => {}
            kind => return kind.no_latch(&lock).map(|()| None),
        }
    }
    Err(unsettled(ROUNDS))
}

/// Replaces the value of a name if it is the one that the client has read. The node's version tells whether it is.
pub(crate) async fn swap(store: &Store, swap: &ValueSwap) -> Result<bool> {
    let session = store.session()?;
    let lock = store.lock_path(&swap.name);
    let ttl_ms = u64::try_from(swap.ttl.as_millis()).unwrap_or(u64::MAX);
    let data = Value { ttl_ms, bytes: swap.next.clone() }.written();
    for _ in 0..ROUNDS {
        let Some(read) = read(&session, &lock).await? else {
            if swap.seen.is_some() {
                return kind::now(&session, &lock).await?.no_latch(&lock).map(|()| false);
            }
            let own = path::latch(&lock);
            match kind::make(&session, &lock, (Kind::Latch, &own), &data).await? {
                true => return Ok(true),
                false => continue,
            }
        };
        let seen = (!read.remaining.is_zero()).then_some(read.value.bytes);
        if seen != swap.seen {
            return Ok(false);
        }
        match session.set_value(&path::latch(&lock), &data, read.stat.version).await {
            Ok(()) => return Ok(true),
            Err(ZkError::BadVersion) => return Ok(false),
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(from_zk(error, &path::latch(&lock))),
        }
    }
    Err(unsettled(ROUNDS))
}

/// Describes a latch; `None` if there is none.
pub(crate) async fn status(session: &Session, lock: &str, name: &Name) -> Result<Option<Status>> {
    let Some(read) = read(session, lock).await? else { return Ok(None) };
    Ok(Some(match read.remaining.is_zero() {
        true => Status::free(name),
        false => Status::of_latch(name, &read.value.bytes, Some(read.remaining)),
    }))
}
