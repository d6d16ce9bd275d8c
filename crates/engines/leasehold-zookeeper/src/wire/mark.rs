//! The mark under the node that clients without the option `wire` use: they are refused, since they would not exclude
//! those of the other library.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::Covered;
use leasehold_core::{Deadline, Error, Name, Result};
use zookeeper_client::Error as ZkError;

use crate::error::{ROUNDS, from_zk, is_without_wire, unsettled, with_other_wire};
use crate::format::Format;
use crate::kind::{self, Kind};
use crate::latch_value::{self, Value};
use crate::node_data;
use crate::path::{self, QueueNode};
use crate::queue::Queue;
use crate::session::Session;
use crate::store::Store;

/// How often a mark is renewed.
const EVERY: Duration = Duration::from_secs(60);
/// How long a mark refuses others after its last renewal, by the clock of the servers.
const LASTS: Duration = Duration::from_secs(300);
/// How many names are remembered; beyond that, names are marked again.
const MOST: usize = 10_000;
/// How much longer than its lease a client with `also` makes a mark last.
const SPARE: Duration = Duration::from_secs(1);
/// What each mark begins with; the name of the format follows.
const TEXT: &str = "leasehold wire ";
/// What follows that in a mark that clients with `also` have made last longer, before a time and a colon.
const ALSO: &str = "also:";

/// When the marks of names are to be renewed.
#[derive(Debug)]
pub(super) struct Marks {
    store: Arc<Store>,
    due: Mutex<HashMap<Name, Deadline>>,
}

impl Marks {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, due: Mutex::default() }
    }

    /// Returns true if the mark of a name is to be renewed.
    pub(super) fn is_due(&self, name: &Name) -> bool {
        self.lock().get(name).is_none_or(|until| until.has_passed(self.store.clock.now()))
    }

    /// Has clients without the option refused under this name. Does nothing if it did so a short while ago. Returns false
    /// if clients with `also` have the native lock, which are to be waited for.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`](leasehold_core::ErrorKind::Foreign) if clients without the option, or with another format, use
    /// the name.
    pub(super) async fn refresh(&self, name: &Name) -> Result<bool> {
        if !self.is_due(name) {
            return Ok(true);
        }
        let now = self.store.clock.now();
        if !mark(&self.store, name).await? {
            return Ok(false);
        }
        let mut due = self.lock();
        if due.len() >= MOST {
            due.retain(|_, until| !until.has_passed(now));
        }
        if due.len() >= MOST {
            due.clear();
        }
        due.insert(name.clone(), Deadline::after(now, EVERY));
        Ok(true)
    }

    /// Returns true if clients without the option use the nodes of this lock too.
    pub(super) fn is_native(&self, name: &Name) -> bool {
        self.store.lock_path(name) == self.store.address.native.lock(name)
    }

    /// Looks for the mark of this format, for a client that holds the lock of the other library, and makes it last for its
    /// lease. A mark that no client with `wire` has renewed in time is removed, unless this client relies on it (`held`).
    pub(super) async fn cover(&self, name: &Name, ttl: Duration, held: bool) -> Result<Covered> {
        let session = self.store.session()?;
        let native = self.store.address.native.lock(name);
        let path = path::mark(&native);
        let format = self.store.format().name().unwrap_or_default();
        let needed = ttl + SPARE;
        for _ in 0..ROUNDS {
            let Some(found) = latch_value::read_at(&session, &path).await? else {
                return Ok(Covered::Open);
            };
            let Some(mark) = Parsed::of(&found.value.bytes, format) else {
                return Err(other_mark(&found.value.bytes, &native));
            };
            if found.remaining.is_zero() {
                return Ok(Covered::Open);
            }
            let ends_ms = i128::from(found.stat.mtime) + i128::from(found.value.ttl_ms);
            let seen = mark.seen_until.unwrap_or(ends_ms);
            let is_over = mark.seen_until.is_some()
                && seen <= ends_ms - i128::try_from(found.remaining.as_millis()).unwrap_or(0);
            let written = if is_over && !held {
                match session.remove_value(&path, found.stat.version).await {
                    Ok(()) | Err(ZkError::NoNode) => return Ok(Covered::Open),
                    Err(error) => Err(error),
                }
            } else if found.remaining >= needed {
                return Ok(Covered::Marked);
            } else {
                let bytes = format!("{TEXT}{ALSO}{seen}:{format}").into_bytes();
                let ttl_ms = u64::try_from(needed.as_millis()).unwrap_or(u64::MAX);
                let data = Value { ttl_ms, bytes }.written();
                session.set_value(&path, &data, found.stat.version).await
            };
            match written {
                Ok(()) => return Ok(Covered::Marked),
                Err(ZkError::BadVersion | ZkError::NoNode) => {}
                Err(error) => return Err(from_zk(error, &path)),
            }
        }
        Err(unsettled(ROUNDS))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Deadline>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a mark says.
struct Parsed {
    /// Of clients with `also`: until when clients with `wire` count as there, by the clock of the servers, in milliseconds.
    seen_until: Option<i128>,
}

impl Parsed {
    /// Reads the mark of this format; `None` for another one.
    fn of(bytes: &[u8], format: &str) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?.strip_prefix(TEXT)?;
        let Some(also) = text.strip_prefix(ALSO) else {
            return (text == format).then_some(Self { seen_until: None });
        };
        let (seen, of) = also.split_once(':')?;
        let seen_until = Some(seen.parse().ok()?);
        (of == format).then_some(Self { seen_until })
    }
}

fn other_mark(bytes: &[u8], native: &str) -> Error {
    let text = String::from_utf8_lossy(bytes);
    with_other_wire(text.strip_prefix(TEXT).unwrap_or(&text), native)
}

/// Writes or renews the mark of a name, unless clients use it in another format. Returns false if clients with `also` have
/// the native lock.
async fn mark(store: &Store, name: &Name) -> Result<bool> {
    let session = store.session()?;
    let (lock, native) = (store.lock_path(name), store.address.native.lock(name));
    let path = path::mark(&native);
    let failed = |error| from_zk(error, &path);
    let format = store.format().name().unwrap_or_default();
    let bytes = format!("{TEXT}{format}").into_bytes();
    let ttl_ms = u64::try_from(LASTS.as_millis()).unwrap_or(u64::MAX);
    let data = Value { ttl_ms, bytes: bytes.clone() }.written();
    for _ in 0..ROUNDS {
        let found = latch_value::read_at(&session, &path).await?;
        if let Some(found) = found.as_ref().filter(|found| !found.remaining.is_zero())
            && Parsed::of(&found.value.bytes, format).is_none()
        {
            return Err(other_mark(&found.value.bytes, &native));
        }
        // Without the option, the engine has the layout of Curator: at the same path, both exclude each other.
        if store.format() == Format::Curator && lock == native {
            return Ok(true);
        }
        let written = match found {
            // Never for a shorter time than clients with also rely on it.
            Some(found) => {
                let left_ms = u64::try_from(found.remaining.as_millis()).unwrap_or(u64::MAX);
                let longer = Value { ttl_ms: ttl_ms.max(left_ms), bytes: bytes.clone() };
                session.set_value(&path, &longer.written(), found.stat.version).await
            }
            None if lock == native => make_beside(&session, &lock, (&path, &data)).await?,
            None => match kind::make(&session, &native, (Kind::Marked, &path), &data).await {
                Ok(true) => Ok(()),
                Ok(false) => continue,
                Err(error) if is_without_wire(&error, &native) => {
                    match holds_also(&session, &native).await? {
                        None => continue,
                        Some(true) => return Ok(false),
                        Some(false) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            },
        };
        match written {
            Ok(()) => return Ok(true),
            Err(ZkError::BadVersion | ZkError::NoNode | ZkError::NodeExists) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(unsettled(ROUNDS))
}

/// Returns true if all attempts in the queue of a lock are of clients with `also`, and `None` if it has none. What the
/// data of a node say of its client never changes.
async fn holds_also(session: &Session, lock: &str) -> Result<Option<bool>> {
    let listed = session.queue_now(lock).await.map_err(|error| from_zk(error, lock))?;
    let nodes = listed.map(|(nodes, _)| nodes).unwrap_or_default();
    let mut found = None;
    for node in nodes.iter().filter(|node| QueueNode::parse(node).is_some()) {
        let path = format!("{lock}/{node}");
        match session.record(&path).await {
            Ok((data, _)) if node_data::is_also(&data) => found = Some(true),
            Ok(_) => return Ok(Some(false)),
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(from_zk(error, &path)),
        }
    }
    Ok(found)
}

/// Creates the mark among the nodes of kazoo's clients, which ignore it. Clients without the option that have come before
/// are found when the queue is read.
async fn make_beside(
    session: &Session,
    lock: &str,
    (path, data): (&str, &[u8]),
) -> Result<Result<(), ZkError>> {
    let listed = session.queue_now(lock).await.map_err(|error| from_zk(error, lock))?;
    let is_there = listed.is_some();
    Queue::new(listed, lock, Format::Kazoo)?;
    if !is_there {
        let made = session.make_parents(lock, Format::Kazoo.parents()).await;
        made.map_err(|(error, path)| from_zk(error, &path))?;
    }
    Ok(session.make_value(path, data).await)
}
