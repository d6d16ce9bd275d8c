//! A connection to Redis that is replaced when it is lost, when another server is the master, or
//! when the server was restarted.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult};

use crate::consumer::Consumer;
use crate::server::Server;
use crate::server_run::{Said, ServerRun};

/// The shortest time between two connections that are replaced because of an error reply.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the server is asked for its run, so that a new run is noticed within twice this time.
const BEAT: Duration = Duration::from_secs(1);

/// A connection to Redis, which is made at its first use. It is replaced when it is lost, when
/// another server is the master, or when the server was restarted.
pub struct Connection(Arc<Inner>);

struct Inner {
    server: Server,
    consumer: Arc<Consumer>,
    /// The limit for a connection attempt, and for each reply.
    limit: Duration,
    clock: Clock,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    state: State,
    /// The number of connections that were started, which is the number of the last one.
    begun: u64,
    /// The server run of the last connection.
    run: Option<ServerRun>,
    /// Until then an error reply does not replace the connection.
    settled: Option<Deadline>,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    Making(u64, Making),
    Made(Made),
}

type Making = Shared<BoxFuture<'static, RedisResult<Made>>>;

/// A connection, and what is known about its server.
#[derive(Clone)]
struct Made {
    name: u64,
    /// The number of the server.
    number: u64,
    run: ServerRun,
    connection: MultiplexedConnection,
}

impl Connection {
    /// Creates a connection that is not made yet. `limit` is how long Redis may take to connect,
    /// and for each reply. Call it inside a tokio runtime.
    pub fn new(server: Server, limit: Duration, clock: Clock, consumer: Arc<Consumer>) -> Self {
        let current = Mutex::default();
        let inner = Arc::new(Inner { server, consumer, limit, clock: clock.clone(), current });
        tokio::spawn(beat(Arc::downgrade(&inner), clock));
        Self(inner)
    }

    /// Calls `call` with a connection and the run of its server. If the server refuses a call that
    /// it should accept, `call` is called once more with another connection.
    ///
    /// # Errors
    /// The error of the connection or of the call.
    pub async fn call<T, F: Future<Output = RedisResult<T>>>(
        &self,
        call: impl Fn(MultiplexedConnection, ServerRun) -> F,
    ) -> RedisResult<T> {
        let mut again = true;
        loop {
            let Made { name, run, connection, .. } = self.0.made().await?;
            let done = call(connection, run).await;
            let Err(error) = &done else { return done };
            if !self.0.failed(error, name) || !std::mem::take(&mut again) {
                return done;
            }
        }
    }

    /// Returns the run of the current server.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn run(&self) -> RedisResult<ServerRun> {
        Ok(self.0.made().await?.run)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.0.server).finish_non_exhaustive()
    }
}

impl Inner {
    /// Returns the connection to the current server.
    async fn made(&self) -> RedisResult<Made> {
        let number = self.server.now().number;
        let (name, making) = {
            let mut current = self.lock();
            match &current.state {
                State::Made(made) if made.number >= number => return Ok(made.clone()),
                State::Making(name, making) => (*name, making.clone()),
                _ => {
                    current.begun += 1;
                    let name = current.begun;
                    let making = make(self.server.clone(), self.limit, name).boxed().shared();
                    current.state = State::Making(name, making.clone());
                    (name, making)
                }
            }
        };
        let made = making.await;
        self.ended(name, made)
    }

    /// Records the result of a connection attempt, unless it is recorded already.
    fn ended(&self, name: u64, made: RedisResult<Made>) -> RedisResult<Made> {
        let mut current = self.lock();
        let is_new = matches!(&current.state, State::Making(of, _) if *of == name);
        match made {
            Ok(mut made) => {
                if is_new {
                    self.note_run(current.run.replace(made.run), &mut made);
                    current.state = State::Made(made.clone());
                }
                Ok(made)
            }
            Err(error) => {
                if is_new {
                    current.state = State::None;
                    self.server.doubt();
                }
                Err(error)
            }
        }
    }

    /// Records the server run of a new connection; `before` is the run of the previous one.
    fn note_run(&self, before: Option<ServerRun>, made: &mut Made) {
        if made.run == ServerRun::UNKNOWN && before != Some(ServerRun::UNKNOWN) {
            self.consumer.warn(
                "the user may not run INFO replication: data from before a restart of Redis \
                 cannot be recognized; allow INFO",
            );
        }
        if before.is_some_and(|before| before != made.run) {
            self.consumer.warn(
                "Redis was restarted or failed over: it may have lost data that it had \
                 acknowledged",
            );
            // A task that listens may do so at the one before.
            made.number = self.server.renew().unwrap_or(made.number);
        }
    }

    /// Handles an error of the connection of this number. Returns true if the next call gets
    /// another connection because this server refuses calls that it should accept, such as a master
    /// that has become a replica.
    fn failed(&self, error: &RedisError, name: u64) -> bool {
        let now = self.clock.now();
        let mut current = self.lock();
        let is_current = matches!(&current.state, State::Made(made) if made.name == name);
        if error.is_unrecoverable_error() && !is_the_servers(error) {
            if is_current {
                current.state = State::None;
            }
            return false;
        }
        if !is_the_servers(error) || !is_current {
            return is_the_servers(error);
        }
        if current.settled.is_some_and(|until| !until.has_passed(now)) {
            return false;
        }
        current.settled = Some(Deadline::after(now, PAUSE));
        current.state = State::None;
        let says_no_run = current.run == Some(ServerRun::UNKNOWN);
        drop(current);
        self.server.doubt();
        if says_no_run && error.code() == Some("READONLY") {
            self.server.renew();
        }
        true
    }

    /// Checks that the server is still in the same run; if not, reconnects.
    async fn check(&self) {
        if self.lock().begun == 0 {
            return;
        }
        let Ok(mut made) = self.made().await else { return };
        let same = match ServerRun::ask(&mut made.connection).await {
            Ok(Said::Run(run)) => run == made.run,
            Ok(Said::Refused(_)) => made.run == ServerRun::UNKNOWN,
            Err(_) => false,
        };
        if same {
            return;
        }
        {
            let mut current = self.lock();
            if matches!(&current.state, State::Made(now) if now.name == made.name) {
                current.state = State::None;
            }
        }
        let _ = self.made().await;
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the connection regularly for as long as it is used.
async fn beat(inner: Weak<Inner>, clock: Clock) {
    loop {
        clock.sleep(BEAT).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.check().await;
    }
}

async fn make(mut server: Server, limit: Duration, name: u64) -> RedisResult<Made> {
    let waited = tokio::time::timeout(limit, server.wait()).await;
    let (number, client) = waited.map_err(|_| server.none())?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let run = match ServerRun::ask(&mut connection).await? {
        Said::Run(run) => run,
        Said::Refused(error) => {
            tracing::debug!(%error, "Redis refuses INFO");
            ServerRun::UNKNOWN
        }
    };
    Ok(Made { name, number, run, connection })
}

/// Returns true if another connection may fix the error; false for an error of the network.
fn is_the_servers(error: &RedisError) -> bool {
    let others = |code| {
        let of_the_call = matches!(code, "WRONGTYPE" | "NOPERM" | "NOSCRIPT" | "EXECABORT");
        // The same server would say the same.
        of_the_call || matches!(code, "OOM" | "MISCONF" | "BUSY" | "LOADING")
    };
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code().is_some_and(|code| !others(code))
}
