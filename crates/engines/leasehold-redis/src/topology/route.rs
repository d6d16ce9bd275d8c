//! The route from a lock name to the server that keeps the lock.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Name, Result};
use redis::{Cmd, Value};

use super::cluster::{Cluster, Need};
use crate::batcher::{Batcher, alone, answered};
use crate::error::strange;
use crate::key::Keys;
use crate::reply::Reply;
use crate::request::Request;
use crate::script::Scripts;
use crate::shared;
use crate::source::Sentinels;
use crate::supervisor::{Listener, Order};

const LIMIT: Duration = Duration::from_secs(1);

/// One server for all locks, or a cluster.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// One server, with the sentinels that name it, if any.
    One(Batcher, Option<Arc<Sentinels>>),
    Cluster(Cluster),
}

impl Route {
    pub(crate) fn scripts(&self) -> &Scripts {
        match self {
            Self::One(link, _) => link.scripts(),
            Self::Cluster(cluster) => cluster.scripts(),
        }
    }

    /// Sets where pushes go: the channel of the client, and the listener.
    pub(crate) fn subscribe(&self, channel: String, listener: Arc<dyn Listener>) {
        match self {
            Self::One(link, _) => link.order(Order::Subscribe(channel, listener)),
            Self::Cluster(cluster) => cluster.subscribe(channel, listener),
        }
    }

    /// Returns true if a waiting request need not be delayed any more. In a cluster it is delayed
    /// on its way, since the state may change.
    pub(crate) fn is_subscribed(&self) -> bool {
        match self {
            Self::One(link, _) => link.is_subscribed(),
            Self::Cluster(_) => true,
        }
    }

    pub(crate) async fn subscribed(&self, limit: Duration) -> Result<()> {
        match self {
            Self::One(link, _) => link.subscribed(limit).await,
            Self::Cluster(_) => Ok(()),
        }
    }

    /// Returns true if waiters must ask again, because a server cannot push.
    pub(crate) fn cannot_push(&self) -> bool {
        match self {
            Self::One(link, _) => link.cannot_push(),
            Self::Cluster(cluster) => cluster.cannot_push(),
        }
    }

    /// Sends one request, to the scripts that its lock needs.
    pub(crate) async fn send(&self, keys: &Keys, request: Request) -> Result<Reply> {
        // In a block, and in this function: what lives longer makes the future of each call larger.
        let shared = {
            let reply = match self {
                _ if request.is_apart() => Reply::shared(request),
                Self::One(link, _) => link.send(request).await?,
                Self::Cluster(cluster) => {
                    let waits = request.acquire().is_some_and(|request| request.wait);
                    let command = alone(cluster.scripts(), &request, keys);
                    let key = keys.of(request.name());
                    let running = self.run_patiently(&key, &command, waits, request.limit);
                    // In a box: it is large, and a single server does not need it.
                    answered(&request, Box::pin(running).await?, keys)?
                }
            };
            match reply {
                Reply { shared: Some(request), .. } => request,
                reply => return Ok(reply),
            }
        };
        Box::pin(self.send_shared(keys, shared)).await
    }

    async fn send_shared(&self, keys: &Keys, request: Box<Request>) -> Result<Reply> {
        let command = shared::request(self.scripts(), keys, &request);
        let waits = request.acquire().is_some_and(|request| request.wait);
        let key = keys.of(request.name());
        let answer = self.run_patiently(&key, &command, waits, request.limit).await?;
        answered(&request, answer, keys)
    }

    /// Runs a script call for a lock, and for other locks of the same [group](Self::together).
    pub(crate) async fn run(&self, key: &str, command: &Cmd, limit: Duration) -> Result<Value> {
        match self {
            Self::One(link, _) => link.run(command, limit).await,
            Self::Cluster(cluster) => {
                cluster.run(Cluster::slot(key), command, None, limit, Need::Now).await
            }
        }
    }

    /// Runs a script call for one lock. In a cluster it may wait for a connection or, if `waits`,
    /// for the subscription there.
    pub(crate) async fn run_patiently(
        &self,
        key: &str,
        command: &Cmd,
        waits: bool,
        limit: Duration,
    ) -> Result<Value> {
        match self {
            Self::One(link, _) => link.run(command, limit).await,
            Self::Cluster(cluster) => {
                let need = if waits { Need::Subscription } else { Need::Connection };
                cluster.run(Cluster::slot(key), command, None, limit, need).await
            }
        }
    }

    /// Does the same with a WAIT on the same connection; returns both answers.
    pub(crate) async fn run_replicated(
        &self,
        key: &str,
        command: &Cmd,
        wait: &Cmd,
        limit: Duration,
    ) -> Result<Value> {
        match self {
            Self::One(link, _) => link.run_between(None, command, Some(wait), limit).await,
            Self::Cluster(cluster) => {
                let slot = Cluster::slot(key);
                cluster.run(slot, command, Some(wait), limit, Need::Connection).await
            }
        }
    }

    /// Returns how many replicas the server of a key is known to have. Sentinels and clusters count
    /// all known replicas, a single server counts the connected ones.
    pub(crate) async fn replicas(&self, key: &str) -> Result<usize> {
        match self {
            Self::One(_, Some(sentinels)) => Ok(sentinels.replicas()),
            Self::One(link, _) => {
                let Value::Array(role) = link.command(&redis::cmd("ROLE"), LIMIT).await? else {
                    return Err(strange("ROLE"));
                };
                let Some(Value::Array(replicas)) = role.get(2) else { return Ok(0) };
                Ok(replicas.len())
            }
            Self::Cluster(cluster) => Ok(cluster.replicas(Cluster::slot(key))),
        }
    }

    /// Groups items that may share one call; returns their numbers.
    pub(crate) fn together<'a>(
        &self,
        keys: &Keys,
        names: impl ExactSizeIterator<Item = &'a Name>,
    ) -> Vec<Vec<usize>> {
        match self {
            Self::One(..) => vec![(0..names.len()).collect()],
            Self::Cluster(_) => {
                let slots = names.map(|name| Cluster::slot(&keys.of(name)));
                let mut by_slot: Vec<(u16, usize)> = slots.zip(0..).collect();
                by_slot.sort_unstable();
                let groups = by_slot.chunk_by(|one, next| one.0 == next.0);
                groups.map(|group| group.iter().map(|(_, number)| *number).collect()).collect()
            }
        }
    }

    /// Returns all servers that keep locks.
    pub(crate) fn all(&self) -> Result<Vec<Batcher>> {
        match self {
            Self::One(link, _) => Ok(vec![link.clone()]),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }
}
