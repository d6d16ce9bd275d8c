//! Acquires a permit of a semaphore: a node in its queue, and slots in its record when its turn has come.

use futures_util::future::try_join_all;
use leasehold_core::backend::{Answer, is_a_semaphore};
use leasehold_core::proto::semaphore::Demand;
use leasehold_core::{ErrorKind, Now, Result};
use zookeeper_client::Error as ZkError;

use crate::asking::{Asking, Look, queued_permit};
use crate::attempts::OwnNode;
use crate::error::{foreign, from_zk, used_up};
use crate::kind::{self, Kind};
use crate::node_data;
use crate::path::{self, QueueNode};
use crate::semaphore_record::{Seat, SemaphoreRecord};
use crate::session::{Session, Stored};
use crate::session_permits::View;

/// A semaphore as it was read at one moment.
pub(crate) struct Semaphore {
    pub(crate) record: SemaphoreRecord,
    pub(crate) view: View,
    /// The nodes of holders and waiters, in the order of the queue.
    pub(crate) nodes: Vec<QueueNode>,
    pub(crate) seats: Vec<Seat>,
}

impl Semaphore {
    /// Reads what was read from the node at `path`.
    pub(crate) fn new(mut view: View, path: &str) -> Result<Self> {
        let record = SemaphoreRecord::read(&view.data, path)?;
        let other = |node: String| foreign(&format!("{path}/{node}"), "exists");
        let nodes = path::queue(std::mem::take(&mut view.nodes)).map_err(other)?;
        let seats = Seat::all(&nodes).map_err(other)?;
        Ok(Self { record, view, nodes, seats })
    }

    /// Reads a semaphore, no older than this call; `None` if there is none.
    pub(crate) async fn now(session: &Session, path: &str) -> Result<Option<Self>> {
        let view = session.semaphore_now(path).await.map_err(|error| from_zk(error, path))?;
        view.map(|view| Self::new(view, path)).transpose()
    }

    /// Returns the node with this number.
    pub(crate) fn node(&self, number: i32) -> Option<&QueueNode> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// Gives slots to those whose turn has come. Returns the numbers of their nodes.
    pub(crate) fn serve(&mut self, path: &str) -> Result<Vec<i32>> {
        let served = self.record.serve(&self.seats, self.view.stat.czxid);
        served.map_err(|_| used_up(path, self.view.stat.czxid))
    }

    /// Stores the record with these new permits. `own` is the name and the data of a node whose data need not be read.
    pub(crate) async fn store(
        &self,
        session: &Session,
        path: &str,
        granted: &[i32],
        own: Option<(&str, &str)>,
    ) -> Result<Stored, ZkError> {
        let nodes = granted.iter().filter_map(|number| self.node(*number));
        let read = nodes.map(async |queued| {
            let path = format!("{path}/{}", queued.node);
            if let Some((_, data)) = own.filter(|(own, _)| *own == queued.node) {
                return Ok(Some((path, data.as_bytes().to_vec())));
            }
            let read = session.read(&path).await?;
            Ok::<_, ZkError>(read.map(|(data, _)| (path, data)))
        });
        let Some(granted) = try_join_all(read).await?.into_iter().collect::<Option<Vec<_>>>()
        else {
            return Ok(Stored::Gone);
        };
        let record = self.record.written();
        session.send_grants(&granted, (path, &record, self.view.stat.version)).await
    }
}

impl Asking<'_> {
    fn demand(&self) -> Result<Demand> {
        self.request.demand.ok_or_else(is_a_semaphore)
    }

    /// Creates a node. An attempt that does not wait first reads the leader's state to see whether its slots are free.
    pub(crate) async fn create_permit(&self) -> Result<Look> {
        let (attempt, demand) = (self.request.attempt, self.demand()?);
        if !self.request.wait {
            let fits = self.fits(demand).await;
            if !fits.inspect_err(|_| self.store.book().forget(attempt))? {
                self.store.book().forget(attempt);
                return Ok(Look::Answer(Answer::Busy { ask_again: None }));
            }
        }
        let prefix = format!("{}/{}", self.lock, path::permit_prefix(attempt, demand.slots()));
        let sent = self.store.clock.now();
        let data = node_data::write(self.request);
        let send = || self.session.send_permit_seat(&prefix, &self.lock, &data);
        let Some(created) = self.store.book().create(attempt, send) else {
            return Ok(Look::Answer(Answer::Ended));
        };
        match self.session.answer(created).await {
            Ok(((stat, path), view)) => {
                if stat.ephemeral_owner != self.session.id() {
                    return Ok(Look::Again); // The next round finds the node.
                }
                self.session.note_verified(sent);
                let node = OwnNode { path, czxid: stat.czxid, session: self.session.number };
                if !self.store.book().set_node(attempt, node.clone()) {
                    return Ok(Look::Answer(Answer::Ended));
                }
                self.look_at_slots(node, view.map_err(|error| self.failed(error)), true).await
            }
            Err(ZkError::NoNode) => {
                self.store.book().unseat(attempt);
                self.make_semaphore(demand).await?;
                Ok(Look::Again)
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Returns whether a permit would be granted at once, or an error if its demand does not fit the stored limit.
    async fn fits(&self, demand: Demand) -> Result<bool> {
        let Some(mut semaphore) = Semaphore::now(&self.session, &self.lock).await? else {
            return Ok(true);
        };
        semaphore.record.check(demand, true)?;
        // It would come behind all others; no node has a number so far from theirs.
        let last = semaphore.seats.last().map_or(0, |last| last.number.wrapping_add(1));
        semaphore.seats.push(Seat { number: last, slots: demand.slots() });
        // One step may grant less than all that fits.
        while !semaphore.serve(&self.lock)?.is_empty() {}
        Ok(semaphore.record.permit(last).is_some())
    }

    /// Stores the limit of a semaphore that no client has used.
    async fn make_semaphore(&self, demand: Demand) -> Result<()> {
        let record = SemaphoreRecord::new(demand.limit()).written();
        let name = self.store.lock_path(&self.request.name);
        let made = kind::make(&self.session, &name, (Kind::Semaphore, &self.lock), &record).await;
        made.map(drop).inspect_err(|_| self.store.book().forget(self.request.attempt))
    }

    /// Reads the semaphore for an attempt that has a node.
    pub(crate) async fn look_for_slots(&self, node: OwnNode, is_new: bool) -> Result<Look> {
        let view = self.session.semaphore(&self.lock).await.map_err(|error| self.failed(error));
        self.look_at_slots(node, view, is_new).await
    }

    /// Evaluates the semaphore for the attempt with this node. `is_new`: it has not waited before.
    async fn look_at_slots(
        &self,
        node: OwnNode,
        view: Result<Option<View>>,
        is_new: bool,
    ) -> Result<Look> {
        let semaphore = view.and_then(|view| {
            view.map(|view| {
                let semaphore = Semaphore::new(view, &self.lock)?;
                Ok((self.demand()?, semaphore))
            })
            .transpose()
        });
        let (demand, mut semaphore) = match semaphore {
            Ok(Some(semaphore)) => semaphore,
            Ok(None) => return Ok(self.start_over()),
            Err(error) => return self.give_up(error).await,
        };
        let own = node.path.strip_prefix(&self.lock).and_then(|node| node.get(1..));
        let own = own.and_then(|own| semaphore.nodes.iter().find(|node| node.node == own)).cloned();
        let Some(own) = own else { return Ok(self.start_over()) };
        if let Some(permit) = semaphore.record.permit(own.number).cloned() {
            return self.claim(node, (permit.token, permit.slots), None, false).await;
        }
        if let Err(error) = semaphore.record.check(demand, is_new) {
            return self.give_up(error).await;
        }
        let granted = match semaphore.serve(&self.lock) {
            Ok(granted) => granted,
            Err(error) => return self.give_up(error).await,
        };
        if !granted.is_empty() {
            return self.take(node, &own, semaphore, &granted).await;
        }
        if !self.request.wait {
            self.leave().await;
            return Ok(Look::Answer(Answer::Busy { ask_again: None }));
        }
        self.wait_for_slots(&semaphore, own.number).await
    }

    /// Stores new permits, of this attempt or of those before it, and claims its own.
    async fn take(
        &self,
        node: OwnNode,
        own: &QueueNode,
        semaphore: Semaphore,
        granted: &[i32],
    ) -> Result<Look> {
        let data = node_data::write(self.request);
        let sent: Now = self.store.clock.now();
        let own_data = Some((&*own.node, &*data));
        match semaphore.store(&self.session, &self.lock, granted, own_data).await {
            Ok(Stored::Done(_)) => match semaphore.record.permit(own.number).cloned() {
                Some(permit) => {
                    self.claim(node, (permit.token, permit.slots), Some(sent), false).await
                }
                None => Ok(Look::Again),
            },
            Ok(Stored::Changed | Stored::Gone) => Ok(Look::Again),
            Err(error) => self.give_up(self.failed(error)).await,
        }
    }

    /// Watches for the turn of an attempt: the first waiter the semaphore, and each other one the waiter before it.
    async fn wait_for_slots(&self, semaphore: &Semaphore, own: i32) -> Result<Look> {
        let (session, failed) = (&self.session, |error| self.failed(error));
        let before = semaphore.record.behind(&semaphore.seats, own);
        let armed = match before.and_then(|before| semaphore.node(before)) {
            None => {
                let watches = session.watch_semaphore(&self.lock, &semaphore.view).await;
                let Some(watches) = watches.map_err(failed)? else { return Ok(Look::Again) };
                let start = |number| self.wait_for(watches.fire(), number);
                self.store.book().arm(self.request.attempt, start)
            }
            Some(before) => {
                let path = format!("{}/{}", self.lock, before.node);
                let watched = session.watch(&path).await.map_err(failed)?;
                // The data of its node was written when it got its slots.
                let waits = watched.filter(|(stat, _)| stat.version == 0);
                let Some((_, watcher)) = waits else { return Ok(Look::Again) };
                let start = |number| self.wait_for(watcher.changed(), number);
                self.store.book().arm(self.request.attempt, start)
            }
        };
        let waits = |seat: &&Seat| semaphore.record.permit(seat.number).is_none();
        let ahead = semaphore.seats.iter().take_while(|seat| seat.number != own).filter(waits);
        Ok(Look::Answer(match armed {
            true => queued_permit(ahead.count() as u64),
            false => Answer::Ended,
        }))
    }

    /// Has the attempt create another node: the one that it had is gone.
    fn start_over(&self) -> Look {
        self.store.book().unseat(self.request.attempt);
        Look::Again
    }

    /// Ends the attempt if its request has certainly failed.
    async fn give_up(&self, error: leasehold_core::Error) -> Result<Look> {
        if error.kind().is_certain() || error.kind() == ErrorKind::Foreign {
            self.leave().await;
        }
        Err(error)
    }
}
