//! Calls to Redis that fail at once while it is down, with log lines and metrics about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ScriptInvocation};

use crate::breaker::{Breaker, Change};
use crate::connection::Connection;
use crate::consumer::{Consumer, ConsumerKind};
use crate::health::{Health, is_refusal};
use crate::server::Server;
use crate::server_run::ServerRun;
use crate::{Error, ErrorKind, Result};

/// Called for each failed call.
type OnError = Arc<dyn Fn() + Send + Sync>;

/// A [`Connection`] whose calls fail at once while Redis is down: after some failures in a row a circuit breaker lets
/// one call through every half second. Clones share the connection.
#[derive(Clone)]
pub struct Link {
    connection: Arc<Connection>,
    breaker: Arc<Breaker>,
    health: Arc<Health>,
    on_error: Option<OnError>,
}

impl Link {
    /// Opens the server of `url` for the consumer of this kind and name, without connecting to it.
    /// `limit` is how long Redis may take to connect, and for each reply.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that is not allowed, or outside a tokio runtime.
    pub fn open(
        url: &str,
        limit: Duration,
        clock: Clock,
        kind: ConsumerKind,
        name: &str,
    ) -> Result<Self> {
        let server = Server::open(url, clock.clone())?;
        let health = Arc::new(Health::new(Arc::new(Consumer::new(kind, name, &server))));
        Ok(Self::new(server, limit, clock, health))
    }

    /// Creates the link to a server, without connecting to it; see [`open`](Self::open).
    pub fn new(server: Server, limit: Duration, clock: Clock, health: Arc<Health>) -> Self {
        let consumer = Arc::clone(health.consumer());
        let connection = Arc::new(Connection::new(server, limit, clock.clone(), consumer));
        Self { connection, breaker: Arc::new(Breaker::new(clock)), health, on_error: None }
    }

    /// Sets a function that is called for each failed call.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// Returns the connection, for calls that bypass the circuit breaker.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Logs a warning with the name of the consumer and the server's URL.
    pub fn warn(&self, text: &str) {
        self.health.consumer().warn(text);
    }

    /// Returns the error of a call, with the server's URL.
    pub fn error(&self, error: RedisError) -> Error {
        self.health.consumer().error(error)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis does not answer or refuses, or the circuit breaker is
    /// open. [`ErrorKind::Foreign`] if the key holds another type. The other methods return the
    /// same errors.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        own(self.call(|mut to, _| async move { command.query_async(&mut to).await }).await)
    }

    /// Runs a command. Also returns the run of the server that answered.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_in_run<T: FromRedisValue>(&self, command: &Cmd) -> Result<(T, ServerRun)> {
        own(self
            .call(|mut to, run| async move { Ok((command.query_async(&mut to).await?, run)) })
            .await)
    }

    /// Runs many commands in one round trip. Also returns the run of the server that answered.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_all_in_run<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<(T, ServerRun)> {
        own(self
            .call(|mut to, run| async move { Ok((commands.query_async(&mut to).await?, run)) })
            .await)
    }

    /// Returns the run of the server.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn server_run(&self) -> Result<ServerRun> {
        self.call(|_, run| async move { Ok(run) }).await
    }

    /// Runs many commands in one round trip.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T> {
        own(self.call(|mut to, _| async move { commands.query_async(&mut to).await }).await)
    }

    /// Runs a script.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T> {
        own(self.call(|mut to, _| async move { script.invoke_async(&mut to).await }).await)
    }

    /// Runs a script even while the circuit breaker is open; for calls that are worse lost than
    /// slow.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub async fn run_past_breaker<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        let call =
            self.connection.call(|mut to, _| async move { script.invoke_async(&mut to).await });
        own(self.noted(call).await)
    }

    /// Calls `call` with a connection and the run of its server.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the error of the call, or if the circuit breaker is open.
    pub async fn call<T, F: Future<Output = RedisResult<T>>>(
        &self,
        call: impl Fn(MultiplexedConnection, ServerRun) -> F,
    ) -> Result<T> {
        if !self.breaker.lets_through() {
            let url = self.health.consumer().url();
            let next = self.breaker.pause_left().as_millis();
            let what =
                format!("circuit breaker is open: Redis at {url} failed; next try in {next}ms");
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        self.noted(self.connection.call(call)).await
    }

    /// Reports the result of a call that bypassed the circuit breaker.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] with the error of the call.
    pub async fn noted<T>(&self, call: impl Future<Output = RedisResult<T>>) -> Result<T> {
        let done = call.await;
        self.note(done.as_ref().err());
        done.map_err(|error| self.error(error))
    }

    fn note(&self, error: Option<&RedisError>) {
        let has_answered = |error: &RedisError| {
            !is_refusal(error) && error.code().is_some_and(|code| code != "LOADING")
        };
        let well = error.is_none_or(has_answered);
        let change = self.breaker.note(well);
        if let Some(error) = error {
            self.on_error.iter().for_each(|on_error| on_error());
            self.health.failed(error);
        }
        if let Some(change) = change {
            self.health.breaker(change == Change::Opened, error);
        }
        if well {
            self.health.answers();
        }
    }
}

/// Converts an error about the type of a key to [`ErrorKind::Foreign`].
fn own<T>(done: Result<T>) -> Result<T> {
    // In a transaction the code is that of the whole.
    done.map_err(|error| match error.to_string().contains("WRONGTYPE") {
        true => Error::new(
            ErrorKind::Foreign,
            "the key holds a value of another type; use another name or prefix",
        ),
        false => error,
    })
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
