//! Shows each fault of the kit on a real server.

// A set-up that fails is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[cfg(unix)]
mod cluster;
#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod etcd;
#[cfg(unix)]
mod nats;
#[cfg(unix)]
mod orphans;
#[cfg(unix)]
mod proxy;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod sql;
#[cfg(unix)]
mod zookeeper;

use std::process::ExitCode;

/// Set for a child that plays a process to be killed.
#[cfg(unix)]
const PLAY: &str = "LEASEHOLD_KIT_PLAY";

#[cfg(unix)]
fn main() -> ExitCode {
    use leasehold_test_servers::Needs;
    use libtest_mimic::{Arguments, Trial};

    match std::env::var(PLAY).as_deref() {
        Ok("sql") => sql::play(),
        Ok(_) => server::play(),
        Err(_) => {}
    }
    let arguments = Arguments::from_args();
    let tests = server::TESTS.iter().chain(proxy::TESTS).chain(etcd::TESTS).chain(nats::TESTS);
    let tests =
        tests.chain(sql::TESTS).chain(disk::TESTS).chain(zookeeper::TESTS).chain(cluster::TESTS);
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        let run = move || {
            test();
            Ok(())
        };
        let server = match name {
            name if name.starts_with("etcd::") || name.starts_with("disk::etcd") => Needs::Etcd,
            name if name.starts_with("zookeeper::") => Needs::ZooKeeper,
            name if name.starts_with("nats::") => Needs::Nats,
            name if name.contains("::mariadb_") => Needs::MySql,
            name if name.starts_with("sql::galera") => Needs::Galera,
            name if name.starts_with("sql::pgbouncer") => Needs::Pooler,
            name if name.starts_with("sql::") || name.starts_with("disk::postgres") => {
                Needs::Postgres
            }
            _ => Needs::Redis,
        };
        let no_tls = name.contains("::tls") && Needs::OpenSsl.is_missing();
        let ignored = server.is_missing() || no_tls;
        Trial::test(*name, run).with_ignored_flag(ignored)
    };
    libtest_mimic::run(&arguments, tests.map(trial).collect()).exit_code()
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}
