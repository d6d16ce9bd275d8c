//! Reads a lock's holders and waiters, and revokes leases.

use futures_util::future::{join_all, try_join_all};
use leasehold_core::{AttemptId, Forced, Holder, Name, Result, State, Status, Token, Waiter};
use zookeeper_client::Stat;

use crate::error::{ROUNDS, from_zk, unsettled, used_up, with_wire};
use crate::format::Format;
use crate::kind::Kind;
use crate::node_data::SHOWN;
use crate::path::{self, QueueNode};
use crate::queue::Queue;
use crate::record::Record;
use crate::session::{Listed, Session};
use crate::store::Store;
use crate::{latch, latch_value, node_data, semaphore_status};

/// The number of locks that are read concurrently.
const TOGETHER: usize = 32;

/// A node in the queue and its client.
struct QueuedClient {
    holder: Holder,
    stat: Stat,
}

/// The holders at the head of a queue.
enum Holders {
    None,
    /// One client writes, or holds alone.
    Writer,
    /// This many clients read, with this token.
    Readers(usize, Token),
}

/// Returns the holders and the waiters of a lock.
pub(crate) async fn status(store: &Store, name: &Name) -> Result<Status> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    for _ in 0..ROUNDS {
        let listed = session.queue_now(&lock).await.map_err(|error| from_zk(error, &lock))?;
        let other = match kind_of(&listed, &lock, store.format())? {
            Kind::Marked => match latch_value::read_at(&session, &path::mark(&lock)).await? {
                Some(mark) if !mark.remaining.is_zero() => return Err(with_wire(&lock)),
                _ => Some(Some(Status::free(name))),
            },
            Kind::Latch => Some(latch::status(&session, &lock, name).await?),
            Kind::Semaphore => Some(semaphore_status::status(store, &lock, name).await?),
            Kind::Free | Kind::Lock => None,
        };
        match other {
            Some(Some(status)) => return Ok(status),
            // It was removed meanwhile.
            Some(None) => continue,
            None => {}
        }
        let queue = Queue::alone(&session, listed, &lock, store.format()).await?;
        let Some(record) = queue.record(&session, &lock).await? else { continue };
        if let Some(mut status) = look(&session, &lock, name, &queue, record).await? {
            show_stray(&session, &lock, &queue, &mut status).await?;
            return Ok(status);
        }
    }
    Err(unsettled(ROUNDS))
}

/// Returns the status by a queue and its record; `None` if its holder has gone meanwhile.
async fn look(
    session: &Session,
    lock: &str,
    name: &Name,
    queue: &Queue,
    record: Option<Record>,
) -> Result<Option<Status>> {
    let holders = holders(queue, record);
    let holding = match holders {
        Holders::None => 0,
        Holders::Writer => 1,
        Holders::Readers(count, _) => count,
    };
    let (holding, waiting) = queue.nodes.split_at(holding);
    let shown = waiting.iter().take(SHOWN);
    let shown: Vec<&QueueNode> = holding.iter().take(SHOWN).chain(shown).collect();
    let clients = shown.iter().map(|queued| read(session, lock, queue, queued));
    let clients = try_join_all(clients).await?;
    let clients: Vec<_> = shown.into_iter().zip(clients).collect();
    let (held, waits) = clients.split_at(holding.len().min(SHOWN));
    // Skip nodes that were removed meanwhile.
    let held: Vec<_> = held.iter().filter_map(|(_, client)| client.as_ref()).collect();
    let Some(first) = held.first() else {
        let free = matches!(holders, Holders::None);
        return Ok(free.then(|| {
            let mut status = with_waiters(Status::free(name), waits, waiting.len());
            status.note = Some("ZooKeeper keeps no record of the last holder".to_owned());
            status
        }));
    };
    let mut status = with_waiters(Status::free(name), waits, waiting.len());
    (status.state, status.token) = match holders {
        Holders::Readers(_, token) => (State::Shared, Some(token)),
        _ => (State::Held, writes_with(queue, record, &first.stat)),
    };
    if status.state == State::Shared {
        status.readers = held.iter().map(|client| client.holder.clone()).collect();
    }
    status.since_unix_ms = u64::try_from(first.stat.ctime).ok();
    status.holder = Some(first.holder.clone());
    let note = "the holder's node is not ephemeral: it remains until an operator removes it";
    status.note = (first.stat.ephemeral_owner == 0).then(|| note.to_owned());
    // A client of ours writes its process into the node.
    if queue.format != Format::Own && first.holder.pid == 0 && status.note.is_none() {
        let shown = &first.holder.host;
        status.note = Some(format!("a client of another library holds it: {shown:?}"));
    }
    Ok(Some(status))
}

/// Returns the first node that belongs to no lock, and that is waited for.
async fn stray(session: &Session, lock: &str, queue: &Queue) -> Result<Option<(String, Stat)>> {
    let Some(stray) = queue.strays.first() else { return Ok(None) };
    let path = format!("{lock}/{stray}");
    let stat = session.stat(&path).await.map_err(|error| from_zk(error, &path))?;
    Ok(stat.map(|stat| (path, stat)))
}

/// Names the node that belongs to no lock, and that is waited for. Who came before it may hold the lock.
async fn show_stray(
    session: &Session,
    lock: &str,
    queue: &Queue,
    status: &mut Status,
) -> Result<()> {
    let Some((path, stat)) = stray(session, lock, queue).await? else { return Ok(()) };
    if status.token.is_none_or(|token| Some(token) > self::token(&stat)) {
        let (first, since) = (status.holder.take(), status.since_unix_ms.unwrap_or_default());
        let first = first.map(|holder| Waiter::new(holder, since));
        status.waiters =
            Some(first.into_iter().chain(status.waiters.take().into_iter().flatten()).collect());
        (status.state, status.token) = (State::Held, None);
        status.since_unix_ms = u64::try_from(stat.ctime).ok();
    }
    status.note = Some(format!(
        "the node {path} is no lock, and clients of Curator wait until an operator removes it"
    ));
    Ok(())
}

fn with_waiters(
    mut status: Status,
    waits: &[(&QueueNode, Option<QueuedClient>)],
    all: usize,
) -> Status {
    let named = waits.iter().filter_map(|(node, client)| {
        let client = client.as_ref()?;
        let since_unix_ms = u64::try_from(client.stat.ctime).unwrap_or_default();
        Some(Waiter::new(client.holder.clone(), since_unix_ms).with_shared(node.reads))
    });
    status.waiters = Some(named.collect());
    status.more_waiters = all.saturating_sub(SHOWN);
    status
}

/// Finds the holders. A reader holds once the record is for it.
fn holders(queue: &Queue, record: Option<Record>) -> Holders {
    match queue.nodes.first() {
        None => Holders::None,
        Some(first) if !first.reads => Holders::Writer,
        Some(_) => {
            let token = record.and_then(|record| Some((record, record.token()?)));
            let Some((record, token)) = token else { return Holders::None };
            let reads = |node: &&QueueNode| node.reads && record.is_for(node.number);
            match queue.nodes.iter().take_while(reads).count() {
                0 => Holders::None,
                count => Holders::Readers(count, token),
            }
        }
    }
}

/// Returns the token of the writer at the head of the queue.
fn writes_with(queue: &Queue, record: Option<Record>, stat: &Stat) -> Option<Token> {
    let (first, changed) = (queue.nodes.first()?, queue.stat.map_or(0, |stat| stat.mzxid));
    let record = record.filter(|record| stat.czxid <= changed && record.is_for(first.number));
    record.map_or_else(|| token(stat), |record| record.token())
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

/// Revokes the lease of `token`, or those of all readers with it, by removing their nodes.
pub(crate) async fn force_release(store: &Store, name: &Name, token: Token) -> Result<Forced> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    let failed = |error| from_zk(error, &lock);
    for _ in 0..ROUNDS {
        let listed = session.queue_now(&lock).await.map_err(failed)?;
        match kind_of(&listed, &lock, store.format())? {
            Kind::Latch | Kind::Marked => return Ok(Forced::NotHeld),
            Kind::Semaphore => {
                match semaphore_status::force_release(&session, &lock, token).await? {
                    Some(forced) => return Ok(forced),
                    None => continue,
                }
            }
            Kind::Free | Kind::Lock => {}
        }
        let queue = Queue::new(listed, &lock, store.format())?;
        let Some(record) = queue.record(&session, &lock).await? else { continue };
        let many = match holders(&queue, record) {
            Holders::None => return Ok(Forced::NotHeld),
            Holders::Readers(_, held) if held != token => return Ok(Forced::Other(held)),
            Holders::Readers(many, _) => many,
            Holders::Writer => {
                let Some(first) = queue.nodes.first() else { continue };
                let path = format!("{lock}/{}", first.node);
                let Some(stat) = session.stat(&path).await.map_err(failed)? else { continue };
                let stray = stray(&session, &lock, &queue).await?;
                if stray.is_some_and(|(_, stray)| stray.czxid < stat.czxid) {
                    return Ok(Forced::NotHeld);
                }
                match writes_with(&queue, record, &stat) {
                    None => return Err(used_up(&path, stat.czxid)),
                    Some(held) if held != token => return Ok(Forced::Other(held)),
                    Some(_) => 1,
                }
            }
        };
        // No other node gets these names, so this removes only these leases.
        let paths: Vec<String> =
            queue.nodes.iter().take(many).map(|n| format!("{lock}/{}", n.node)).collect();
        let removed = try_join_all(paths.iter().map(|path| session.delete(path))).await;
        if removed.map_err(failed)?.contains(&true) {
            return Ok(Forced::Ended);
        }
    }
    Err(unsettled(ROUNDS))
}

/// The formats of other libraries have one kind: what else is there is found when the queue is ordered.
fn kind_of(listed: &Option<Listed>, lock: &str, format: Format) -> Result<Kind> {
    match listed {
        Some((nodes, _)) if format == Format::Own => Kind::of(nodes, lock),
        _ => Ok(Kind::Free),
    }
}

/// Revokes the lease of one reader by removing its node.
pub(crate) async fn force_release_reader(
    store: &Store,
    name: &Name,
    attempt: AttemptId,
) -> Result<Forced> {
    let session = store.session()?;
    let lock = store.lock_path(name);
    for _ in 0..ROUNDS {
        let queue = Queue::now(&session, &lock).await?;
        let Some(record) = queue.record(&session, &lock).await? else { continue };
        let Holders::Readers(many, _) = holders(&queue, record) else {
            return Ok(Forced::NotHeld);
        };
        let reader = queue.nodes.iter().take(many).find(|node| node.attempt() == Some(attempt));
        let Some(reader) = reader else { return Ok(Forced::NotHeld) };
        let path = format!("{lock}/{}", reader.node);
        if session.delete(&path).await.map_err(|error| from_zk(error, &path))? {
            return Ok(Forced::Ended);
        }
    }
    Err(unsettled(ROUNDS))
}

async fn read(
    session: &Session,
    lock: &str,
    queue: &Queue,
    queued: &QueueNode,
) -> Result<Option<QueuedClient>> {
    let path = format!("{lock}/{}", queued.node);
    let read = session.read(&path).await.map_err(|error| from_zk(error, &path))?;
    Ok(read.map(|(data, stat)| QueuedClient {
        holder: node_data::read(&data, queue.format.attempt(queued)),
        stat,
    }))
}

fn token(stat: &Stat) -> Option<Token> {
    u64::try_from(stat.czxid).ok().and_then(Token::new)
}
