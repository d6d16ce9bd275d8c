//! PostgreSQL: a replica, a pooler, what a commit promises, connections.

use sqlx::postgres::PgConnectOptions;

use super::patient::Patient;
use crate::address::{Address, Listen, Target};

/// How often two connections are asked who serves them.
const LOOKS: usize = 8;

pub(super) async fn look(patient: &mut Patient, address: &Address, options: &PgConnectOptions) {
    version_and_role(patient).await;
    promises(patient).await;
    room(patient).await;
    pooler(patient, address, options).await;
}

async fn version_and_role(patient: &mut Patient) {
    let number = "current_setting('server_version_num')";
    if let Some(version) = patient.number("the version", number).await.filter(|&v| v < 120_000) {
        patient.examined.problem(
            "version",
            format!("the server is PostgreSQL {}", version / 10_000),
            "12 or newer is needed",
            "upgrade the server",
        );
    }
    let recovery = "CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END";
    if patient.number("whether it is a replica", recovery).await == Some(1) {
        patient.examined.problem(
            "replica",
            "the server is a replica (in recovery)",
            "it can grant nothing",
            "name the primary",
        );
    } else if setting(patient, "default_transaction_read_only").await.as_deref() == Some("on") {
        patient.examined.problem(
            "read-only",
            "default_transaction_read_only is on",
            "it can grant nothing",
            "set it off for this user or database",
        );
    }
}

async fn promises(patient: &mut Patient) {
    if setting(patient, "synchronous_commit").await.as_deref() == Some("off") {
        patient.examined.warning(
            "synchronous-commit",
            "synchronous_commit is off",
            "a crash of the server forgets the last grants, up to three wal_writer_delay (0.6 s), and \
             lets in a second holder",
            "set synchronous_commit on for this user: ALTER ROLE ... SET synchronous_commit = on",
        );
    }
    if setting(patient, "fsync").await.as_deref() == Some("off") {
        patient.examined.warning(
            "fsync",
            "fsync is off",
            "a machine that loses power may lose or damage everything that was granted",
            "set fsync on",
        );
    }
    if let Some(level) = setting(patient, "default_transaction_isolation")
        .await
        .filter(|level| level != "read committed")
    {
        patient.examined.warning(
            "isolation",
            format!("default_transaction_isolation is {level}"),
            "whoever meets another at a lock's row is told to try again, which costs a round trip each",
            "set it to read committed for this user",
        );
    }
    let standbys = "(SELECT count(*) FROM pg_stat_replication)";
    let synchronous = setting(patient, "synchronous_standby_names").await.unwrap_or_default();
    if let Some(count) = patient.try_number(standbys).await.filter(|&count| count > 0)
        && synchronous.is_empty()
    {
        patient.examined.note(
            "failover",
            format!("{count} replicas follow it, asynchronously"),
            "one that is promoted may not have heard of the last grants, and lets in a second holder",
            "set synchronous_standby_names, and fence the resource",
        );
    }
}

async fn room(patient: &mut Patient) {
    let used = "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
    let (used, most) = (
        patient.try_number(used).await,
        patient.try_number("current_setting('max_connections')").await,
    );
    if let (Some(used), Some(most)) = (used, most)
        && used >= most / 10 * 9
    {
        patient.examined.warning(
            "connections",
            format!("{used} of {most} connections are used (max_connections)"),
            "a client that finds none left cannot renew",
            "raise max_connections, or put a pooler in front",
        );
    }
}

async fn setting(patient: &mut Patient, name: &str) -> Option<String> {
    patient.text(name, &format!("current_setting('{name}')")).await
}

/// Two connections that the same process of the server has served in turn go through a pooler which
/// gives it to one transaction after the other.
async fn pooler(patient: &mut Patient, address: &Address, options: &PgConnectOptions) {
    let pid = "pg_backend_pid()";
    let Ok(mut second) = Patient::reach(&address.target, address).await else {
        let why = "a second connection cannot be made";
        return patient.examined.unseen("whether there is a pooler", why);
    };
    let (mut first_by, mut second_by) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        first_by.extend(patient.try_number(pid).await);
        second_by.extend(second.try_number(pid).await);
    }
    let pooled = first_by.iter().any(|pid| second_by.contains(pid));
    match (&address.listen, pooled) {
        (Listen::Here, true) => patient.examined.warning(
            "pooler",
            "there is a pooler in between that gives a connection to each transaction anew",
            "a waiter cannot LISTEN through it, so that it is not woken when it is its turn, and looks \
             every now and then instead",
            "add listen=HOST:PORT of the database itself to the URL, or listen=off",
        ),
        (Listen::Off, true) => patient.examined.note(
            "pooler",
            "there is a pooler in between that gives a connection to each transaction anew",
            "waiters look every now and then, since the URL says listen=off",
            "listen=HOST:PORT of the database itself wakes them at once",
        ),
        (Listen::At(host, port), _) => {
            let past = Target::Postgres(Box::new(options.clone().host(host).port(*port)));
            if let Err(error) = Patient::reach(&past, address).await {
                patient.examined.warning(
                    "listen",
                    format!("{host}:{port}, where the URL says to listen: {}", error.message()),
                    "waiters are not woken, and look every now and then",
                    "correct listen=HOST:PORT, or see why it cannot be reached",
                );
            }
        }
        (_, false) => {}
    }
}
