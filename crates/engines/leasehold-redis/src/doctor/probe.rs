//! A server that is checked: sends questions, and classifies missing answers.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::doctor::Diagnosis;
use leasehold_core::{Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, PushInfo, RedisError, Value};
use tokio::sync::mpsc;

use super::Part;
use crate::command::send;
use crate::connection::connect_with_any_protocol;
use crate::error::from_redis;

/// How long connecting, and each answer, may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How often the round trip is measured.
const ROUNDS: usize = 11;
/// A median round trip above this makes locks slower than they need to be.
const FAR: Duration = Duration::from_millis(50);
/// Clocks that differ by more than this are reported.
const APART: Duration = Duration::from_secs(1);

/// A server that answers, and the findings about it.
pub(super) struct Probe {
    connection: MultiplexedConnection,
    pub(super) pushed: mpsc::UnboundedReceiver<PushInfo>,
    pub(super) found: Found,
}

/// What is known of a server after the check.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) diagnosis: Diagnosis,
    /// An answer did not come in time. Each further question would wait as long.
    pub(super) is_silent: bool,
    pub(super) version: Option<String>,
    /// The finding that it cannot push was added.
    pub(super) cannot_push: bool,
    pub(super) run_id: Option<String>,
    /// The median of the round trips.
    pub(super) round_trip: Option<Duration>,
}

/// Why there is no answer.
pub(super) enum Silence {
    /// The user may not ask.
    Forbidden(String),
    /// The server does not know the command.
    Unknown,
    /// Another error.
    Failed(RedisError),
    /// No answer in time.
    Slow(Error),
}

impl Probe {
    /// Connects as a client does, but to a server of any kind.
    pub(super) async fn reach(client: &Client, place: &str) -> Result<Self> {
        let (sender, pushed) = mpsc::unbounded_channel();
        let (connection, cannot_push) = connect_with_any_protocol(client, LIMIT, sender).await?;
        let mut found = Found { diagnosis: Diagnosis::at(place), cannot_push, ..Found::default() };
        if cannot_push {
            found.diagnosis.warning(
                "no-push",
                "the server does not speak RESP3; probably an old proxy is in between",
                "the server cannot send pushes, so waiters poll, in no order",
                "connect to the server itself, or through a proxy that supports RESP3",
            );
        }
        Ok(Self { connection, pushed, found })
    }

    pub(super) fn into_found(self) -> Found {
        self.found
    }

    pub(super) fn diagnosis(&mut self) -> &mut Diagnosis {
        &mut self.found.diagnosis
    }

    /// Sends one command and waits at most 5 s for its answer. After a missing answer it sends
    /// nothing more.
    pub(super) async fn ask(&mut self, words: &[&str]) -> Result<Value, Silence> {
        if self.found.is_silent {
            return Err(Silence::Slow(no_answer()));
        }
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        match tokio::time::timeout(LIMIT, send(&mut self.connection, &command)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if error.code() == Some("NOPERM") => {
                Err(Silence::Forbidden(error.detail().unwrap_or_default().to_owned()))
            }
            Ok(Err(error)) if is_unknown(&error) => Err(Silence::Unknown),
            Ok(Err(error)) => Err(Silence::Failed(error)),
            Err(_elapsed) => {
                self.found.is_silent = true;
                Err(Silence::Slow(no_answer()))
            }
        }
    }

    /// Returns the answer to a question. Without an answer, `what` is noted as not checked.
    pub(super) async fn see(&mut self, what: &str, words: &[&str], right: &str) -> Option<Value> {
        let why = match self.ask(words).await {
            Ok(value) => return Some(value),
            Err(Silence::Forbidden(_)) => {
                format!("this user may not call {}; allow {right}", words[0])
            }
            Err(Silence::Unknown) => {
                format!("the server does not allow {}; ask its operator", words[0])
            }
            Err(Silence::Failed(error)) => from_redis(error).message().to_owned(),
            Err(Silence::Slow(error)) => error.message().to_owned(),
        };
        self.diagnosis().unseen(what, why);
        None
    }

    /// Checks version, mode and role, as the server reports them.
    pub(super) async fn look_at_kind(&mut self, part: Part) {
        let hello = self.see("version, mode and role", &["HELLO"], "+hello").await;
        let said = |field: &str| {
            let fields = hello.as_ref()?.as_map_iter()?;
            let text = |value: &Value| redis::from_redis_value_ref::<String>(value).ok();
            fields.filter(|(key, _)| text(key).as_deref() == Some(field)).find_map(|(_, v)| text(v))
        };
        let (version, mode, role) = (said("version"), said("mode"), said("role"));
        let major = version.as_ref().and_then(|version| version.split('.').next()?.parse().ok());
        let diagnosis = self.diagnosis();
        if let (Some(version), Some(..7)) = (&version, major) {
            diagnosis.problem(
                "version",
                format!("the server is Redis {version}"),
                "the lock scripts need 7.0, and clients refuse an older server",
                "upgrade the server to 7.0 or newer",
            );
        }
        match mode.as_deref() {
            Some("cluster") if part == Part::Cluster => {}
            Some("cluster") => diagnosis.problem(
                "cluster-node",
                "the server is a node of a cluster (cluster-enabled yes)",
                "a single node has only some of the keys, and clients refuse it",
                "name the cluster (redis+cluster://HOST:PORT), or a server outside a cluster",
            ),
            Some("sentinel") => diagnosis.problem(
                "sentinel",
                "the server is a Sentinel",
                "it keeps no data, and clients refuse it",
                "name it with redis+sentinel://HOST:PORT/MASTER-NAME, or name the server that it watches",
            ),
            Some("standalone") if part == Part::Cluster => diagnosis.problem(
                "no-cluster",
                "the server is not in cluster mode",
                "clients refuse it",
                "name it with redis://HOST:PORT",
            ),
            _ => {}
        }
        if role.as_deref() == Some("replica") {
            diagnosis.problem(
                "replica",
                "the server is a replica",
                "it cannot grant locks, and clients refuse it",
                "name its master",
            );
        }
        self.found.version = version;
    }

    /// Measures the round trip to the server, and how far its clock differs.
    pub(super) async fn measure(&mut self) {
        let clock = Clock::system();
        let (mut trips, mut best) = (Vec::new(), None::<(Duration, i64)>);
        for _ in 0..ROUNDS {
            let asked = clock.now();
            let Some(answer) = self.see("the server's clock", &["TIME"], "+time").await else {
                return;
            };
            let came = clock.now();
            let trip = Duration::from_nanos(came.steady_ns.saturating_sub(asked.steady_ns));
            trips.push(trip);
            let Ok((seconds, micros)) = redis::from_redis_value::<(i64, i64)>(answer) else {
                continue;
            };
            let middle = asked.unix_us() as i64 + trip.as_micros() as i64 / 2;
            let ahead =
                seconds.saturating_mul(1_000_000).saturating_add(micros).saturating_sub(middle);
            if best.is_none_or(|(shortest, _)| trip < shortest) {
                best = Some((trip, ahead));
            }
        }
        trips.sort();
        let middle = trips[trips.len() / 2];
        self.found.round_trip = Some(middle);
        if middle > FAR {
            self.diagnosis().warning(
                "far",
                format!("an answer takes {middle:.1?} (median of {ROUNDS})"),
                "each acquire and release waits that long, and a hand-off half as long again",
                "use a server near its clients",
            );
        }
        if let Some((trip, ahead)) = best {
            self.say_of_clock(ahead, trip);
        }
    }

    fn say_of_clock(&mut self, ahead_us: i64, trip: Duration) {
        let apart = Duration::from_micros(ahead_us.unsigned_abs());
        if apart.saturating_sub(trip / 2) <= APART {
            return;
        }
        let how = if ahead_us > 0 { "ahead of" } else { "behind" };
        self.diagnosis().warning(
            "clock",
            format!("its clock is {:.1} s {how} the local clock", apart.as_secs_f64()),
            "leases end by the server's clock, and tokens start at it: if a step corrects it, \
             leases end early or late, and after a loss of data tokens may start too low",
            "find out which clock is wrong, and let NTP slew it",
        );
    }
}

fn no_answer() -> Error {
    let what = format!("the server did not answer in {LIMIT:?}");
    Error::new(leasehold_core::ErrorKind::Unavailable, what)
}

/// Returns true for a command that does not exist: old servers lack some, managed servers remove
/// some.
fn is_unknown(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.starts_with("unknown command") || detail.starts_with("unknown subcommand")
}
