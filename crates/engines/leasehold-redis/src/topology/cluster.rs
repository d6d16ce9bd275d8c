//! A cluster: a link to each master, and requests go to the master that serves their slot.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Error, ErrorKind, Result};
use redis::{Cmd, Value};

use super::masters::Masters;
use super::redirect::{Redirect, redirect};
use super::slot::slot;
use crate::batcher::Batcher;
use crate::key::Keys;
use crate::script::Scripts;
use crate::source::HostPort;
use crate::source::Seeds;
use crate::supervisor::Listener;

/// The first and longest pause while a node reports that it cannot serve a slot now.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// How many redirects are followed without a pause.
const REDIRECTS: u32 = 3;

/// The masters of a cluster. It is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Cluster(Arc<Masters>);

/// What a request needs of the connection that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The channel of the client is subscribed there, so the request may wait there.
    Subscription,
    /// The request waits for a connection.
    Connection,
    /// The request fails at once if there is no connection.
    Now,
}

impl Cluster {
    /// Connects to all masters, so that the caller gets an error at once.
    pub(crate) async fn start(
        seeds: Seeds,
        keys: Keys,
        scripts: Arc<Scripts>,
        clock: Clock,
    ) -> Result<Self> {
        Ok(Self(Masters::start(seeds, keys, scripts, clock).await?))
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.0.scripts
    }

    /// Returns the slot of a key.
    pub(crate) fn slot(key: &str) -> u16 {
        slot(key.as_bytes())
    }

    /// Returns how many replicas the master of a slot is known to have.
    pub(crate) fn replicas(&self, slot: u16) -> usize {
        self.0.owners.borrow().owner(slot).map_or(0, |owner| owner.replicas)
    }

    /// Returns a link to each master.
    pub(crate) fn masters(&self) -> Result<Vec<Batcher>> {
        let owners = self.0.owners.borrow().clone();
        owners.owners.iter().map(|owner| self.0.link(&owner.place)).collect()
    }

    pub(crate) fn cannot_push(&self) -> bool {
        self.0.cannot_push()
    }

    /// Subscribes to the channel on each current and future master.
    pub(crate) fn subscribe(&self, channel: String, listener: Arc<dyn Listener>) {
        self.0.subscribe(channel, listener);
    }

    /// Runs a command at the node that serves a slot, even if the slot moves meanwhile. It is sent
    /// again only after an answer, so that no copy arrives late. Such an answer means that nothing
    /// was done, or that a script stopped in the middle, which the same attempt can run again. With
    /// an `after` command it works as [`Batcher::run_between`].
    pub(crate) async fn run(
        &self,
        slot: u16,
        command: &Cmd,
        after: Option<&Cmd>,
        limit: Duration,
        need: Need,
    ) -> Result<Value> {
        let until = Deadline::after(self.0.clock.now(), limit);
        let mut owners = self.0.owners.subscribe();
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let (mut elsewhere, mut redirects) = (None::<HostPort>, 0);
        loop {
            let left = until.remaining(self.0.clock.now());
            let known = owners.borrow_and_update().clone();
            let asking = elsewhere.is_some();
            let outcome = match elsewhere
                .take()
                .or_else(|| known.owner(slot).map(|owner| owner.place.clone()))
            {
                None => Err(unserved(slot)),
                Some(place) => {
                    let link = self.0.link(&place)?;
                    let ready = async {
                        match need {
                            // Another node than expected: there may be no connection to it yet.
                            Need::Now if redirects > 0 => link.connected(left).await,
                            Need::Subscription => link.subscribed(left).await,
                            Need::Connection => link.connected(left).await,
                            Need::Now => Ok(()),
                        }
                    };
                    tokio::select! {
                        biased;
                        ready = ready => ready.map(|()| (place, link)),
                        Ok(()) = owners.changed() => continue,
                    }
                }
            };
            let (place, outcome) = match outcome {
                Err(error) => (None, Err(error)),
                Ok((place, link)) => {
                    let left = until.remaining(self.0.clock.now());
                    let before = asking.then(|| redis::cmd("ASKING"));
                    let outcome = match (&before, after) {
                        (None, None) => link.run(command, left).await,
                        _ => link.run_between(before.as_ref(), command, after, left).await,
                    };
                    (Some(place), outcome)
                }
            };
            let Err(error) = outcome else { return outcome };
            let here = |mut to: HostPort| {
                if to.0.is_empty()
                    && let Some(place) = &place
                {
                    to.0.clone_from(&place.0);
                }
                to
            };
            match redirect(&error) {
                Some(Redirect::Moved(slot, to)) => self.0.give(slot, here(to)),
                Some(Redirect::Ask(to)) => elsewhere = Some(here(to)),
                Some(Redirect::Soon) => self.0.look_soon(),
                None => {
                    if !error.kind().is_certain() {
                        self.0.look_soon();
                    }
                    if place.is_some() || need == Need::Now {
                        return Err(error);
                    }
                }
            }
            redirects += 1;
            if redirects > REDIRECTS || redirect(&error).is_none_or(|it| it == Redirect::Soon) {
                let pause = pauses.next(fastrand::u64(..)).max(PAUSES.0);
                if pause >= until.remaining(self.0.clock.now()) {
                    return Err(error);
                }
                self.0.clock.sleep(pause).await;
            }
        }
    }
}

fn unserved(slot: u16) -> Error {
    let what = format!("no node of the cluster serves slot {slot} at the moment");
    Error::new(ErrorKind::Unavailable, what)
}
