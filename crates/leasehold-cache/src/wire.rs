//! A connection to Redis that is made anew when it was lost, and when its server is the wrong one by now.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};

use crate::server::Server;

/// How often it is made anew at most because of what was answered.
const PAUSE: Duration = Duration::from_secs(1);

/// Connects when it is used. A reference to it is what commands are sent on.
pub(crate) struct Wire {
    server: Server,
    /// For a connection, and for an answer.
    limit: Duration,
    clock: Clock,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// To the server of this number.
    connection: Option<(u64, ConnectionManager)>,
    /// It is not made anew again before.
    settled: Option<Deadline>,
}

impl Wire {
    /// `limit` is for connecting, and for each answer.
    pub(crate) fn new(server: Server, limit: Duration, clock: Clock) -> Self {
        Self { server, limit, clock, current: Mutex::default() }
    }

    /// The connection to the server of now, for one call.
    async fn connection(&self) -> RedisResult<ConnectionManager> {
        let number = self.server.now().number;
        if let Some((of, connection)) = &self.lock().connection
            && *of >= number
        {
            return Ok(connection.clone());
        }
        let mut server = self.server.clone();
        let waited = tokio::time::timeout(self.limit, server.wait()).await;
        let (number, client) = waited.map_err(|_| self.server.none())?;
        let mut current = self.lock();
        match &current.connection {
            Some((of, connection)) if *of >= number => Ok(connection.clone()),
            _ => {
                let connection = connection(client, self.limit)?;
                current.connection = Some((number, connection.clone()));
                Ok(connection)
            }
        }
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
        *current = Current { connection: None, settled: Some(Deadline::after(now, PAUSE)) };
        self.server.doubt();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionLike for &Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async { self.connection().await?.req_packed_command(command).await })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            self.connection().await?.req_packed_commands(commands, offset, count).await
        })
    }

    fn get_db(&self) -> i64 {
        let found = self.server.now();
        let client = found.client.as_ref().ok();
        client.map_or(0, |client| client.get_connection_info().redis_settings().db())
    }
}

/// The library makes a connection anew that was lost, and one that was not to be had; what the server
/// has answered it keeps for ever.
fn is_the_servers(error: &RedisError) -> bool {
    let about_the_call = |code| matches!(code, "WRONGTYPE" | "NOPERM" | "NOSCRIPT" | "EXECABORT");
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| !about_the_call(code))
}

fn connection(client: Client, limit: Duration) -> RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit))
        .set_number_of_retries(0);
    ConnectionManager::new_lazy_with_config(client, config)
}
