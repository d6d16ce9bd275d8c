//! Repeated requests with the same `Idempotency-Key` get the same lease.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;
use tokio::sync::watch;

use crate::leases::Lease;
use crate::problem::Problem;
use crate::secret::Hashed;

/// The longest key, in bytes.
const LONGEST: usize = 255;

/// The requests that are known by a key.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<HashMap<Hashed, Known>>);

/// The secret id of a lease, and the lease.
pub(crate) type Granted = (String, Lease);

/// The result of a request, once it is known.
pub(crate) type Outcome = Option<Result<Granted, Problem>>;

#[derive(Debug)]
struct Known {
    /// The hash of the request's parameters.
    asked: Hashed,
    outcome: watch::Receiver<Outcome>,
}

/// What a request with a key has to do.
#[derive(Debug)]
pub(crate) enum Repeat {
    /// It is the first: acquire the lock, and send the result here.
    First(watch::Sender<Outcome>),
    /// It repeats an earlier one, which has this result.
    Again(watch::Receiver<Outcome>),
}

impl Repeats {
    /// Checks a key of a caller. `asked` is all that the request asks for.
    pub(crate) fn begin(&self, caller: &str, key: &str, asked: &[&str]) -> Result<Repeat, Problem> {
        if key.is_empty() || key.len() > LONGEST {
            return Err(Problem::invalid(format!(
                "Idempotency-Key: it has {} bytes; 1 to {LONGEST} are allowed",
                key.len()
            )));
        }
        let (key, asked) = (Hashed::of_parts(&[caller, key]), Hashed::of_parts(asked));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.is_of_use());
        if let Some(known) = all.get(&key) {
            if known.asked != asked {
                let detail = "Idempotency-Key: an earlier request with this key asked for \
                              something else";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                return Err(Problem::new(status, "key_reused", detail, "use another key"));
            }
            return Ok(Repeat::Again(known.outcome.clone()));
        }
        let (sender, outcome) = watch::channel(None);
        all.insert(key, Known { asked, outcome });
        Ok(Repeat::First(sender))
    }
}

impl Known {
    /// A key is forgotten when its lease has ended, or when its request has failed.
    fn is_of_use(&self) -> bool {
        match &*self.outcome.borrow() {
            Some(Ok((_, lease))) => lease.ended.borrow().is_none(),
            Some(Err(_)) => false,
            None => self.outcome.has_changed().is_ok(),
        }
    }
}

/// Waits for the result of the first request.
pub(crate) async fn outcome(mut outcome: watch::Receiver<Outcome>) -> Result<Granted, Problem> {
    match outcome.wait_for(Option::is_some).await {
        Ok(known) => known.clone().unwrap_or_else(|| Err(Problem::stopping())),
        Err(_) => Err(Problem::stopping()),
    }
}
