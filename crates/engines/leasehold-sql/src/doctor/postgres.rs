//! Checks PostgreSQL: a replica, a pooler, durability, connections.

use leasehold_core::Result;
use sqlx::postgres::PgConnectOptions;

use super::probe::Probe;
use crate::address::{Address, Listen, Target};

/// How often each of two connections returns the id of its server process.
const LOOKS: usize = 8;

const POOLER: &str = "whether there is a pooler";
const NO_ANSWER: &str = "the database did not answer";

pub(super) async fn look(probe: &mut Probe, address: &Address, options: &PgConnectOptions) {
    version_and_role(probe).await;
    promises(probe).await;
    room(probe).await;
    if probe.is_silent() {
        return probe.diagnosis.unseen(POOLER, NO_ANSWER);
    }
    pooler(probe, address, options).await;
}

async fn version_and_role(probe: &mut Probe) {
    let number = "current_setting('server_version_num')";
    if let Some(version) = probe.number("the version", number).await.filter(|&v| v < 120_000) {
        probe.diagnosis.problem(
            "version",
            format!("the server is PostgreSQL {}", version / 10_000),
            "locks need version 12 or newer",
            "upgrade the server",
        );
    }
    let recovery = "CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END";
    if probe.number("whether it is a replica", recovery).await == Some(1) {
        probe.diagnosis.problem(
            "replica",
            "the server is a replica (in recovery)",
            "it cannot grant locks",
            "name the primary",
        );
    } else if setting(probe, "default_transaction_read_only").await.as_deref() == Some("on") {
        probe.diagnosis.problem(
            "read-only",
            "default_transaction_read_only is on",
            "it cannot grant locks",
            "set it off for this user or database",
        );
    }
}

async fn promises(probe: &mut Probe) {
    if setting(probe, "synchronous_commit").await.as_deref() == Some("off") {
        probe.diagnosis.warning(
            "synchronous-commit",
            "synchronous_commit is off",
            "a crash of the server loses the last grants, up to three wal_writer_delay (0.6 s), and \
             locks are granted to a second holder",
            "set synchronous_commit on for this user: ALTER ROLE ... SET synchronous_commit = on",
        );
    }
    if setting(probe, "fsync").await.as_deref() == Some("off") {
        probe.diagnosis.warning(
            "fsync",
            "fsync is off",
            "a machine that loses power may lose or damage all grants",
            "set fsync on",
        );
    }
    if let Some(level) = setting(probe, "default_transaction_isolation")
        .await
        .filter(|level| level != "read committed")
    {
        probe.diagnosis.warning(
            "isolation",
            format!("default_transaction_isolation is {level}"),
            "clients that contend for a lock's row must try again, which costs a round trip each time",
            "set it to read committed for this user",
        );
    }
    let standbys = "(SELECT count(*) FROM pg_stat_replication)";
    let synchronous = setting(probe, "synchronous_standby_names").await.unwrap_or_default();
    if let Some(count) = probe.try_number(standbys).await.filter(|&count| count > 0)
        && synchronous.is_empty()
    {
        probe.diagnosis.note(
            "failover",
            format!("{count} replicas follow it, asynchronously"),
            "a promoted replica may lack the last grants, and then grants a lock to a second holder",
            "set synchronous_standby_names, and fence the resource",
        );
    }
}

async fn room(probe: &mut Probe) {
    let used = "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
    let (used, most) = (
        probe.try_number(used).await,
        probe.try_number("current_setting('max_connections')").await,
    );
    if let (Some(used), Some(most)) = (used, most)
        && used >= most / 10 * 9
    {
        probe.diagnosis.warning(
            "connections",
            format!("{used} of {most} connections are used (max_connections)"),
            "a client without a connection cannot renew",
            "raise max_connections, or put a pooler in front",
        );
    }
}

async fn setting(probe: &mut Probe, name: &str) -> Option<String> {
    probe.text(name, &format!("current_setting('{name}')")).await
}

/// Detects a pooler that assigns a server process to each transaction: then one process serves two
/// connections in turn.
///
/// It opens the connections while the database answers a statement, so that a silent database costs
/// one timeout.
pub(super) async fn pooler(probe: &mut Probe, address: &Address, options: &PgConnectOptions) {
    let pid = "pg_backend_pid()";
    let (_, second, past) = tokio::join!(
        probe.try_number(pid),
        Probe::reach(&address.target, address),
        listen(address, options)
    );
    if probe.is_silent() {
        if matches!(address.listen, Listen::At(..)) {
            probe.diagnosis.unseen("the listen address of the URL", NO_ANSWER);
        }
        return probe.diagnosis.unseen(POOLER, NO_ANSWER);
    }
    if let (Listen::At(host, port), Err(error)) = (&address.listen, past) {
        probe.diagnosis.warning(
            "listen",
            format!("{host}:{port}, the listen address of the URL: {}", error.message()),
            "waiters are not woken, and poll",
            "correct listen=HOST:PORT, or find out why it cannot be reached",
        );
    }
    let Ok(mut second) = second else {
        return probe.diagnosis.unseen(POOLER, "a second connection cannot be made");
    };
    let (mut first_by, mut second_by) = (Vec::new(), Vec::new());
    // One after the other: a pooler sends two simultaneous statements to two processes.
    for _ in 0..LOOKS {
        first_by.extend(probe.try_number(pid).await);
        if !probe.is_silent() {
            second_by.extend(second.try_number(pid).await);
        }
        if probe.is_silent() || second.is_silent() {
            return probe.diagnosis.unseen(POOLER, NO_ANSWER);
        }
    }
    let pooled = first_by.iter().any(|pid| second_by.contains(pid));
    match (&address.listen, pooled) {
        (Listen::Here, true) => probe.diagnosis.warning(
            "pooler",
            "a pooler in between assigns a connection to each transaction",
            "a waiter cannot LISTEN through it, so it is not woken at its turn, and polls \
             instead",
            "add listen=HOST:PORT of the database itself to the URL, or listen=off",
        ),
        (Listen::Off, true) => probe.diagnosis.note(
            "pooler",
            "a pooler in between assigns a connection to each transaction",
            "waiters poll, since the URL says listen=off",
            "listen=HOST:PORT of the database itself wakes them at once",
        ),
        (Listen::At(..), _) | (_, false) => {}
    }
}

/// Connects to the listen address of the URL, if it names one.
async fn listen(address: &Address, options: &PgConnectOptions) -> Result<()> {
    let Listen::At(host, port) = &address.listen else { return Ok(()) };
    let past = Target::Postgres(Box::new(options.clone().host(host).port(*port)));
    Probe::reach(&past, address).await.map(drop)
}
