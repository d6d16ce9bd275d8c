//! Acquires a lock for a client of the API.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use leasehold::{Error, ErrorKind, LeaseKind, Name};

use crate::app::{App, Shown};
use crate::asked::Asked;
use crate::history::{Event, What};
use crate::keeper::{Ended, stopped};
use crate::leases::{Lease, Terms};
use crate::moment::Moment;
use crate::params::Params;
use crate::problem::Problem;
use crate::slots::{Slot, Waiting};

/// The names of the parameters of an acquire.
pub(crate) const PARAMS: [&str; 7] =
    ["wait", "ttl", "mode", "limit", "weight", "candidate", "metadata"];

/// The shortest ttl: a shorter one would mostly end on its way to the client.
const SHORTEST: Duration = Duration::from_millis(100);

/// The default of `wait` and of `ttl`.
const DEFAULT: Duration = Duration::from_secs(30);

/// What an acquire asks for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) shown: Arc<Shown>,
    pub(crate) name: String,
    caller: String,
    pub(crate) wait: Duration,
    ttl: Duration,
    pub(crate) asked: Asked,
    metadata: String,
    slot: Slot,
    pub(crate) waiting: Waiting,
}

/// A lease that was just granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) id: String,
    pub(crate) lease: Lease,
    /// When its validity ends.
    pub(crate) until: Moment,
}

impl Wish {
    /// Checks a request, and takes its place.
    pub(crate) fn new(
        app: &App,
        (store, name): (&str, &str),
        caller: &str,
        params: &Params,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let shown = app.shown(store)?.clone();
        Name::new(name).map_err(|error| Problem::invalid(error.to_string()))?;
        let agent = headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let given = params.get("candidate").or_else(|| params.get("metadata"));
        let metadata = match given {
            Some(text) => text.to_owned(),
            None => {
                let agent: String = agent.unwrap_or("unknown program").chars().take(80).collect();
                format!("{caller} ({agent})")
            }
        };
        Ok(Self {
            shown,
            name: name.to_owned(),
            caller: caller.to_owned(),
            wait: params.duration("wait", DEFAULT, Duration::ZERO)?,
            ttl: params.duration("ttl", DEFAULT, SHORTEST)?,
            asked: Asked::new(params)?,
            metadata,
            slot: app.slots.take(caller)?,
            waiting: app.slots.wait(store, name)?,
        })
    }

    /// Acquires the lock. Dropping the future leaves the queue.
    pub(crate) async fn grant(self, app: App) -> Result<Grant, Problem> {
        let mut stopping = app.stopping.clone();
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => Err(Problem::stopping()),
            granted = self.acquire(&app) => granted,
        }
    }

    async fn acquire(self, app: &App) -> Result<Grant, Problem> {
        let client = self.shown.store.client().await?;
        let (times, metadata) = ((self.ttl, self.wait), self.metadata);
        let held = self.asked.acquire(&client, &self.name, times, metadata).await?;
        // Only now is the validity that its client receives as long as its ttl.
        held.confirm().await.map_err(unconfirmed)?;
        let outlives = client.capability().lease == LeaseKind::Ttl;
        let terms = Terms {
            store: self.shown.store.name.clone(),
            name: self.name,
            caller: self.caller,
            ttl: self.ttl,
            outlives,
        };
        let (id, lease, until) = app.leases.add(held, self.slot, terms)?;
        tokio::spawn(report(app.clone(), lease.clone()));
        Ok(Grant { id, lease, until })
    }
}

/// Its client has never held it, so it is not lost for that client.
fn unconfirmed(error: Error) -> Error {
    if error.kind() != ErrorKind::Lost {
        return error;
    }
    let what = "the store granted the lock, and then did not confirm it in time";
    Error::new(ErrorKind::Unavailable, what).with_source(error)
}

/// Records an end of a lease that its client did not ask for.
async fn report(app: App, mut lease: Lease) {
    let ended = lease.ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended);
    let (what, reason) = match ended {
        Some(Ended::Lost(reason)) => (What::Lost, reason.to_string()),
        Some(Ended::Expired) => (What::Expired, "its client did not renew it".to_owned()),
        _ => return,
    };
    let mut event = Event::new(what, app.clock.now().unix_ms());
    event.token = Some(lease.token.get());
    event.reason = Some(reason);
    app.note(&lease.store, &lease.name, event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_its_client_never_had_is_not_lost() {
        let lost = Error::new(ErrorKind::Lost, "the lock was lost");
        assert_eq!(unconfirmed(lost).kind(), ErrorKind::Unavailable);
        let refused = Error::new(ErrorKind::Refused, "x");
        assert_eq!(unconfirmed(refused).kind(), ErrorKind::Refused);
    }
}
