//! Whether a server keeps what it was told: eviction, persistence, replication, room, slowness.

use std::collections::HashMap;

use leasehold_core::doctor::Examined;
use redis::Value;

use super::Part;
use super::patient::Patient;
use crate::node::fitness::field;

/// Settings that `INFO` does not tell.
const SETTINGS: &[&str] = &["appendfsync", "min-replicas-to-write", "save", "timeout"];
/// Commands in the slow log that took longer than this are shown, in µs.
const SLOW_US: u64 = 100_000;
/// A replica further behind than this, in seconds.
const BEHIND_S: u64 = 10;

/// Settings by name.
pub(super) type Settings = HashMap<String, String>;

pub(super) async fn look(patient: &mut Patient, part: Part) {
    let what = "eviction, persistence, replication and memory";
    let info = patient.see(what, &["INFO"], "+info").await;
    let info: Option<String> = info.and_then(|info| redis::from_redis_value(info).ok());
    let settings = config(patient, "appendfsync, save and min-replicas-to-write", SETTINGS).await;
    if let Some(info) = &info {
        patient.found.run_id = field(info, "run_id").map(str::to_owned);
        let examined = patient.examined();
        eviction(examined, info);
        persistence(examined, info, settings.as_ref(), part);
        replication(examined, info, settings.as_ref(), part);
        room(examined, info);
    }
    look_at_slow_commands(patient).await;
}

/// Some settings; `None`, and said, where they may not be asked for.
pub(super) async fn config(patient: &mut Patient, what: &str, names: &[&str]) -> Option<Settings> {
    let words = [&["CONFIG", "GET"], names].concat();
    let answer = patient.see(what, &words, "+config|get").await?;
    redis::from_redis_value(answer).ok()
}

fn number(info: &str, name: &str) -> u64 {
    field(info, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn eviction(examined: &mut Examined, info: &str) {
    let policy = match field(info, "maxmemory_policy") {
        None => return examined.unseen("the eviction policy", "INFO does not say it"),
        Some("noeviction") => return,
        Some(policy) => policy,
    };
    let change = "set maxmemory-policy noeviction, on a server for locks alone";
    let evicted = number(info, "evicted_keys");
    if number(info, "maxmemory") > 0 {
        examined.problem(
            "eviction",
            format!("maxmemory-policy is {policy}, and {evicted} keys were evicted so far"),
            "records of locks have a time to live, so that a full server throws them away while they \
             are held, and lets in a second holder",
            change,
        );
    } else {
        examined.warning(
            "eviction",
            format!("maxmemory-policy is {policy}; there is no maxmemory yet"),
            "as soon as there is, a full server throws locks away while they are held",
            change,
        );
    }
}

fn persistence(examined: &mut Examined, info: &str, settings: Option<&Settings>, part: Part) {
    if number(info, "loading") > 0 {
        examined.problem(
            "loading",
            "the server is loading its data",
            "until it has, nothing is granted or renewed",
            "wait; a ttl longer than a restart keeps leases over it",
        );
    }
    let stops = "what is not saved is forgotten at the next restart, and with save points and \
                 stop-writes-on-bgsave-error, or an append-only file, writes are refused until it works";
    if field(info, "rdb_last_bgsave_status") == Some("err") {
        let change =
            "look at the server's log: often the disk is full or the directory is not its own";
        examined.problem("save-failed", "the last snapshot failed", stops, change);
    }
    if field(info, "aof_last_write_status") == Some("err") {
        let change = "look at the server's log; free some space";
        examined.problem("save-failed", "the append-only file cannot be written", stops, change);
    }
    if number(info, "latest_fork_usec") > 100_000 {
        examined.note(
            "fork",
            format!(
                "the last fork stopped the server for {} ms",
                number(info, "latest_fork_usec") / 1000
            ),
            "nothing is granted or renewed in that time; a ttl of seconds bears it",
            "keep locks on a server of their own, which stays small",
        );
    }
    if number(info, "aof_enabled") > 0 {
        return synced(examined, settings);
    }
    let snapshots =
        settings.map(|settings| settings.get("save").is_some_and(|save| !save.is_empty()));
    let what = match snapshots {
        Some(true) => "it saves snapshots now and then, and keeps no append-only file",
        Some(false) => "it saves nothing",
        None => "it keeps no append-only file",
    };
    match part {
        Part::Single | Part::Watched | Part::Cluster => examined.warning(
            "persistence",
            what,
            "after a restart it has forgotten leases that are still held, and lets in a second holder",
            "set appendonly yes; or add ?admission=strict to the URL, which keeps a server out that may \
             have forgotten; and fence the resource",
        ),
        Part::Node => examined.note(
            "persistence",
            what,
            "after a restart the node has no vote for max-ttl; while more than a minority restarts, \
             there are no locks",
            "set appendonly yes where nodes restart together",
        ),
    }
}

fn synced(examined: &mut Examined, settings: Option<&Settings>) {
    match settings.and_then(|settings| settings.get("appendfsync")).map(String::as_str) {
        Some("everysec") => examined.note(
            "appendfsync",
            "appendfsync is everysec",
            "a machine that loses power loses about the last second of what was granted; a server that \
             is killed loses nothing",
            "set appendfsync always where that is worse than the time that a sync takes",
        ),
        Some("no") => examined.warning(
            "appendfsync",
            "appendfsync is no",
            "a machine that loses power loses what the system had not written yet, often half a minute",
            "set appendfsync everysec or always",
        ),
        _ => {}
    }
}

fn replication(examined: &mut Examined, info: &str, settings: Option<&Settings>, part: Part) {
    if field(info, "role") == Some("slave") && field(info, "master_link_status") == Some("down") {
        let why = "it answers nothing, or what is long over";
        examined.problem("replica", "its link to its master is down", why, "name the master");
    }
    let wanted =
        settings.and_then(|all| all.get("min-replicas-to-write")?.parse().ok()).unwrap_or(0);
    // It says how many are good enough only where some are wanted.
    let good = field(info, "min_slaves_good_slaves").and_then(|good| good.parse::<u64>().ok());
    if let Some(good) = good.filter(|&good| good < wanted) {
        examined.problem(
            "min-replicas",
            format!("{good} replicas follow closely enough, and min-replicas-to-write is {wanted}"),
            "the server refuses all writes, and with them locks",
            "bring the replicas back, or lower min-replicas-to-write",
        );
    }
    if part == Part::Watched && wanted == 0 && settings.is_some() {
        examined.warning(
            "two-masters",
            "min-replicas-to-write is 0",
            "a master that is cut off from the others goes on granting beside the new one, until it \
             hears of it",
            "set min-replicas-to-write 1 and min-replicas-max-lag 10, so that it stops after that time",
        );
    }
    let replicas = number(info, "connected_slaves");
    for each in 0..replicas {
        let Some(said) = field(info, &format!("slave{each}")) else { continue };
        let part = |name: &str| {
            said.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let lag = part("lag").and_then(|lag| lag.parse::<u64>().ok()).unwrap_or(0);
        let online = part("state") == Some("online");
        if lag > BEHIND_S || !online {
            examined.warning(
                "replica-lag",
                format!(
                    "replica {}: state {}, {lag} s behind",
                    part("ip").unwrap_or("?"),
                    part("state").unwrap_or("?")
                ),
                "if it is promoted, it does not know of what was granted since",
                "look at its network and disk",
            );
        }
    }
    match (replicas, part) {
        (0, Part::Watched | Part::Cluster) => examined.warning(
            "no-replicas",
            "no replica follows it",
            "when it fails there is nobody to take its place, and no locks",
            "bring its replicas back",
        ),
        (0, _) => {}
        (_, Part::Node) => examined.warning(
            "node-with-replicas",
            format!("{replicas} replicas follow it"),
            "a replica that takes a node's place has not heard of its last grants, though it must not \
             vote before they are over: by its marker it does not, and the node is out for that long",
            "let each node of a quorum stand alone, with an append-only file",
        ),
        (_, Part::Watched | Part::Cluster) => {}
        (_, Part::Single) => examined.note(
            "failover",
            format!("{replicas} replicas follow it"),
            "replication is asynchronous: a replica that is promoted may not have heard of the last \
             grants, and lets in a second holder",
            "fence the resource; or use a quorum (redlock://) of independent servers",
        ),
    }
}

fn room(examined: &mut Examined, info: &str) {
    let (used, most) = (number(info, "used_memory"), number(info, "maxmemory"));
    if most > 0 && used >= most / 10 * 9 {
        examined.warning(
            "memory",
            format!("{} of {} MiB are used (maxmemory)", used >> 20, most >> 20),
            "a full server refuses acquires; renewals and releases go on",
            "give it room, or move what else is there to another server",
        );
    }
    let (clients, most) = (number(info, "connected_clients"), number(info, "maxclients"));
    if most > 0 && clients >= most / 10 * 9 {
        examined.warning(
            "connections",
            format!("{clients} of {most} connections are used (maxclients)"),
            "a client that reconnects when there is none left loses its locks",
            "raise maxclients, or find out who keeps so many open",
        );
    }
}

async fn look_at_slow_commands(patient: &mut Patient) {
    let log = patient.see("slow commands", &["SLOWLOG", "GET", "128"], "+slowlog|get").await;
    let Some(Value::Array(entries)) = log else { return };
    let mut slow = Vec::new();
    for entry in entries {
        let Value::Array(fields) = entry else { continue };
        let us: u64 =
            fields.get(2).and_then(|us| redis::from_redis_value_ref(us).ok()).unwrap_or(0);
        // Of its words only the first: the others may hold what is secret.
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
        patient.examined().warning(
            "slow-commands",
            format!(
                "the slow log has {count} commands of 100 ms or more, at most {command} with {ms} ms"
            ),
            "while a command or a script runs the server does nothing else: no grant, no renewal",
            "keep locks on a server of their own; SLOWLOG RESET once the cause is gone",
        );
    }
}
