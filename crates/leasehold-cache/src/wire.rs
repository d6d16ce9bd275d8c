//! A connection to Redis that is made anew when it was lost, and when its server is the wrong one by now.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ErrorKind, RedisError};

use crate::{Error, Result};

/// How often it is made anew at most because of what was answered.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Wire {
    client: Client,
    /// For a connection, and for an answer.
    limit: Duration,
    clock: Clock,
    current: Mutex<Current>,
}

struct Current {
    connection: ConnectionManager,
    /// It is not made anew again before.
    settled: Option<Deadline>,
}

impl Wire {
    /// Connects when it is used; `limit` is for that, and for each answer.
    pub(crate) fn new(client: Client, limit: Duration, clock: Clock) -> Result<Self> {
        let connection = connection(client.clone(), limit)?;
        let current = Mutex::new(Current { connection, settled: None });
        Ok(Self { client, limit, clock, current })
    }

    /// The connection, for one call.
    pub(crate) fn get(&self) -> ConnectionManager {
        self.lock().connection.clone()
    }

    /// To be told of each error. A server that refuses what it had to take, such as a master that has
    /// become a replica, is asked for by its name once more; so is one that refused the password. True
    /// when the next call gets another connection for that.
    pub(crate) fn failed(&self, error: &RedisError) -> bool {
        let now = self.clock.now();
        let mut current = self.lock();
        if !is_the_servers(error) || current.settled.is_some_and(|until| !until.has_passed(now)) {
            return false;
        }
        let Ok(connection) = connection(self.client.clone(), self.limit) else { return false };
        *current = Current { connection, settled: Some(Deadline::after(now, PAUSE)) };
        true
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The library makes a connection anew that was lost, and one that was not to be had; what the server
/// has answered it keeps for ever.
fn is_the_servers(error: &RedisError) -> bool {
    let about_the_call = |code| matches!(code, "WRONGTYPE" | "NOPERM" | "NOSCRIPT" | "EXECABORT");
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| !about_the_call(code))
}

fn connection(client: Client, limit: Duration) -> Result<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit))
        .set_number_of_retries(0);
    ConnectionManager::new_lazy_with_config(client, config).map_err(Error::redis)
}
