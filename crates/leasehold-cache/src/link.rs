//! Calls to Redis that fail at once while it is down, and what an operator sees of that.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, ScriptInvocation};

use crate::breaker::{Breaker, Change};
use crate::health::{Health, is_refusal};
use crate::run::Run;
use crate::server::Server;
use crate::stats::Counters;
use crate::user::{Kind, User};
use crate::wire::Wire;
use crate::{Error, ErrorKind, Result};

/// Clones share the connection.
#[derive(Clone)]
pub(crate) struct Link {
    wire: Arc<Wire>,
    breaker: Arc<Breaker>,
    health: Arc<Health>,
    /// Of a cache.
    counters: Option<Arc<Counters>>,
}

impl Link {
    /// Does not connect yet. `limit` is how long Redis may take to connect, and to answer. The user has
    /// this name.
    pub(crate) fn open(
        url: &str,
        limit: Duration,
        clock: Clock,
        kind: Kind,
        name: &str,
    ) -> Result<Self> {
        let server = Server::open(url, clock.clone())?;
        let health = Arc::new(Health::new(Arc::new(User::new(kind, name, &server))));
        Ok(Self::new(server, limit, clock, health, None))
    }

    pub(crate) fn new(
        server: Server,
        limit: Duration,
        clock: Clock,
        health: Arc<Health>,
        counters: Option<Arc<Counters>>,
    ) -> Self {
        let wire = Arc::new(Wire::new(server, limit, clock.clone(), Arc::clone(health.user())));
        Self { wire, breaker: Arc::new(Breaker::new(clock)), health, counters }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn warn(&self, text: &str) {
        self.health.user().warn(text);
    }

    /// The error of a call, with the server's URL.
    pub(crate) fn error(&self, error: RedisError) -> Error {
        self.health.user().error(error)
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        own(self.call(|mut to, _| async move { command.query_async(&mut to).await }).await)
    }

    /// The same, with the run of the server that has answered.
    pub(crate) async fn ask_in_run<T: FromRedisValue>(&self, command: &Cmd) -> Result<(T, Run)> {
        own(self
            .call(|mut to, run| async move { Ok((command.query_async(&mut to).await?, run)) })
            .await)
    }

    /// The same for many commands.
    pub(crate) async fn ask_all_in_run<T: FromRedisValue>(
        &self,
        commands: &Pipeline,
    ) -> Result<(T, Run)> {
        own(self
            .call(|mut to, run| async move { Ok((commands.query_async(&mut to).await?, run)) })
            .await)
    }

    /// The run that the server is in.
    pub(crate) async fn server_run(&self) -> Result<Run> {
        self.call(|_, run| async move { Ok(run) }).await
    }

    pub(crate) async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T> {
        own(self.call(|mut to, _| async move { commands.query_async(&mut to).await }).await)
    }

    pub(crate) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T> {
        own(self.call(|mut to, _| async move { script.invoke_async(&mut to).await }).await)
    }

    /// The same although the breaker is open: for a call whose loss costs more than its wait.
    pub(crate) async fn run_past_breaker<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        let call = self.wire.call(|mut to, _| async move { script.invoke_async(&mut to).await });
        own(self.noted(call).await)
    }

    pub(crate) async fn call<T, F: Future<Output = RedisResult<T>>>(
        &self,
        call: impl Fn(MultiplexedConnection, Run) -> F,
    ) -> Result<T> {
        if !self.breaker.lets_through() {
            let what = format!("Redis at {} failed a moment ago", self.health.user().url());
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
        self.noted(self.wire.call(call)).await
    }

    /// A call past the breaker.
    pub(crate) async fn noted<T>(&self, call: impl Future<Output = RedisResult<T>>) -> Result<T> {
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
            self.counters.iter().for_each(|counters| counters.remote_errors.add());
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

/// Says of what lies under a key that it is not ours.
fn own<T>(done: Result<T>) -> Result<T> {
    // In a transaction the code is that of the whole.
    done.map_err(|error| match error.to_string().contains("WRONGTYPE") {
        true => Error::new(ErrorKind::Foreign, "the key holds another type"),
        false => error,
    })
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
