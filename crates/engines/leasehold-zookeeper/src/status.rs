//! Reads a lock's holder and waiters, and revokes a lease.

use futures_util::future::{join_all, try_join_all};
use leasehold_core::{Forced, Holder, Name, Result, State, Status, Token, Waiter};
use zookeeper_client::Stat;

use crate::error::{foreign, from_zk, used_up};
use crate::node_data;
use crate::path::{self, QueueNode};
use crate::session::Session;
use crate::store::Store;

/// The number of waiters that are named; the others are only counted.
const SHOWN: usize = 100;
/// The number of locks that are read concurrently.
const TOGETHER: usize = 32;

/// A node in the queue and its client.
struct QueuedClient {
    holder: Holder,
    stat: Stat,
}

/// Returns the holder and the waiters of a lock.
pub(crate) async fn status(store: &Store, name: &Name) -> Result<Status> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    let nodes = session.list_now(&lock).await.map_err(|error| from_zk(error, &lock))?;
    let queue =
        path::queue(nodes).map_err(|node| foreign(&format!("{lock}/{node}"), "is there"))?;
    let more_waiters = queue.len().saturating_sub(SHOWN + 1);
    let shown = queue.iter().take(SHOWN + 1);
    let clients = try_join_all(shown.map(|queued| read(&session, &lock, queued))).await?;
    // Skip nodes that were removed meanwhile.
    let mut clients = clients.into_iter().flatten();
    let holder = clients.next();
    let waiters = clients.map(|queued| {
        let since_unix_ms = u64::try_from(queued.stat.ctime).unwrap_or_default();
        Waiter::new(queued.holder, since_unix_ms)
    });
    let waiters = waiters.collect();
    let note = match &holder {
        None => Some("ZooKeeper keeps no record of the last holder"),
        Some(queued) if queued.stat.ephemeral_owner == 0 => {
            Some("the holder's node is not ephemeral: it remains until an operator removes it")
        }
        Some(_) => None,
    };
    let stat = holder.as_ref().map(|queued| queued.stat);
    let mut status = Status::free(name);
    if holder.is_some() {
        status.state = State::Held;
    }
    status.token = stat.and_then(|stat| token(&stat));
    status.since_unix_ms = stat.and_then(|stat| u64::try_from(stat.ctime).ok());
    (status.waiters, status.more_waiters) = (Some(waiters), more_waiters);
    status.note = note.map(str::to_owned);
    status.holder = holder.map(|queued| queued.holder);
    Ok(status)
}

/// Lists the held locks whose names start with `prefix`.
pub(crate) async fn list(store: &Store, prefix: &str, limit: usize) -> Result<Vec<Status>> {
    let session = store.session()?;
    let root = store.address.root.path();
    let nodes = session.list_now(root).await.map_err(|error| from_zk(error, root))?;
    let names = nodes.iter().filter_map(|node| path::unescape(node));
    let mut names: Vec<Name> = names.filter(|name| name.as_str().starts_with(prefix)).collect();
    names.sort();
    let mut found = Vec::new();
    for names in names.chunks(TOGETHER) {
        for status in join_all(names.iter().map(|name| status(store, name))).await {
            match status {
                Ok(status) if status.state == State::Free => {}
                Ok(status) if found.len() < limit => found.push(status),
                // Other nodes than locks may be under the same root.
                Err(error) if error.kind() == leasehold_core::ErrorKind::Foreign => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(found),
            }
        }
    }
    Ok(found)
}

/// Revokes the lease of `token` by removing its node.
pub(crate) async fn force_release(store: &Store, name: &Name, token: Token) -> Result<Forced> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    let failed = |error| from_zk(error, &lock);
    let nodes = session.list_now(&lock).await.map_err(failed)?;
    let queue =
        path::queue(nodes).map_err(|node| foreign(&format!("{lock}/{node}"), "is there"))?;
    for queued in queue {
        let path = format!("{lock}/{}", queued.node);
        let Some(stat) = session.stat(&path).await.map_err(failed)? else { continue };
        match self::token(&stat) {
            None => return Err(used_up(&path, stat.czxid)),
            Some(held) if held != token => return Ok(Forced::Other(held)),
            // The server never reuses a node's name, so this removes only that lease.
            _ if session.delete(&path).await.map_err(failed)? => return Ok(Forced::Ended),
            _ => {}
        }
    }
    Ok(Forced::NotHeld)
}

async fn read(session: &Session, lock: &str, queued: &QueueNode) -> Result<Option<QueuedClient>> {
    let path = format!("{lock}/{}", queued.node);
    let read = session.read(&path).await.map_err(|error| from_zk(error, &path))?;
    Ok(read.map(|(data, stat)| QueuedClient {
        holder: node_data::read(&data, queued.attempt()),
        stat,
    }))
}

fn token(stat: &Stat) -> Option<Token> {
    u64::try_from(stat.czxid).ok().and_then(Token::new)
}
