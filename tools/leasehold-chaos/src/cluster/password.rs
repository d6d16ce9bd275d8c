//! What an operator does to the user of the clients: another password, no login, no rights, no user at all; and the way
//! back.

use std::io;

use leasehold_test_servers::{EtcdServer, RedisServer, wait};
use serde_json::{Value, json};

/// The user of the clients, and the password.
pub(super) const USER: &str = "leasehold";

/// Both in a URL.
pub(super) const LOGIN: &str = "leasehold:leasehold@";

/// The rules of the user in Redis.
pub(super) const RULES: &str = "on >leasehold ~* &* +@all";

/// Changes the user of a Redis server; its connections go on in some of these ways, and end in others.
pub(super) fn change_acl(server: &RedisServer, way: u64) -> io::Result<()> {
    let set = |rules: &[&str]| server.admin(&[&["ACL", "SETUSER", USER], rules].concat());
    let ends = match way % 5 {
        0 => set(&["resetpass", ">another"]).map(|_| true)?,
        1 => set(&["resetpass", ">another"]).map(|_| false)?,
        2 => set(&["off"]).map(|_| true)?,
        3 => set(&["-@scripting"]).map(|_| false)?,
        _ => server.admin(&["ACL", "DELUSER", USER]).map(|_| false)?,
    };
    if ends {
        server.admin(&["CLIENT", "KILL", "USER", USER])?;
    }
    Ok(())
}

/// Lets the user in again.
pub(super) fn restore_acl(server: &RedisServer) -> io::Result<()> {
    let rules: Vec<&str> = RULES.split(' ').collect();
    server.admin(&[&["ACL", "SETUSER", USER, "reset"], &rules[..]].concat()).map(drop)
}

/// The statements for PostgreSQL, each a transaction of its own.
pub(super) fn change_role(way: u64) -> Vec<&'static str> {
    let end =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'leasehold'";
    match way % 4 {
        0 => vec!["ALTER ROLE leasehold PASSWORD 'another'", end],
        1 => vec!["ALTER ROLE leasehold PASSWORD 'another'"],
        2 => vec!["ALTER ROLE leasehold NOLOGIN", end],
        // The owner of a table may lose the rights to it, too.
        _ => vec!["REVOKE ALL ON ALL TABLES IN SCHEMA public FROM leasehold"],
    }
}

/// The way back.
pub(super) const RESTORE_ROLE: [&str; 2] = [
    "ALTER ROLE leasehold LOGIN PASSWORD 'leasehold'",
    "GRANT ALL ON ALL TABLES IN SCHEMA public TO leasehold",
];

/// The statements for MariaDB.
pub(super) fn change_account(way: u64) -> Vec<&'static str> {
    let end = "KILL USER leasehold";
    match way % 4 {
        0 => vec!["ALTER USER leasehold@'%' IDENTIFIED BY 'another'", end],
        1 => vec!["ALTER USER leasehold@'%' IDENTIFIED BY 'another'"],
        2 => vec!["ALTER USER leasehold@'%' ACCOUNT LOCK", end],
        // Those that are connected have the rights of the time when they chose the database.
        _ => vec!["REVOKE ALL PRIVILEGES ON leasehold.* FROM leasehold@'%'", end],
    }
}

/// The way back.
pub(super) const RESTORE_ACCOUNT: [&str; 2] = [
    "ALTER USER leasehold@'%' IDENTIFIED BY 'leasehold' ACCOUNT UNLOCK",
    "GRANT ALL ON leasehold.* TO leasehold@'%'",
];

/// Makes users count at all members, and has the kit ask as `root`.
pub(super) fn enable_etcd(members: &mut [EtcdServer]) -> io::Result<()> {
    if let Some(member) = members.first() {
        member.enable_users(USER, USER, "leasehold")?;
    }
    members.iter_mut().for_each(EtcdServer::be_root);
    Ok(())
}

/// Gives the user another password, which ends the tokens of those that are logged in, or takes its rights. `call` is by
/// `root`, and is repeated while members elect a leader.
pub(super) fn change_etcd(
    way: u64,
    call: impl Fn(&str, &Value) -> io::Result<()>,
) -> io::Result<()> {
    let password = json!({ "name": USER, "password": "another" });
    let revoked = json!({ "name": USER, "role": "locks" });
    wait("the user is changed", || match way % 2 {
        0 => call("auth/user/changepw", &password).is_ok(),
        // The answer to an earlier call may have been an error.
        _ => match call("auth/user/revoke", &revoked) {
            Err(error) => error.to_string().contains("not granted"),
            Ok(()) => true,
        },
    })
}

/// The way back.
pub(super) fn restore_etcd(call: impl Fn(&str, &Value) -> io::Result<()>) -> io::Result<()> {
    let password = json!({ "name": USER, "password": USER });
    let granted = json!({ "user": USER, "role": "locks" });
    wait("the user is granted its role", || {
        call("auth/user/changepw", &password).is_ok() && call("auth/user/grant", &granted).is_ok()
    })
}
