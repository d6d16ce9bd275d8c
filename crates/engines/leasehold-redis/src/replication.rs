//! The replication policy: a grant counts only if enough replicas have acknowledged it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{Mode, Renewal, mode_of};
use leasehold_core::{AttemptId, Error, ErrorKind, Result, Retry};
use redis::{Cmd, Value};

use crate::error::strange;
use crate::key::Keys;
use crate::replica_policy::Policy;
use crate::request::renewals;
use crate::topology::Route;
use crate::{semaphore, shared};

/// How long to wait for replicas; a third of the ttl, if that is less.
const LIMIT: Duration = Duration::from_secs(1);

/// How much room the table of held grants keeps when it is empty.
const KEPT: usize = 100;

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
    pub(crate) async fn secure(&self, lease: &Renewal) -> Result<()> {
        let Renewal { name, attempt, ttl, .. } = lease;
        let (attempt, ttl) = (*attempt, *ttl);
        let key = self.keys.of(name);
        let needed = self.policy.needs(self.route.replicas(&key).await?)?;
        let within = LIMIT.min(ttl / 3);
        let scripts = self.route.scripts();
        let renew = match (lease.mode, mode_of(attempt)) {
            (Mode::Permit, _) => semaphore::renewal(scripts, &self.keys, name, [lease]),
            (_, Mode::Shared) => shared::renewal(scripts, &self.keys, lease),
            _ => renewals(scripts.renew.hash(), &self.keys, std::slice::from_ref(lease)),
        };
        let wait = wait(needed, within);
        let answer = self.route.run_replicated(&key, &renew, &wait, within + LIMIT);
        let Value::Array(answers) = answer.await? else { return Err(strange("no answers")) };
        let [Value::BulkString(renewed), Value::Int(count)] = answers.as_slice() else {
            return Err(strange(answers));
        };
        if !matches!(renewed.as_slice(), b"R" | b"W") {
            let what = "the lease was lost before replicas acknowledged it; check whether another server took over";
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        let count = enough(*count, needed, within)?;
        self.held().insert(attempt, count);
        Ok(())
    }

    /// Runs a script that writes, and waits until replicas have acknowledged what it has written and read.
    /// Whether they have is unknown after an error; a repeat waits for them again.
    pub(crate) async fn acknowledged(&self, key: &str, command: &Cmd) -> Result<Value> {
        let needed = self.policy.needs(self.route.replicas(key).await?)?;
        let wait = wait(needed, LIMIT);
        let answer = self.route.run_replicated(key, command, &wait, 2 * LIMIT).await?;
        let Value::Array(answers) = answer else { return Err(strange("no answers")) };
        let Ok([answer, Value::Int(count)]) = <[Value; 2]>::try_from(answers) else {
            return Err(strange("no number of replicas"));
        };
        enough(count, needed, LIMIT).map(|_| answer).map_err(|error| {
            // The master has the write.
            Error::new(ErrorKind::Unavailable, error.message()).with_retry(Retry::Useful)
        })
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
            held.shrink_to(KEPT);
        }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<AttemptId, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many replicas have acknowledged a write, if they are enough.
fn enough(count: i64, needed: usize, within: Duration) -> Result<usize> {
    let count = usize::try_from(count).unwrap_or_default();
    if count < needed {
        let what = format!(
            "{count} replicas have acknowledged the write in {within:?}, {needed} are required \
             (option replicas); check that they follow (INFO replication)"
        );
        return Err(Error::new(ErrorKind::Refused, what).with_retry(Retry::Useful));
    }
    Ok(count)
}

fn wait(replicas: usize, within: Duration) -> Cmd {
    let mut command = redis::cmd("WAIT");
    command.arg(replicas).arg(within.as_millis().max(1) as u64);
    command
}
