//! What an operator does to the user of the clients: another password, no login, no rights, no user at all; and the way
//! back.

use std::io;

use leasehold_test_servers::RedisServer;

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
