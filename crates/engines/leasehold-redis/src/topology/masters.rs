//! The masters of a cluster: a link to each, and which master serves which slots, checked at
//! intervals.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::Result;
use leasehold_core::clock::Clock;
use redis::Value;
use tokio::sync::{Notify, mpsc, watch};

use super::discover::{LIMIT, cluster_nodes, discover, text};
use super::nodes::Owners;
use super::once::Once;
use crate::batcher::Batcher;
use crate::key::Keys;
use crate::script::Scripts;
use crate::source::{HostPort, Maker, Seeds, Source, shown};
use crate::supervisor::{Listener, Order, Supervisor};

/// How often the slots are checked; more often while a node is down.
const LOOK: Duration = Duration::from_secs(10);
const LOOK_SOON: Duration = Duration::from_millis(300);
/// The shortest pause between two checks.
const PAUSE: Duration = Duration::from_millis(100);

/// Shared by all users of the cluster.
#[derive(Debug)]
pub(super) struct Masters {
    seeds: Vec<HostPort>,
    maker: Maker,
    keys: Keys,
    pub(super) scripts: Arc<Scripts>,
    pub(super) clock: Clock,
    pub(super) owners: watch::Sender<Arc<Owners>>,
    nodes: Mutex<KnownMasters>,
    /// Triggers a check of the slots.
    look: Arc<Notify>,
    once: Once,
}

#[derive(Debug, Default)]
struct KnownMasters {
    links: HashMap<HostPort, Batcher>,
    subscription: Option<(String, Arc<dyn Listener>)>,
}

impl Masters {
    /// Connects to all masters, so that the caller gets an error at once.
    pub(super) async fn start(
        seeds: Seeds,
        keys: Keys,
        scripts: Arc<Scripts>,
        clock: Clock,
    ) -> Result<Arc<Self>> {
        let owners = discover(&seeds.hosts, &seeds.maker).await?;
        owners.check()?;
        let masters = Self {
            seeds: seeds.hosts,
            maker: seeds.maker,
            keys,
            scripts,
            clock,
            owners: watch::Sender::new(Arc::new(owners.clone())),
            nodes: Mutex::default(),
            look: Arc::default(),
            once: Once::default(),
        };
        let connecting = owners.owners.iter().map(|owner| masters.connect(&owner.place));
        let serves = |place: &HostPort| owners.serving().any(|owner| owner.place == *place);
        let mut errors = Vec::new();
        for (owner, link) in owners.owners.iter().zip(join_all(connecting).await) {
            match link {
                Ok(link) => drop(masters.nodes().links.insert(owner.place.clone(), link)),
                Err(error) if serves(&owner.place) && error.kind().is_certain() => {
                    return Err(error);
                }
                Err(error) => errors.push(error),
            }
        }
        if errors.len() == owners.owners.len()
            && let Some(error) = errors.pop()
        {
            return Err(error);
        }
        tracing::debug!(masters = %owners.places(), "connected to a cluster");
        let masters = Arc::new(masters);
        tokio::spawn(look_again(Arc::downgrade(&masters), masters.look.clone()));
        Ok(masters)
    }

    fn nodes(&self) -> MutexGuard<'_, KnownMasters> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to a node now.
    async fn connect(&self, (host, port): &HostPort) -> Result<Batcher> {
        let source = Source::Node(self.maker.client(host, *port)?);
        let (orders, receiver) = mpsc::unbounded_channel();
        let (scripts, clock) = (self.scripts.clone(), self.clock.clone());
        let state = Supervisor::start(source, scripts.clone(), clock.clone(), receiver).await?;
        let link = Batcher::new(state, orders, scripts, self.keys.clone(), clock);
        link.check_publish().await?;
        Ok(link)
    }

    /// Returns the link to a node; creates one that begins to connect if there is none.
    pub(super) fn link(self: &Arc<Self>, place: &HostPort) -> Result<Batcher> {
        let mut nodes = self.nodes();
        if let Some(link) = nodes.links.get(place) {
            return Ok(link.clone());
        }
        let source = Source::Node(self.maker.client(&place.0, place.1)?);
        let (orders, receiver) = mpsc::unbounded_channel();
        let (scripts, clock) = (self.scripts.clone(), self.clock.clone());
        let state = Supervisor::start_later(source, scripts.clone(), clock.clone(), receiver);
        let link = Batcher::new(state, orders, scripts, self.keys.clone(), clock);
        self.subscribe_at(&nodes, &link);
        nodes.links.insert(place.clone(), link.clone());
        Ok(link)
    }

    /// Subscribes to the channel on each current and future master.
    pub(super) fn subscribe(self: &Arc<Self>, channel: String, listener: Arc<dyn Listener>) {
        let mut nodes = self.nodes();
        nodes.subscription = Some((channel, listener));
        nodes.links.values().for_each(|link| self.subscribe_at(&nodes, link));
    }

    pub(super) fn cannot_push(&self) -> bool {
        self.nodes().links.values().any(Batcher::cannot_push)
    }

    fn subscribe_at(self: &Arc<Self>, nodes: &KnownMasters, link: &Batcher) {
        let Some((channel, listener)) = &nodes.subscription else { return };
        let ear = Ear { cluster: Arc::downgrade(self), listener: listener.clone() };
        link.order(Order::Subscribe(channel.clone(), Arc::new(ear)));
    }

    /// Records that a node has redirected a slot to another node.
    pub(super) fn give(&self, slot: u16, place: HostPort) {
        self.look_soon();
        let mut owners = Owners::clone(&self.owners.borrow());
        if owners.owner(slot).is_none_or(|owner| owner.place != place) {
            tracing::debug!(slot, node = %shown(&place), "a slot has moved");
            owners.give(slot, place);
            self.install(owners);
        }
    }

    /// Triggers a check, since the slots may have moved.
    pub(super) fn look_soon(&self) {
        self.look.notify_one();
    }

    fn install(&self, owners: Owners) {
        self.owners.send_replace(Arc::new(owners));
        let subscription = self.nodes().subscription.clone();
        if let Some((_, listener)) = subscription {
            listener.moved();
        }
    }

    /// Asks all reachable nodes which node serves which slots; if none answers, asks the nodes of
    /// the URL.
    async fn look(self: &Arc<Self>) -> Result<()> {
        let links: Vec<(HostPort, Batcher)> =
            self.nodes().links.iter().map(|(place, link)| (place.clone(), link.clone())).collect();
        let asking = links.iter().map(|((host, _), link)| async move {
            let answer = link.command(&cluster_nodes(), LIMIT).await.ok()?;
            Some((host.clone(), text(answer).ok()?))
        });
        let answers: Vec<_> = join_all(asking).await.into_iter().flatten().collect();
        let owners = match answers.is_empty() {
            true => discover(&self.seeds, &self.maker).await?,
            false => Owners::read(&answers, self.maker.tls())?,
        };
        let needed = |place: &HostPort| owners.owners.iter().any(|owner| owner.place == *place);
        self.nodes().links.retain(|place, _| needed(place));
        if !owners.is_as(&self.owners.borrow()) {
            tracing::info!(masters = %owners.places(), "the slots of the cluster have moved");
            self.install(owners.clone());
        }
        // Do this before any of them pushes.
        for owner in &owners.owners {
            self.link(&owner.place)?;
        }
        Ok(())
    }

    /// Returns true while a master has no connection.
    fn is_partial(&self) -> bool {
        let owners = self.owners.borrow().clone();
        let nodes = self.nodes();
        let up = |place: &HostPort| nodes.links.get(place).is_some_and(Batcher::is_up);
        !owners.owners.iter().all(|owner| up(&owner.place))
    }
}

/// Listens to one node.
#[derive(Debug)]
struct Ear {
    cluster: Weak<Masters>,
    listener: Arc<dyn Listener>,
}

impl Listener for Ear {
    fn message(&self, payload: &[u8]) {
        let Some(cluster) = self.cluster.upgrade() else { return };
        // Use the copy that arrives first: the slot may move meanwhile.
        if cluster.once.is_first(payload, cluster.clock.now()) {
            self.listener.message(payload);
        }
    }

    fn subscribed(&self) {
        self.listener.subscribed();
    }

    fn broken(&self) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.look_soon();
        }
        self.listener.broken();
    }

    fn changed(&self, report: &[Value]) {
        self.listener.changed(report);
    }

    fn moved(&self) {
        self.listener.moved();
    }
}

/// Checks the slots at intervals and on demand, while the cluster is in use.
async fn look_again(cluster: Weak<Masters>, look: Arc<Notify>) {
    loop {
        let Some(masters) = cluster.upgrade() else { return };
        let pause = if masters.is_partial() { LOOK_SOON } else { LOOK };
        let clock = masters.clock.clone();
        drop(masters);
        tokio::select! {
            () = look.notified() => {}
            () = clock.sleep(pause) => {}
        }
        let Some(masters) = cluster.upgrade() else { return };
        if let Err(error) = masters.look().await {
            tracing::debug!(%error, "no node reports the slots of the cluster");
        }
        drop(masters);
        clock.sleep(PAUSE).await;
    }
}
