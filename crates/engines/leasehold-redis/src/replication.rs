//! The replication policy: a grant counts only if enough replicas have acknowledged it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Grant, Renewal};
use leasehold_core::{AttemptId, Error, ErrorKind, Name, Result, Retry, StoreUrl};
use redis::{Cmd, Value};

use crate::error::strange;
use crate::key::Keys;
use crate::request::renewals;
use crate::topology::Route;

/// How long to wait for replicas; a third of the ttl, if that is less.
const LIMIT: Duration = Duration::from_secs(1);
/// The largest number of replicas that an option may name.
const MOST: usize = 100;

/// How many replicas must acknowledge a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Count(usize),
    /// Enough that with the master they are more than half of the servers.
    Majority,
}

impl Policy {
    /// Takes `replicas=K` or `replicas=majority` out of a URL.
    pub(crate) fn take(url: &mut StoreUrl) -> Result<Option<Self>> {
        let Some(text) = url.take("replicas") else { return Ok(None) };
        let count = text.parse().ok().filter(|count| (1..=MOST).contains(count));
        match (text.as_str(), count) {
            ("majority", _) => Ok(Some(Self::Majority)),
            (_, Some(count)) => Ok(Some(Self::Count(count))),
            _ => {
                let what = format!(
                    "store URL: replicas {text:?}; a number from 1 to {MOST} or majority is allowed"
                );
                Err(Error::new(ErrorKind::Invalid, what))
            }
        }
    }

    /// Returns the number, if this many replicas are known.
    pub(crate) fn needs(self, known: usize) -> Result<usize> {
        match (self, known) {
            (Self::Count(count), _) => Ok(count),
            (Self::Majority, 0) => Err(Error::new(
                ErrorKind::Refused,
                "replicas=majority, but the master has no known replicas",
            )),
            (Self::Majority, known) => Ok(known.div_ceil(2)),
        }
    }
}

/// Waits for acknowledgements on separate connections, since WAIT blocks all other commands of its
/// connection.
#[derive(Debug)]
pub(crate) struct Replicas {
    policy: Policy,
    route: Route,
    keys: Keys,
    /// The number of replicas that had each held grant.
    held: Mutex<HashMap<AttemptId, usize>>,
}

impl Replicas {
    pub(crate) fn new(policy: Policy, route: Route, keys: Keys) -> Self {
        Self { policy, route, keys, held: Mutex::default() }
    }

    /// Waits until replicas have acknowledged a lease. It renews the lease for that, since WAIT
    /// covers only writes of its own connection. The record of the lease is older than that write,
    /// so a replica that has the write has the record.
    pub(crate) async fn secure(
        &self,
        name: &Name,
        attempt: AttemptId,
        grant: Grant,
        ttl: Duration,
    ) -> Result<()> {
        let key = self.keys.of(name);
        let needed = self.policy.needs(self.route.replicas(&key).await?)?;
        let within = LIMIT.min(ttl / 3);
        let lease = Renewal { name: name.clone(), attempt, base: grant.tokens.base(), ttl };
        let renew = renewals(self.route.scripts().renew.hash(), &self.keys, &[lease]);
        let wait = wait(needed, within);
        let answer = self.route.run_replicated(&key, &renew, &wait, within + LIMIT);
        let Value::Array(answers) = answer.await? else { return Err(strange("no answers")) };
        let [Value::BulkString(renewed), Value::Int(count)] = answers.as_slice() else {
            return Err(strange(answers));
        };
        if renewed.as_slice() != b"R" {
            let what = "the lease was lost before replicas acknowledged it; check whether another server took over";
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        let count = usize::try_from(*count).unwrap_or_default();
        if count < needed {
            let what = format!(
                "{count} replicas have acknowledged the grant in {within:?}, {needed} are required \
                 (option replicas); check that they follow (INFO replication)"
            );
            return Err(Error::new(ErrorKind::Refused, what).with_retry(Retry::Useful));
        }
        self.held().insert(attempt, count);
        Ok(())
    }

    /// Returns how many replicas had the grant of an attempt that holds.
    pub(crate) fn of(&self, attempt: AttemptId) -> Option<usize> {
        self.held().get(&attempt).copied()
    }

    /// Forgets an attempt that is being ended, or has ended.
    pub(crate) fn forget(&self, attempt: AttemptId) {
        let mut held = self.held();
        held.remove(&attempt);
        if held.is_empty() {
            held.shrink_to(MOST);
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<AttemptId, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(replicas: usize, within: Duration) -> Cmd {
    let mut command = redis::cmd("WAIT");
    command.arg(replicas).arg(within.as_millis().max(1) as u64);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_counts_the_master() {
        for (known, needed) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            assert_eq!(Policy::Majority.needs(known).unwrap(), needed, "{known}");
            assert!(2 * (needed + 1) > known + 1 && 2 * needed <= known + 1, "{known}");
        }
        assert_eq!(Policy::Majority.needs(0).unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(Policy::Count(3).needs(0).unwrap(), 3);
    }

    #[test]
    fn the_option_is_a_number_or_majority() {
        let take = |url: &str| Policy::take(&mut StoreUrl::parse(url).unwrap());
        assert_eq!(take("redis://h").unwrap(), None);
        assert_eq!(take("redis://h?replicas=2").unwrap(), Some(Policy::Count(2)));
        assert_eq!(take("redis://h?replicas=majority").unwrap(), Some(Policy::Majority));
        for wrong in ["0", "-1", "all", "101", ""] {
            let error = take(&format!("redis://h?replicas={wrong}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
