//! What is at servers once all clients of a run have ended.

use std::collections::BTreeSet;
use std::io;

use leasehold_test_servers::{Admin, RedisServer, Value};

/// Where a node of a quorum keeps its marker.
pub(super) const MARKER: &str = "leasehold:node";
/// What open connections of clients are called.
pub(crate) const CONNECTIONS: &str = "connections";
/// The start of all keys of a run.
const KEYS: &str = "leasehold*";
/// A record is kept for 40 minutes after its lease, at the longest.
const RECORD_MS: i64 = 2_400_000 + 60_000;
/// What refuses late requests is kept for a minute after the end of an attempt.
const TOMBSTONES_MS: i64 = 60_000;
/// The value of the key of a limit of five that was never changed, as etcd's JSON shows it: `{"limit":5,"version":1}`.
pub(super) const LIMIT_ON_ETCD: &str = "eyJsaW1pdCI6NSwidmVyc2lvbiI6MX0=";
/// The user of the kit, and of servers among themselves.
const KIT: &str = "user=leasehold-kit";

/// What is at a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remains {
    /// What clients should have removed.
    pub(crate) left: Vec<String>,
    /// What is kept for a while on purpose.
    pub(crate) kept: Vec<String>,
}

impl Remains {
    /// Things that are left behind, so many of each.
    pub(super) fn of_left(counts: &[(u64, &str)]) -> Self {
        Self { left: some(counts), kept: Vec::new() }
    }

    /// The same with things that are kept.
    pub(super) fn and_kept(mut self, counts: &[(u64, &str)]) -> Self {
        self.kept.extend(some(counts));
        self
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.left.append(&mut other.left);
        self.kept.append(&mut other.kept);
    }

    /// The same, each with a few words after it.
    pub(super) fn at(self, place: &str) -> Self {
        let named = |all: Vec<String>| all.iter().map(|one| format!("{one} {place}")).collect();
        Self { left: named(self.left), kept: named(self.kept) }
    }
}

/// A line for each thing of which there is more than nothing.
fn some(counts: &[(u64, &str)]) -> Vec<String> {
    let there = counts.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, what)| format!("{count} {what}")).collect()
}

/// The connections of clients to a Redis server, or a sentinel: all but those of the kit and of other servers.
pub(super) fn of_clients(server: &RedisServer) -> io::Result<u64> {
    let list = server.admin(&["CLIENT", "LIST", "TYPE", "normal"])?.text();
    let pubsub = server.admin(&["CLIENT", "LIST", "TYPE", "pubsub"])?.text();
    let lines = list.lines().chain(pubsub.lines()).filter(|line| !line.trim().is_empty());
    Ok(lines.filter(|line| !line.split(' ').any(|field| field == KIT)).count() as u64)
}

/// The keys of a run at a server, with what clients should have removed among them.
pub(super) fn of_keys(server: &RedisServer) -> io::Result<Remains> {
    server.with_admin(keys_by)
}

fn keys_by(admin: &mut Admin) -> io::Result<Remains> {
    let mut remains = Remains::default();
    let mut kinds: BTreeSet<&str> = BTreeSet::new();
    // A replica in a cluster answers then; others do not know the command.
    admin.call(&["READONLY"]).ok();
    for key in admin.call(&["KEYS", KEYS])?.items().iter().map(Value::text) {
        let ms = match admin.call(&["PTTL", &key]) {
            // Another node serves the slot now.
            Err(error) if error.to_string().starts_with("MOVED") => continue,
            answer => answer?.integer().unwrap_or_default(),
        };
        match kept(&key, ms) {
            // It was gone before it was asked for.
            _ if ms == -2 => {}
            Some(kind) => drop(kinds.insert(kind)),
            None => remains.left.push(format!("key {key} for another {ms} ms")),
        }
    }
    remains.kept.extend(kinds.into_iter().map(str::to_owned));
    Ok(remains)
}

/// Why a key that ends after so many milliseconds is still there; `None` if nothing explains it.
fn kept(key: &str, ms: i64) -> Option<&'static str> {
    let is_of_lock = key.contains('{');
    match key.rsplit_once('}').map(|(_, end)| end) {
        None if key == MARKER => Some("the marker of the node"),
        Some("") if (0..=RECORD_MS).contains(&ms) => Some("records of free locks (40 min)"),
        Some(":t") if (0..=TOMBSTONES_MS).contains(&ms) => Some("tombstones (1 min)"),
        Some(":pf" | ":pm") if (0..=RECORD_MS).contains(&ms) => {
            Some("slots of free semaphores (40 min)")
        }
        // The names of clients that a release notifies; those that have ended are passed over.
        Some(":w") if is_of_lock && (0..=TOMBSTONES_MS).contains(&ms) => {
            Some("names of clients to notify (1 min)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_retention_explains_is_no_leftover() {
        assert!(kept("leasehold:{a}", 2_400_000).is_some() && kept("leasehold:{a}:t", 9).is_some());
        assert!(kept(MARKER, -1).is_some());
        for (key, ms) in [
            ("leasehold:{a}", -1),
            ("leasehold:{a}", 2_700_000),
            ("leasehold:{a}:q", 5),
            ("leasehold:{a}:t", -1),
            ("leasehold:{a}:pm", -1),
            ("leasehold:{a}:pe", 5),
            ("leasehold:other", 5),
        ] {
            assert_eq!(kept(key, ms), None, "{key}");
        }
        let all = Remains::of_left(&[(0, "leases"), (2, "keys")]).and_kept(&[(1, "records")]);
        assert_eq!(all.at("there").left, ["2 keys there"]);
    }
}
