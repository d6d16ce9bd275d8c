//! Checks whether the user may do what locks need: it tries each command on a key that does not
//! exist.

use std::time::Duration;

use super::Part;
use super::probe::{Probe, Silence};
use crate::error::from_redis;
use crate::key::Keys;

/// How long a push to this client may take.
const PUSHED: Duration = Duration::from_secs(2);

/// Without this right locks work, but slowly.
const PUSH: &str = "right-to-push";
/// Without this right exclusive locks work.
const SHARE: &str = "right-to-share";
/// Without this right locks work, but slowly.
const COUNT: &str = "right-to-count";
/// Without this right observers learn of changes later.
const OBSERVE: &str = "right-to-observe";

/// The purpose of a group of commands.
struct NeededRight {
    id: &'static str,
    what: &'static str,
    why: &'static str,
    commands: Vec<Vec<String>>,
}

/// Tries all commands, and reports which are missing.
pub(super) async fn look(probe: &mut Probe, keys: &Keys, part: Part) {
    let random = format!("{:016x}", fastrand::u64(..));
    let channel = format!("leasehold:c:{random}");
    let mut first_failure = None;
    for need in needs(keys, &random, &channel, part) {
        if need.id == OBSERVE && probe.found.cannot_push {
            continue;
        }
        let mut missing = Vec::new();
        for command in &need.commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            match probe.ask(&words).await {
                Err(Silence::Forbidden(said)) => missing.push(format!("{} ({said})", words[0])),
                // Scripts publish on the server, even behind a proxy that does not know the command.
                Err(Silence::Unknown) if ["PUBLISH", "PUBSUB"].contains(&words[0]) => {}
                Err(Silence::Unknown) => missing.push(format!("{} (unknown command)", words[0])),
                // The key or script is not here, and need not be; the server checked the right before.
                Err(Silence::Failed(error)) if is_elsewhere(&error) => {}
                // CACHING fails if the user may not turn TRACKING on.
                Err(Silence::Failed(_)) if need.id == OBSERVE => {}
                Err(Silence::Failed(error)) => {
                    first_failure.get_or_insert(from_redis(error));
                }
                Err(Silence::Slow(error)) => {
                    first_failure.get_or_insert(error);
                }
                Ok(_) => {}
            }
        }
        if missing.is_empty() || need.id == PUSH && probe.found.cannot_push {
            continue;
        }
        let what = format!("the user may not {}: {}", need.what, missing.join(", "));
        let change = "give this user the rights that docs/redis.md lists";
        match need.id {
            PUSH | COUNT | SHARE | OBSERVE => {
                probe.diagnosis().warning(need.id, what, need.why, change)
            }
            _ => probe.diagnosis().problem(need.id, what, need.why, change),
        }
    }
    if let Some(error) = first_failure {
        probe.diagnosis().problem(
            "commands-fail",
            error.message(),
            "an acquire gets the same error now",
            "do what the message says",
        );
    }
    look_at_pushes(probe, &channel).await;
}

/// Returns true for an error about another place: an unknown script, or a key in a slot of another
/// node.
fn is_elsewhere(error: &redis::RedisError) -> bool {
    matches!(error.code(), Some("NOSCRIPT" | "MOVED" | "ASK" | "CLUSTERDOWN" | "TRYAGAIN"))
}

/// Publishes to a channel of this client, and waits for the message.
async fn look_at_pushes(probe: &mut Probe, channel: &str) {
    if probe.ask(&["SUBSCRIBE", channel]).await.is_err() {
        return;
    }
    if probe.ask(&["PUBLISH", channel, ""]).await.is_err() {
        return;
    }
    let pushed = async {
        while let Some(push) = probe.pushed.recv().await {
            if push.kind == redis::PushKind::Message {
                return true;
            }
        }
        false
    };
    if !tokio::time::timeout(PUSHED, pushed).await.unwrap_or(false) {
        probe.diagnosis().warning(
            "no-push",
            "messages published to this client do not arrive",
            "a waiter is not woken at its turn, and asks again after at most 15 s",
            "connect to the server itself, not through a proxy without RESP3 pushes",
        );
    }
    let _ = probe.ask(&["UNSUBSCRIBE", channel]).await;
}

fn needs(keys: &Keys, random: &str, channel: &str, part: Part) -> Vec<NeededRight> {
    // A key like that of a lock: a user may have rights to such keys alone.
    let name = leasehold_core::Name::new(format!("doctor-{random}"));
    let key = &name.map(|name| keys.of(&name)).unwrap_or_default();
    let queue = &format!("{key}:q");
    let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let all = |commands: &[&[&str]]| commands.iter().map(|words| command(words)).collect();
    let no_script = "0000000000000000000000000000000000000000";
    let mut needs = vec![
        NeededRight {
            id: PUSH,
            what: "receive pushes",
            why: "waiters cannot be notified of their turn, so all of them poll, in no order",
            commands: all(&[&["SUBSCRIBE", channel], &["UNSUBSCRIBE", channel]]),
        },
        NeededRight {
            id: "right-to-publish",
            what: "send pushes",
            why: "clients are refused: a release must be able to wake the next waiter",
            commands: all(&[&["PUBLISH", channel, ""]]),
        },
        NeededRight {
            id: "right-to-scripts",
            what: "call scripts",
            why: "every operation on a lock is a script",
            commands: all(&[&["EVALSHA", no_script, "0"], &["SCRIPT", "LOAD", "return 0"]]),
        },
        NeededRight {
            id: "right-to-record",
            what: "read and write the record of a lock",
            why: "acquires fail, or locks can be acquired and not renewed",
            commands: all(&[
                &["GET", key],
                &["MGET", key],
                &["SET", key, "", "XX", "PX", "1"],
                &["SETRANGE", key, "0", ""],
                &["PEXPIRE", key, "1"],
                &["EXISTS", key],
            ]),
        },
        NeededRight {
            id: "right-to-queue",
            what: "keep the queue of a lock",
            why: "locks can be acquired only while no client waits",
            commands: all(&[
                &["ZADD", queue, "XX", "0", ""],
                &["ZREM", queue, ""],
                &["ZRANGE", queue, "0", "0"],
                &["ZRANK", queue, ""],
                &["ZSCORE", queue, ""],
                &["ZREMRANGEBYSCORE", queue, "0", "0"],
            ]),
        },
        NeededRight {
            id: "right-to-list",
            what: "list the locks",
            why: "`leasehold list` and `watch` fail; locks work",
            commands: all(&[&["SCAN", "0", "COUNT", "1"]]),
        },
    ];
    if part != Part::Node {
        needs.push(NeededRight {
            id: SHARE,
            what: "share a lock between readers",
            why: "read-write locks and semaphores fail, and so does every lock that another client reads under",
            commands: all(&[&["ZCARD", queue], &["UNLINK", key]]),
        });
        needs.push(NeededRight {
            id: COUNT,
            what: "see whether a waiter is connected",
            why: "a lock that is handed off to a waiter that has gone stays with it for 2 s",
            commands: all(&[&["PUBSUB", "NUMSUB", channel]]),
        });
        needs.push(NeededRight {
            id: OBSERVE,
            what: "be told of changes",
            why: "observers of elections and `leasehold watch` ask at intervals, and waiters with the option wire every second",
            commands: all(&[
                &["CLIENT", "TRACKING", "ON", "OPTIN"],
                &["CLIENT", "CACHING", "YES"],
                &["CLIENT", "TRACKING", "OFF"],
            ]),
        });
    } else {
        needs.push(NeededRight {
            id: "right-to-node",
            what: "use the server as a node of a quorum",
            why: "the node cannot vote",
            commands: all(&[
                &["GETRANGE", key, "0", "0"],
                &["ZCARD", queue],
                &["ZPOPMIN", queue],
                &["INFO", "server"],
            ]),
        });
    }
    needs
}
