//! A connection to Redis for what is no cache entry: fails at once while Redis is down.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use redis::{Cmd, FromRedisValue, Pipeline, RedisError, ScriptInvocation};

use crate::breaker::Breaker;
use crate::server::Server;
use crate::wire::Wire;
use crate::{Error, ErrorKind, Result};

/// Clones share the connection.
#[derive(Clone)]
pub(crate) struct Link {
    wire: Arc<Wire>,
    breaker: Arc<Breaker>,
}

impl Link {
    /// Does not connect yet. `limit` is how long Redis may take to connect, and to answer.
    pub(crate) fn new(url: &str, limit: Duration, clock: Clock) -> Result<Self> {
        let server = Server::open(url, clock.clone())?;
        let wire = Arc::new(Wire::new(server, limit, clock.clone()));
        Ok(Self { wire, breaker: Arc::new(Breaker::new(clock)) })
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        let mut connection = &*self.wire;
        self.call(command.query_async(&mut connection)).await
    }

    pub(crate) async fn ask_all<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T> {
        let mut connection = &*self.wire;
        self.call(commands.query_async(&mut connection)).await
    }

    pub(crate) async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T> {
        let mut connection = &*self.wire;
        self.call(script.invoke_async(&mut connection)).await
    }

    /// The same although the breaker is open: for a call whose loss costs more than its wait.
    pub(crate) async fn run_past_breaker<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T> {
        let mut connection = &*self.wire;
        self.noted(script.invoke_async(&mut connection)).await
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Result<T> {
        if !self.breaker.lets_through() {
            return Err(Error::new(ErrorKind::Unavailable, "Redis failed a moment ago"));
        }
        self.noted(call).await
    }

    async fn noted<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Result<T> {
        let done = call.await;
        let answered = |error: &RedisError| error.code().is_some_and(|code| code != "LOADING");
        self.breaker.note(done.as_ref().err().is_none_or(answered));
        // In a transaction the code is that of the whole.
        let foreign = |error: &RedisError| error.to_string().contains("WRONGTYPE");
        if let Err(error) = &done {
            self.wire.failed(error);
        }
        done.map_err(|error| match foreign(&error) {
            true => Error::new(ErrorKind::Foreign, "the key holds another type"),
            false => Error::redis(error),
        })
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
