//! How long promises take on the engines where it is not a matter of milliseconds.

use std::time::Duration;

use leasehold_conformance::Bound;

/// The session of ZooKeeper's clients here: long enough for a busy machine, short enough to wait for
/// its end.
pub(crate) const SESSION: Duration = Duration::from_secs(6);

/// The bounds of an engine, by its name in the matrix.
pub(crate) fn of(subject: &str) -> Vec<(&'static str, Bound)> {
    let session = Bound::Session(SESSION);
    let (dead_waiter, killed, pushed) = match subject {
        "etcd" | "etcd-3" | "etcd-concurrency" | "etcd-also" => {
            (Bound::Ttl, Bound::Ttl, Bound::AtOnce)
        }
        "zookeeper"
        | "zookeeper-3"
        | "zookeeper-curator"
        | "zookeeper-kazoo"
        | "zookeeper-also"
        | "zookeeper-also-kazoo" => (session, session, Bound::AtOnce),
        "sqlite" | "mysql" | "mysql-galera" | "mysql-galera-nodes" | "postgres-pgbouncer" => {
            (Bound::Offer, Bound::Ttl, Bound::Look)
        }
        "postgres-also" | "mysql-also" => (Bound::AtOnce, Bound::Ttl, Bound::Look),
        "postgres" => (Bound::Offer, Bound::Ttl, Bound::AtOnce),
        "file" | "file-flock" | "file-also" => (Bound::AtOnce, Bound::AtOnce, Bound::AtOnce),
        _ => (Bound::AtOnce, Bound::Ttl, Bound::AtOnce),
    };
    let forced = match subject {
        "memory" | "redis" | "redis+sentinel" | "redis+cluster" | "redis-tls" => Bound::AtOnce,
        _ => Bound::Renewal,
    };
    vec![
        ("a_dead_waiter_is_passed_over", dead_waiter),
        ("a_killed_holder_loses_the_lock", killed),
        ("a_release_is_pushed", pushed),
        ("a_forced_release_is_noticed", forced),
    ]
}
