//! Reads the permits and the waiters of a semaphore, and revokes a permit.

use futures_util::future::try_join_all;
use leasehold_core::{
    AttemptId, Forced, Name, Permits, Permitted, Result, State, Status, Token, Waiter,
};
use zookeeper_client::Stat;

use crate::error::from_zk;
use crate::node_data::{self, SHOWN};
use crate::path::{self, QueueNode};
use crate::permits::Semaphore;
use crate::session::Session;
use crate::store::Store;

/// Returns the state of a semaphore; `None` if there is none.
pub(crate) async fn status(store: &Store, lock: &str, name: &Name) -> Result<Option<Status>> {
    let session = store.session()?;
    let path = path::semaphore(lock);
    let Some(semaphore) = Semaphore::now(&session, &path).await? else { return Ok(None) };
    let limit = semaphore.record.limit();
    let mut permits = Permits::new(limit.limit.get(), limit.version);
    let holds = |node: &&QueueNode| semaphore.record.permit(node.number).is_some();
    let (holding, waiting): (Vec<&QueueNode>, Vec<&QueueNode>) =
        semaphore.nodes.iter().partition(holds);
    let slots = holding.iter().filter_map(|node| semaphore.record.permit(node.number));
    permits.held = slots.map(|permit| permit.slots.len() as u32).sum();
    let held = read(&session, &path, &holding).await?;
    for (node, (data, _)) in &held {
        let Some(permit) = semaphore.record.permit(node.number) else { continue };
        let holder = node_data::read(data, node.attempt());
        // The servers do not know how long a lease lasts, but its client does.
        let remaining = node.attempt().and_then(|attempt| store.remaining(attempt, permit.token));
        permits.holders.push(Permitted::new(holder, permit.slots.clone(), permit.token, remaining));
    }
    permits.holders.sort_by(|one, other| one.slots.cmp(&other.slots));
    let mut status = Status::free(name);
    if permits.held > 0 {
        status.state = State::Permits;
    }
    status.holder = permits.holders.first().map(|one| one.holder.clone());
    let waits = read(&session, &path, &waiting).await?;
    let waiter = |(node, (data, stat)): &(&QueueNode, (Vec<u8>, Stat))| {
        let since = u64::try_from(stat.ctime).unwrap_or_default();
        let waiter = Waiter::new(node_data::read(data, node.attempt()), since);
        waiter.with_slots(node.slots().unwrap_or(1))
    };
    status.waiters = Some(waits.iter().map(waiter).collect());
    status.more_waiters = waiting.len().saturating_sub(SHOWN);
    status.permits = Some(permits);
    Ok(Some(status))
}

/// Ends the permit that has this token, by removing its node; `None` if there is no semaphore.
pub(crate) async fn force_release(
    session: &Session,
    lock: &str,
    token: Token,
) -> Result<Option<Forced>> {
    let path = path::semaphore(lock);
    let Some(semaphore) = Semaphore::now(session, &path).await? else { return Ok(None) };
    let holder = semaphore.record.holder_of(token).and_then(|number| semaphore.node(number));
    remove(session, &path, holder).await.map(Some)
}

/// Ends the permit of one attempt, by removing its node.
pub(crate) async fn force_release_attempt(
    store: &Store,
    name: &Name,
    attempt: AttemptId,
) -> Result<Forced> {
    let session = store.session()?;
    let path = path::semaphore(&store.lock_path(name));
    let Some(semaphore) = Semaphore::now(&session, &path).await? else {
        return Ok(Forced::NotHeld);
    };
    let holds = |node: &&QueueNode| {
        node.attempt() == Some(attempt) && semaphore.record.permit(node.number).is_some()
    };
    remove(&session, &path, semaphore.nodes.iter().find(holds)).await
}

/// Removes the node of a permit below the semaphore's node.
async fn remove(session: &Session, semaphore: &str, holder: Option<&QueueNode>) -> Result<Forced> {
    let Some(holder) = holder else { return Ok(Forced::NotHeld) };
    let path = format!("{semaphore}/{}", holder.node);
    let removed = session.delete(&path).await.map_err(|error| from_zk(error, &path))?;
    Ok(if removed { Forced::Ended } else { Forced::NotHeld })
}

/// Reads the first of these nodes; those that were removed meanwhile are left out.
async fn read<'a>(
    session: &Session,
    path: &str,
    nodes: &[&'a QueueNode],
) -> Result<Vec<(&'a QueueNode, (Vec<u8>, Stat))>> {
    let read = nodes.iter().take(SHOWN).map(async |node| {
        let path = format!("{path}/{}", node.node);
        let read = session.read(&path).await.map_err(|error| from_zk(error, &path))?;
        Ok::<_, leasehold_core::Error>(read.map(|read| (*node, read)))
    });
    Ok(try_join_all(read).await?.into_iter().flatten().collect())
}
