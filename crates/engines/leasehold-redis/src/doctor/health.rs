//! Checks whether a server keeps its data: eviction, persistence, replication, memory, slowness.

use std::collections::HashMap;

use leasehold_core::doctor::Diagnosis;
use redis::Value;

use super::Part;
use super::probe::Probe;
use crate::node::fitness::field;

/// Settings that `INFO` does not contain.
const SETTINGS: &[&str] = &["appendfsync", "min-replicas-to-write", "save", "timeout"];
/// Slow-log entries from this duration on are reported, in µs.
const SLOW_US: u64 = 100_000;
/// How far a replica may be behind, in seconds.
const BEHIND_S: u64 = 10;

/// What a server without an append-only file does.
const LOST: &str =
    "after a restart it has lost leases that are still held, and grants locks to a second holder";

/// Settings by name.
pub(crate) type Settings = HashMap<String, String>;

pub(super) async fn look(probe: &mut Probe, part: Part) {
    let what = "eviction, persistence, replication and memory";
    let info = probe.see(what, &["INFO"], "+info").await;
    let info: Option<String> = info.and_then(|info| redis::from_redis_value(info).ok());
    let settings = config(probe, "appendfsync, save and min-replicas-to-write", SETTINGS).await;
    if let Some(info) = &info {
        probe.found.run_id = field(info, "run_id").map(str::to_owned);
        judge(probe.diagnosis(), info, settings.as_ref(), part);
    }
    look_at_slow_commands(probe).await;
}

/// Judges what the server says about itself.
pub(crate) fn judge(
    diagnosis: &mut Diagnosis,
    info: &str,
    settings: Option<&Settings>,
    part: Part,
) {
    eviction(diagnosis, info, part);
    persistence(diagnosis, info, settings, part);
    replication(diagnosis, info, settings, part);
    room(diagnosis, info);
}

/// Reads some settings. Returns `None`, and adds a note, if the user may not read them.
pub(super) async fn config(probe: &mut Probe, what: &str, names: &[&str]) -> Option<Settings> {
    let words = [&["CONFIG", "GET"], names].concat();
    let answer = probe.see(what, &words, "+config|get").await?;
    redis::from_redis_value(answer).ok()
}

fn number(info: &str, name: &str) -> u64 {
    field(info, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn eviction(diagnosis: &mut Diagnosis, info: &str, part: Part) {
    let policy = match field(info, "maxmemory_policy") {
        None => return diagnosis.unseen("the eviction policy", "INFO does not contain it"),
        Some("noeviction") => return,
        Some(policy) => policy,
    };
    let change = "set maxmemory-policy noeviction, on a server for locks alone";
    let evicted = number(info, "evicted_keys");
    if part == Part::Node {
        diagnosis.problem(
            "eviction",
            format!("maxmemory-policy is {policy}"),
            "clients refuse the server as a node of a quorum, since it may delete leases",
            "set maxmemory-policy noeviction",
        );
    } else if number(info, "maxmemory") > 0 {
        diagnosis.problem(
            "eviction",
            format!("maxmemory-policy is {policy}, and {evicted} keys were evicted so far"),
            "records of locks have a time to live, so a full server deletes them while they \
             are held, and grants the lock to a second holder",
            change,
        );
    } else {
        diagnosis.warning(
            "eviction",
            format!("maxmemory-policy is {policy}; maxmemory is not set yet"),
            "once it is set, a full server deletes locks while they are held",
            change,
        );
    }
}

fn persistence(diagnosis: &mut Diagnosis, info: &str, settings: Option<&Settings>, part: Part) {
    if number(info, "loading") > 0 {
        diagnosis.problem(
            "loading",
            "the server is loading its data",
            "until it has loaded, it grants and renews nothing",
            "wait; a ttl longer than a restart preserves leases",
        );
    }
    let stops = "unsaved data is lost at the next restart, and with save points and \
                 stop-writes-on-bgsave-error, or an append-only file, the server refuses writes until it works";
    if field(info, "rdb_last_bgsave_status") == Some("err") {
        let change =
            "read the server's log: often the disk is full, or it may not write to the directory";
        diagnosis.problem("save-failed", "the last snapshot failed", stops, change);
    }
    if field(info, "aof_last_write_status") == Some("err") {
        let change = "read the server's log; free some space";
        diagnosis.problem("save-failed", "the append-only file cannot be written", stops, change);
    }
    if number(info, "latest_fork_usec") > 100_000 {
        diagnosis.note(
            "fork",
            format!(
                "the last fork stopped the server for {} ms",
                number(info, "latest_fork_usec") / 1000
            ),
            "it grants and renews nothing in that time; a ttl of seconds tolerates that",
            "keep locks on a separate server, which stays small",
        );
    }
    if number(info, "aof_enabled") > 0 {
        return synced(diagnosis, settings);
    }
    let snapshots =
        settings.map(|settings| settings.get("save").is_some_and(|save| !save.is_empty()));
    let what = match snapshots {
        Some(true) => "it saves snapshots at intervals, and keeps no append-only file",
        Some(false) => "it saves nothing",
        None => "it keeps no append-only file",
    };
    match part {
        Part::Shared | Part::Watched | Part::Cluster => {
            diagnosis.warning("persistence", what, LOST, "set appendonly yes, and fence the resource");
        }
        Part::Single => diagnosis.warning(
            "persistence",
            what,
            LOST,
            "set appendonly yes; or add ?admission=strict to the URL, which excludes a server that may \
             have lost leases until a client has run for max-ttl (commands that do not wait, `leasehold run \
             -n`, never do: there, run `leasehold quorum init` after each loss); and fence the resource",
        ),
        Part::Node => diagnosis.note(
            "persistence",
            what,
            "after a restart the node cannot vote until a client has run for max-ttl, with its data or without; if a \
             majority of several nodes restarts together, no lock can be acquired until an operator acts",
            "restart nodes one after the other, each when `leasehold quorum status` shows that all vote; after a \
             restart of most of them run `leasehold quorum init --after-loss`",
        ),
    }
}

fn synced(diagnosis: &mut Diagnosis, settings: Option<&Settings>) {
    match settings.and_then(|settings| settings.get("appendfsync")).map(String::as_str) {
        Some("everysec") => diagnosis.note(
            "appendfsync",
            "appendfsync is everysec",
            "a machine that loses power loses the grants of about the last second; a server that \
             is killed loses nothing",
            "set appendfsync always if that is worse than the time that a sync takes",
        ),
        Some("no") => diagnosis.warning(
            "appendfsync",
            "appendfsync is no",
            "a machine that loses power loses what the system has not written, often half a minute",
            "set appendfsync everysec or always",
        ),
        _ => {}
    }
}

fn replication(diagnosis: &mut Diagnosis, info: &str, settings: Option<&Settings>, part: Part) {
    if field(info, "role") == Some("slave") && field(info, "master_link_status") == Some("down") {
        let why = "it answers nothing, or returns old data";
        diagnosis.problem("replica", "its link to its master is down", why, "name the master");
    }
    let wanted =
        settings.and_then(|all| all.get("min-replicas-to-write")?.parse().ok()).unwrap_or(0);
    // It reports how many are good only if min-replicas-to-write is set.
    let good = field(info, "min_slaves_good_slaves").and_then(|good| good.parse::<u64>().ok());
    if let Some(good) = good.filter(|&good| good < wanted) {
        diagnosis.problem(
            "min-replicas",
            format!("{good} replicas follow closely enough, and min-replicas-to-write is {wanted}"),
            "the server refuses all writes, so no lock can be acquired",
            "restore the replicas, or lower min-replicas-to-write",
        );
    }
    if part == Part::Watched && wanted == 0 && settings.is_some() {
        diagnosis.warning(
            "two-masters",
            "min-replicas-to-write is 0",
            "a partitioned master keeps granting locks beside the new master, until it \
             detects the failover",
            "set min-replicas-to-write 1 and min-replicas-max-lag 10, so that it stops after that time",
        );
    }
    let replicas = number(info, "connected_slaves");
    // The number that the server says may be any; each line is about one replica.
    let is_replica = |name: &str| {
        let number = name.strip_prefix("slave").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let each = info.lines().filter_map(|line| line.split_once(':'));
    for (_, said) in each.filter(|(name, _)| is_replica(name)) {
        let part = |name: &str| {
            said.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let lag = part("lag").and_then(|lag| lag.parse::<u64>().ok()).unwrap_or(0);
        let online = part("state") == Some("online");
        if lag > BEHIND_S || !online {
            diagnosis.warning(
                "replica-lag",
                format!(
                    "replica {}: state {}, {lag} s behind",
                    part("ip").unwrap_or("?"),
                    part("state").unwrap_or("?")
                ),
                "if it is promoted, it does not have the latest grants",
                "check its network and disk",
            );
        }
    }
    match (replicas, part) {
        (0, Part::Watched | Part::Cluster) => diagnosis.warning(
            "no-replicas",
            "no replica follows it",
            "if it fails, no replica can replace it, and no lock can be acquired",
            "restore its replicas",
        ),
        (0, _) => {}
        (_, Part::Node) => diagnosis.warning(
            "node-with-replicas",
            format!("{replicas} replicas follow it"),
            "a replica that replaces a node does not have its last grants, so it must not \
             vote before those have expired: its marker ensures that, and the node is out that long",
            "run each node of a quorum without replicas, with an append-only file",
        ),
        (_, Part::Watched | Part::Cluster) => {}
        (_, Part::Single | Part::Shared) => diagnosis.note(
            "failover",
            format!("{replicas} replicas follow it"),
            "replication is asynchronous: a promoted replica may not have received the last \
             grants, and then grants the lock to a second holder",
            "fence the resource; or use a quorum (redlock://) of independent servers",
        ),
    }
}

fn room(diagnosis: &mut Diagnosis, info: &str) {
    let (used, most) = (number(info, "used_memory"), number(info, "maxmemory"));
    if most > 0 && used >= most / 10 * 9 {
        diagnosis.warning(
            "memory",
            format!("{} of {} MiB are used (maxmemory)", used >> 20, most >> 20),
            "a full server refuses acquires; renewals and releases still work",
            "raise maxmemory, or move other data to another server",
        );
    }
    let (clients, most) = (number(info, "connected_clients"), number(info, "maxclients"));
    if most > 0 && clients >= most / 10 * 9 {
        diagnosis.warning(
            "connections",
            format!("{clients} of {most} connections are used (maxclients)"),
            "a client that cannot reconnect loses its locks",
            "raise maxclients, or find out which clients keep so many open",
        );
    }
}

async fn look_at_slow_commands(probe: &mut Probe) {
    let log = probe.see("slow commands", &["SLOWLOG", "GET", "128"], "+slowlog|get").await;
    let Some(Value::Array(entries)) = log else { return };
    let mut slow = Vec::new();
    for entry in entries {
        let Value::Array(fields) = entry else { continue };
        let us: u64 =
            fields.get(2).and_then(|us| redis::from_redis_value_ref(us).ok()).unwrap_or(0);
        // Show only the first word: the others may contain secrets.
        let words: Vec<String> = fields
            .get(3)
            .and_then(|words| redis::from_redis_value_ref(words).ok())
            .unwrap_or_default();
        if us >= SLOW_US {
            slow.push((us / 1000, words.into_iter().next().unwrap_or_default()));
        }
    }
    if let Some((ms, command)) = slow.iter().max() {
        let count = slow.len();
        probe.diagnosis().warning(
            "slow-commands",
            format!(
                "the slow log has {count} commands of 100 ms or more, at most {command} with {ms} ms"
            ),
            "while a command or a script runs the server does nothing else: no grant, no renewal",
            "keep locks on a separate server; run SLOWLOG RESET once the cause is removed",
        );
    }
}
