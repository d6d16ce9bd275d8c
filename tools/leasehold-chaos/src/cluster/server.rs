//! What chaos can do to a server of any kind.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use leasehold_test_servers::{
    Admin, Daemon, EtcdServer, MariaDb, PgBouncer, Postgres, Proxy, RedisServer, ZooKeeperServer,
    wait,
};

use super::newer::{self, Changed};
use super::remains::{self, CONNECTIONS, Remains};
use super::{password, tables};

/// A server, or a store in files that has none.
pub(super) trait Server: fmt::Debug {
    /// Where its clients connect to; `None` where it is not reached over a network.
    fn address(&self) -> Option<SocketAddr>;

    /// Its process.
    fn daemon(&mut self) -> io::Result<&mut Daemon>;

    /// Kills it; its data stays.
    fn kill(&mut self) -> io::Result<()> {
        self.daemon()?.kill();
        Ok(())
    }

    /// Starts it after [`kill`](Self::kill), on the same port and data.
    fn start_again(&mut self) -> io::Result<()>;

    /// Loses its data.
    fn empty(&mut self) -> io::Result<()> {
        Err(unsupported("empty"))
    }

    /// Copies its data to a directory.
    fn save(&mut self, copy: &Path) -> io::Result<()> {
        self.daemon()?.save_data(copy)
    }

    /// Goes back to a copy that [`save`](Self::save) has made.
    fn restore(&mut self, copy: &Path) -> io::Result<()> {
        self.kill()?;
        self.daemon()?.restore_data(copy)?;
        self.start_again()
    }

    /// The directory of its data.
    fn data(&mut self) -> io::Result<PathBuf> {
        Ok(self.daemon()?.data())
    }

    /// Whether it serves clients, with what it had to write while it could not.
    fn serves(&self) -> bool {
        true
    }

    /// Does what an operator must do before a server starts again whose disk was full.
    fn repair(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Starts a server that has ended by itself; whether it had.
    fn revive(&mut self) -> io::Result<bool> {
        if !self.daemon()?.has_ended() {
            return Ok(false);
        }
        self.kill()?;
        self.repair()?;
        self.start_again()?;
        Ok(true)
    }

    /// Waits until it has ended, or serves, after its disk has space again.
    fn recover(&mut self) -> io::Result<()> {
        wait("a server serves again", || {
            self.daemon().is_ok_and(|daemon| daemon.has_ended()) || self.serves()
        })
    }

    /// Whether it has data that clients can lose.
    fn has_data(&self) -> bool {
        true
    }

    /// Whether it can be made to accept no further connections.
    fn limits_connections(&self) -> bool {
        false
    }

    /// Accepts no further connections of clients. The connection, if there is one, lifts the limit.
    fn limit_connections(&mut self) -> io::Result<Option<Admin>> {
        Err(unsupported("connections"))
    }

    /// Accepts connections again.
    fn allow_connections(&mut self, _admin: Option<Admin>) -> io::Result<()> {
        Err(unsupported("connections"))
    }

    /// Puts a record, or a version, of a newer program in the place of the present one.
    fn put_newer(&mut self, _way: u64) -> io::Result<()> {
        Err(unsupported("newer"))
    }

    /// Puts it back, and says what clients have made of the newer one.
    fn put_back(&mut self) -> io::Result<Changed> {
        Err(unsupported("newer"))
    }

    /// Gives the user of the clients another password, or takes its login or its rights.
    fn change_user(&mut self, _way: u64) -> io::Result<()> {
        Err(unsupported("password"))
    }

    /// Lets the user in again.
    fn restore_user(&mut self) -> io::Result<()> {
        Err(unsupported("password"))
    }

    /// Reads the files of its certificate again.
    fn reload_certificates(&mut self) -> io::Result<()> {
        Err(unsupported("certificate"))
    }

    /// Another server without data takes its place; in an ensemble another member helps.
    fn replace(&mut self, _others: &[&dyn Server]) -> io::Result<()> {
        Err(unsupported("replace"))
    }

    /// The proxies through which the other members of an ensemble connect to it.
    fn peer_proxies(&self) -> &[Proxy] {
        &[]
    }

    /// The followers of ZooKeeper's leader that have all of its writes; 0 for another server.
    fn followers(&self) -> usize {
        0
    }

    /// What is there once all clients have ended.
    fn left(&self) -> io::Result<Remains>;

    /// The Redis server, if it is one.
    fn redis(&self) -> Option<&RedisServer> {
        None
    }

    /// The member of an etcd ensemble, if it is one.
    fn etcd(&self) -> Option<&EtcdServer> {
        None
    }
}

/// The nodes of an ensemble without locks: those that each has, and the root of the locks.
const FIXED_NODES: u64 = 6;

/// The table of set-ups names faults that servers bear.
fn unsupported(fault: &str) -> io::Error {
    io::Error::other(format!("a server cannot bear the fault `{fault}` that its set-up names"))
}

impl Server for RedisServer {
    fn address(&self) -> Option<SocketAddr> {
        self.tls_address().or_else(|| Some(RedisServer::address(self)))
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn kill(&mut self) -> io::Result<()> {
        RedisServer::kill(self);
        Ok(())
    }

    fn start_again(&mut self) -> io::Result<()> {
        RedisServer::start_again(self)
    }

    fn empty(&mut self) -> io::Result<()> {
        self.restart_without_keys()
    }

    /// A node of a cluster keeps what it knows of the others.
    fn restore(&mut self, copy: &Path) -> io::Result<()> {
        RedisServer::kill(self);
        self.restore_keys(copy)?;
        RedisServer::start_again(self)
    }

    fn replace(&mut self, _: &[&dyn Server]) -> io::Result<()> {
        RedisServer::replace(self)
    }

    fn serves(&self) -> bool {
        self.info("aof_last_write_status").is_ok_and(|status| status == "ok")
    }

    fn limits_connections(&self) -> bool {
        true
    }

    fn limit_connections(&mut self) -> io::Result<Option<Admin>> {
        let mut admin = self.connect()?;
        admin.call(&["CONFIG", "SET", "maxclients", "1"])?;
        Ok(Some(admin))
    }

    fn allow_connections(&mut self, admin: Option<Admin>) -> io::Result<()> {
        const ALLOW: [&str; 4] = ["CONFIG", "SET", "maxclients", "10000"];
        let Some(mut admin) = admin else { return Ok(()) };
        if admin.call(&ALLOW).is_ok() || self.admin(&ALLOW).is_ok() {
            return Ok(());
        }
        // A sentinel that has reconfigured the server has ended the connection that was kept for this, and others
        // have the only place. A server that starts has its own limit again.
        RedisServer::kill(self);
        RedisServer::start_again(self)
    }

    fn put_newer(&mut self, way: u64) -> io::Result<()> {
        newer::put_record(self, way.is_multiple_of(2))
    }

    fn put_back(&mut self) -> io::Result<Changed> {
        newer::put_record_back(self)
    }

    fn change_user(&mut self, way: u64) -> io::Result<()> {
        password::change_acl(self, way)
    }

    fn restore_user(&mut self) -> io::Result<()> {
        password::restore_acl(self)
    }

    fn reload_certificates(&mut self) -> io::Result<()> {
        RedisServer::reload_certificates(self)
    }

    fn left(&self) -> io::Result<Remains> {
        let mut remains = Remains::of_left(&[(remains::of_clients(self)?, CONNECTIONS)]);
        remains.append(remains::of_keys(self)?);
        Ok(remains)
    }

    fn redis(&self) -> Option<&RedisServer> {
        Some(self)
    }
}

impl Server for Postgres {
    fn address(&self) -> Option<SocketAddr> {
        Some(Postgres::address(self))
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn start_again(&mut self) -> io::Result<()> {
        Postgres::start_again(self)
    }

    fn empty(&mut self) -> io::Result<()> {
        tables::delete_all(|statement| self.sql(statement))
    }

    fn serves(&self) -> bool {
        self.sql("SELECT 1").is_ok()
    }

    fn limits_connections(&self) -> bool {
        true
    }

    fn limit_connections(&mut self) -> io::Result<Option<Admin>> {
        self.sql("ALTER ROLE leasehold CONNECTION LIMIT 1").map(|_| None)
    }

    fn allow_connections(&mut self, _: Option<Admin>) -> io::Result<()> {
        self.sql("ALTER ROLE leasehold CONNECTION LIMIT -1").map(drop)
    }

    fn put_newer(&mut self, _: u64) -> io::Result<()> {
        newer::put_version(|statement| self.sql(statement))
    }

    fn put_back(&mut self) -> io::Result<Changed> {
        newer::put_version_back(|statement| self.sql(statement))
    }

    fn change_user(&mut self, way: u64) -> io::Result<()> {
        password::change_role(way).into_iter().try_for_each(|one| self.sql(one).map(drop))
    }

    fn restore_user(&mut self) -> io::Result<()> {
        password::RESTORE_ROLE.into_iter().try_for_each(|one| self.sql(one).map(drop))
    }

    fn reload_certificates(&mut self) -> io::Result<()> {
        Postgres::reload_certificates(self)
    }

    fn left(&self) -> io::Result<Remains> {
        let asks = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'leasehold'";
        let connections = self.sql(asks)?.parse().unwrap_or(u64::MAX);
        let mut remains = Remains::of_left(&[(connections, CONNECTIONS)]);
        remains.append(tables::left(|statement| self.sql(statement), tables::POSTGRES_US)?);
        Ok(remains)
    }
}

impl Server for MariaDb {
    fn address(&self) -> Option<SocketAddr> {
        Some(MariaDb::address(self))
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn start_again(&mut self) -> io::Result<()> {
        MariaDb::start_again(self)
    }

    fn empty(&mut self) -> io::Result<()> {
        tables::delete_all(|statement| self.sql(statement))
    }

    fn serves(&self) -> bool {
        self.sql("SELECT 1").is_ok()
    }

    fn limits_connections(&self) -> bool {
        true
    }

    fn limit_connections(&mut self) -> io::Result<Option<Admin>> {
        self.sql("ALTER USER leasehold@'%' WITH MAX_USER_CONNECTIONS 1").map(|_| None)
    }

    fn allow_connections(&mut self, _: Option<Admin>) -> io::Result<()> {
        self.sql("ALTER USER leasehold@'%' WITH MAX_USER_CONNECTIONS 0").map(drop)
    }

    fn put_newer(&mut self, _: u64) -> io::Result<()> {
        newer::put_version(|statement| self.sql(statement))
    }

    fn put_back(&mut self) -> io::Result<Changed> {
        newer::put_version_back(|statement| self.sql(statement))
    }

    fn change_user(&mut self, way: u64) -> io::Result<()> {
        password::change_account(way).into_iter().try_for_each(|one| self.sql(one).map(drop))
    }

    fn restore_user(&mut self) -> io::Result<()> {
        password::RESTORE_ACCOUNT.into_iter().try_for_each(|one| self.sql(one).map(drop))
    }

    fn reload_certificates(&mut self) -> io::Result<()> {
        MariaDb::reload_certificates(self)
    }

    fn left(&self) -> io::Result<Remains> {
        let asks = "SELECT count(*) FROM information_schema.processlist WHERE user = 'leasehold'";
        let connections = self.sql(asks)?.parse().unwrap_or(u64::MAX);
        let mut remains = Remains::of_left(&[(connections, CONNECTIONS)]);
        remains.append(tables::left(|statement| self.sql(statement), tables::MARIADB_US)?);
        Ok(remains)
    }
}

impl Server for PgBouncer {
    fn address(&self) -> Option<SocketAddr> {
        Some(PgBouncer::address(self))
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn start_again(&mut self) -> io::Result<()> {
        PgBouncer::start_again(self)
    }

    fn limits_connections(&self) -> bool {
        true
    }

    fn limit_connections(&mut self) -> io::Result<Option<Admin>> {
        self.limit_clients(Some(1)).map(|()| None)
    }

    fn allow_connections(&mut self, _: Option<Admin>) -> io::Result<()> {
        self.limit_clients(None)
    }

    fn has_data(&self) -> bool {
        false
    }

    /// Its proxy knows the connections.
    fn left(&self) -> io::Result<Remains> {
        Ok(Remains::default())
    }
}

impl Server for EtcdServer {
    fn address(&self) -> Option<SocketAddr> {
        Some(([127, 0, 0, 1], self.port()).into())
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn start_again(&mut self) -> io::Result<()> {
        EtcdServer::start_again(self)
    }

    fn peer_proxies(&self) -> &[Proxy] {
        EtcdServer::peer_proxies(self)
    }

    fn serves(&self) -> bool {
        self.status().is_ok()
    }

    fn change_user(&mut self, way: u64) -> io::Result<()> {
        password::change_etcd(way, |path, body| self.call(path, body).map(drop))
    }

    fn restore_user(&mut self) -> io::Result<()> {
        password::restore_etcd(|path, body| self.call(path, body).map(drop))
    }

    /// It reads them at each connection.
    fn reload_certificates(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn left(&self) -> io::Result<Remains> {
        let items = |answer: &serde_json::Value, of: &str| -> Vec<serde_json::Value> {
            answer[of].as_array().cloned().unwrap_or_default()
        };
        // From the first key to the last.
        let all = serde_json::json!({ "key": "AA==", "range_end": "AA==" });
        let keys = items(&self.call("kv/range", &all)?, "kvs");
        let is_limit = |key: &&serde_json::Value| {
            key["value"] == remains::LIMIT_ON_ETCD && key["lease"].is_string()
        };
        let (limits, others): (Vec<_>, Vec<_>) = keys.iter().partition(is_limit);
        let leases = items(&self.call("lease/leases", &serde_json::json!({}))?, "leases");
        let of_limit =
            |lease: &serde_json::Value| limits.iter().any(|limit| limit["lease"] == lease["ID"]);
        let mut left = Remains::of_left(&[(others.len() as u64, "keys")]);
        for lease in leases.iter().filter(|lease| !of_limit(lease)) {
            let asked = serde_json::json!({ "ID": lease["ID"], "keys": true });
            let found = self.call("lease/timetolive", &asked)?;
            let (granted, keys) = (&found["grantedTTL"], items(&found, "keys").len());
            // A lease that has ended since has no such time.
            if granted.is_string() {
                let (id, ttl) = (&lease["ID"], &found["TTL"]);
                let what = format!("lease {id} of {granted} s, another {ttl} s, with {keys} keys");
                left.left.push(what);
            }
        }
        Ok(left
            .and_kept(&[(limits.len() as u64, "limits of semaphores, each with its lease (2 h)")]))
    }

    fn replace(&mut self, others: &[&dyn Server]) -> io::Result<()> {
        let others: Vec<&EtcdServer> = others.iter().filter_map(|other| other.etcd()).collect();
        EtcdServer::replace(self, &others)
    }

    fn etcd(&self) -> Option<&EtcdServer> {
        Some(self)
    }
}

impl Server for ZooKeeperServer {
    fn address(&self) -> Option<SocketAddr> {
        Some(ZooKeeperServer::address(self))
    }

    fn daemon(&mut self) -> io::Result<&mut Daemon> {
        Ok(self)
    }

    fn start_again(&mut self) -> io::Result<()> {
        ZooKeeperServer::start_again(self)
    }

    fn repair(&mut self) -> io::Result<()> {
        self.remove_empty_logs()
    }

    fn serves(&self) -> bool {
        !self.mode().is_empty()
    }

    fn replace(&mut self, _: &[&dyn Server]) -> io::Result<()> {
        self.restart_empty()
    }

    fn followers(&self) -> usize {
        self.number("zk_synced_followers").unwrap_or_default() as usize
    }

    fn left(&self) -> io::Result<Remains> {
        let count = |field| Ok::<u64, io::Error>(self.number(field)? as u64);
        // The one that asks.
        let connections = count("zk_num_alive_connections")?.saturating_sub(1);
        let own = count("zk_ephemerals_count")?;
        // The servers remove the containers of locks in time.
        let persistent = count("zk_znode_count")?.saturating_sub(own + FIXED_NODES);
        Ok(Remains::of_left(&[
            (connections, CONNECTIONS),
            (own, "ephemeral nodes"),
            (persistent, "persistent nodes"),
        ]))
    }
}
