//! The leases that clients of the API hold, by their secret ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use leasehold::clock::Clock;
use leasehold::{Error, Token};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use crate::keeper::{Ended, Held, Keeper, Request, Running};
use crate::moment::{Moment, Validity, ms};
use crate::problem::Problem;
use crate::secret::{self, Hashed};
use crate::slots::Slot;

/// The leases that have ended and are still known as such.
const ENDED: usize = 10_000;

/// A lease as its client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) store: String,
    pub(crate) name: String,
    pub(crate) token: Token,
    /// The slots of a semaphore; `None` for a lock.
    pub(crate) slots: Option<Arc<[u32]>>,
    pub(crate) ttl: Duration,
    /// The store keeps the lock if this server is killed.
    pub(crate) outlives: bool,
    pub(crate) ended: watch::Receiver<Option<Ended>>,
    requests: mpsc::Sender<Request>,
    caller: String,
}

/// All leases of this server.
#[derive(Debug)]
pub(crate) struct Leases {
    clock: Clock,
    stopping: watch::Receiver<bool>,
    table: Mutex<Table>,
    pub(crate) running: Running,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<Hashed, Lease>,
    /// In the order in which they began.
    order: Vec<Hashed>,
    /// The number of leases at which it looks for ended ones.
    look_at: usize,
}

/// What a lease is granted for.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) store: String,
    pub(crate) name: String,
    pub(crate) caller: String,
    pub(crate) ttl: Duration,
    pub(crate) outlives: bool,
}

impl Leases {
    pub(crate) fn new(clock: Clock, stopping: watch::Receiver<bool>) -> Self {
        Self { clock, stopping, table: Mutex::default(), running: Running::default() }
    }

    /// Adds a lock that is held. Returns its secret id, the lease, and when its validity ends.
    pub(crate) fn add(
        &self,
        held: Held,
        slot: Slot,
        terms: Terms,
    ) -> Result<(String, Lease, Moment), Error> {
        let id = secret::random()?;
        let Terms { store, name, caller, ttl, outlives } = terms;
        let until = held.until(&self.clock, ttl);
        let (token, slots) = (held.guard().token(), held.slots());
        let (sender, requests) = mpsc::channel(8);
        let (ended, ends) = watch::channel(None);
        let (clock, stopping) = (self.clock.clone(), self.stopping.clone());
        self.running.spawn(Keeper {
            held,
            clock,
            ttl,
            outlives,
            slot,
            requests,
            ended,
            stopping,
            until,
        });
        let requests = sender;
        let lease =
            Lease { store, name, token, slots, ttl, outlives, ended: ends, requests, caller };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let hashed = Hashed::of(&id);
        table.known.insert(hashed, lease.clone());
        table.order.push(hashed);
        table.forget();
        Ok((id, lease, until))
    }

    /// Returns the lease of an id, if this caller may use it for this lock.
    pub(crate) fn find(
        &self,
        id: &str,
        store: &str,
        name: &str,
        caller: &str,
    ) -> Result<Lease, Problem> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = table.known.get(&Hashed::of(id));
        let own =
            |lease: &&Lease| lease.store == store && lease.name == name && lease.caller == caller;
        lease.filter(own).cloned().ok_or_else(|| {
            let detail = "this server knows no such lease of this lock and this token; it may \
                          have been restarted since";
            Problem::new(StatusCode::NOT_FOUND, "unknown_lease", detail, "acquire the lock again")
        })
    }

    /// Returns the leases that have not ended.
    pub(crate) fn count(&self) -> usize {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.known.values().filter(|lease| lease.ended.borrow().is_none()).count()
    }
}

impl Table {
    /// Forgets the ended leases that began first, once there may be many. It looks at all leases, so
    /// it does that again only when their number has doubled.
    fn forget(&mut self) {
        if self.known.len() <= self.look_at.max(2 * ENDED) {
            return;
        }
        let has_ended = |lease: Option<&Lease>| lease.is_none_or(|l| l.ended.borrow().is_some());
        let ended = self.order.iter().filter(|id| has_ended(self.known.get(id))).count();
        let mut excess = ended.saturating_sub(ENDED);
        let known = &mut self.known;
        self.order.retain(|id| {
            let forgets = excess > 0 && has_ended(known.get(id));
            if forgets {
                excess -= 1;
                known.remove(id);
            }
            !forgets
        });
        self.look_at = 2 * self.known.len();
    }
}

impl Lease {
    /// Returns what its client receives for a grant.
    pub(crate) fn granted(&self, id: &str, validity: Validity) -> Value {
        let mut granted = validity.json();
        granted["lease"] = id.into();
        granted["token"] = self.token.get().into();
        granted["ttl_ms"] = ms(self.ttl).into();
        granted["outlives_server"] = self.outlives.into();
        if let Some(slots) = &self.slots {
            granted["slots"] = slots.to_vec().into();
        }
        granted
    }

    /// Renews it, and returns when its validity ends.
    pub(crate) async fn renew(&self) -> Result<Moment, Problem> {
        self.until(Request::Renew).await
    }

    /// Returns when its validity ends, without renewing it.
    pub(crate) async fn left(&self) -> Result<Moment, Problem> {
        self.until(Request::Left).await
    }

    async fn until(
        &self,
        request: fn(oneshot::Sender<Moment>) -> Request,
    ) -> Result<Moment, Problem> {
        let (answer, until) = oneshot::channel();
        if self.requests.send(request(answer)).await.is_ok()
            && let Ok(until) = until.await
        {
            return Ok(until);
        }
        Err(self.end().await)
    }

    /// Releases the lock.
    pub(crate) async fn release(&self) -> Result<(), Problem> {
        let (answer, released) = oneshot::channel();
        if self.requests.send(Request::Release(answer)).await.is_ok()
            && let Ok(released) = released.await
        {
            return released.map_err(Problem::from);
        }
        match self.end().await {
            // A repeated release has the result of the first one.
            _ if *self.ended.borrow() == Some(Ended::Released) => Ok(()),
            problem => Err(problem),
        }
    }

    /// Waits until the lease has ended, and returns why as an error.
    async fn end(&self) -> Problem {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
        problem(ended.unwrap_or(Ended::Expired))
    }
}

/// Returns the error of a request for a lease that has ended.
pub(crate) fn problem(ended: Ended) -> Problem {
    let gone = StatusCode::GONE;
    let again = "stop the work that needed the lock, and acquire it again";
    match ended {
        Ended::Released => {
            Problem::new(gone, "released", "the lease was released", "acquire again")
        }
        Ended::Expired => {
            let detail = "the lease expired: it was not renewed within its validity";
            Problem::new(gone, "expired", detail, again)
        }
        Ended::Lost(reason) => {
            Problem::new(gone, "lost", format!("the lease is lost: {reason}"), again)
        }
        Ended::Releasing => {
            let detail = "the store has not confirmed the release; the server asks it again, and \
                          the lock is free at the latest when its validity has passed";
            let next = "send the request again later, or wait for the end of the validity";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail, next)
                .retry_after(2)
        }
        Ended::Stopped => {
            let detail = "the server is stopping; the lock stays taken for the validity that was \
                          last sent";
            let next = "end the work within that validity";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail, next).retry_after(2)
        }
    }
}
