//! Real servers for tests: each test starts its own, and can stop, kill and cut them off.
//!
//! Servers are child processes on loopback with their data in a temporary directory. They end with the test process,
//! also when it is killed. Every call blocks for a short time only and needs no runtime, so that it works in plain and
//! in async tests alike.
//!
//! The crate is for Linux: it starts programs through `setpriv` and reads `/proc`. On systems other than Unix it is empty.
//!
//! [`Needs`] says whether a program is installed. The environment variable `LEASEHOLD_REQUIRE` makes a missing program an
//! error ([`required`]), and `LEASEHOLD_SERVERS=none` leaves out all tests that start servers.
//!
//! **Unstable**: the crate is for tests, and is not covered by semantic versioning. Its types may change in any minor release, so
//! they are not `#[non_exhaustive]`.

#![allow(clippy::disallowed_methods, reason = "tests measure time")]
#![cfg(unix)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod admin;
mod aof;
mod busy;
mod certificates;
mod chromium;
mod clock_shim;
mod daemon;
mod disk_shim;
mod etcd_server;
mod galera;
mod http;
mod links;
mod loading;
mod mariadb;
mod nats_server;
mod needs;
mod pgbouncer;
mod ports;
mod postgres;
mod process;
mod programs;
mod proxy;
mod redis_cluster;
mod redis_sentinels;
mod redis_server;
mod resp;
mod shim;
mod user;
mod zookeeper;

use std::io;
use std::time::{Duration, Instant};

pub use admin::Admin;
pub use busy::Busy;
pub use certificates::Certificates;
pub use chromium::Chromium;
pub use clock_shim::ClockShim;
pub use daemon::Daemon;
pub use disk_shim::{DiskShim, Full};
pub use etcd_server::{EtcdServer, EtcdSettings};
pub use galera::Galera;
pub use links::Links;
pub use loading::Loading;
pub use mariadb::MariaDb;
pub use nats_server::{NatsServer, NatsSettings};
pub use needs::Needs;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use process::Process;
pub use programs::{find, required};
pub use proxy::{Connection, Direction, Held, Pattern, Proxy, Shot, Target};
pub use redis_cluster::RedisCluster;
pub use redis_sentinels::RedisSentinels;
pub use redis_server::{RedisServer, RedisSettings};
pub use resp::Value;
pub use shim::together;
pub use zookeeper::{ZooKeeperEnsemble, ZooKeeperServer, ZooKeeperSettings};

/// How long anything in the kit is waited for: servers start, and vote, on machines that are slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds, [`PATIENCE`] at most; blocks the thread.
///
/// # Errors
/// `TimedOut`, naming `what` did not happen.
pub fn wait(what: &str, mut condition: impl FnMut() -> bool) -> io::Result<()> {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > PATIENCE {
            let message = format!("not within {PATIENCE:?}: {what}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
