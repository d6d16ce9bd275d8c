//! Whether the user may do what locks need: each command is tried on a key that is not there.

use std::time::Duration;

use super::Part;
use super::patient::{Patient, Silence};
use crate::error::from_redis;
use crate::key::Keys;

/// How long a push to ourselves may take.
const PUSHED: Duration = Duration::from_secs(2);

/// Without this right locks work, but slowly.
const PUSH: &str = "right-to-push";
/// Without this one too.
const COUNT: &str = "right-to-count";

/// What a group of commands is for.
struct Need {
    id: &'static str,
    what: &'static str,
    why: &'static str,
    commands: Vec<Vec<String>>,
}

/// Tries everything, and says what is missing.
pub(super) async fn look(patient: &mut Patient, keys: &Keys, part: Part) {
    let random = format!("{:016x}", fastrand::u64(..));
    let channel = format!("leasehold:c:{random}");
    let mut first_failure = None;
    for need in needs(keys, &random, &channel, part) {
        let mut missing = Vec::new();
        for command in &need.commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            match patient.ask(&words).await {
                Err(Silence::Forbidden(said)) => missing.push(format!("{} ({said})", words[0])),
                // Scripts publish behind a proxy that does not know the command.
                Err(Silence::Unknown) if ["PUBLISH", "PUBSUB"].contains(&words[0]) => {}
                Err(Silence::Unknown) => missing.push(format!("{} (unknown there)", words[0])),
                // What was asked for is not here, and need not be; the right was looked at before.
                Err(Silence::Failed(error)) if is_elsewhere(&error) => {}
                Err(Silence::Failed(error)) => {
                    first_failure.get_or_insert(from_redis(error));
                }
                Err(Silence::Slow(error)) => {
                    first_failure.get_or_insert(error);
                }
                Ok(_) => {}
            }
        }
        if missing.is_empty() || need.id == PUSH && patient.found.mute {
            continue;
        }
        let what = format!("the user may not {}: {}", need.what, missing.join(", "));
        let change = "give this user the rights that docs/redis.md lists";
        match need.id {
            PUSH | COUNT => patient.examined().warning(need.id, what, need.why, change),
            _ => patient.examined().problem(need.id, what, need.why, change),
        }
    }
    if let Some(error) = first_failure {
        patient.examined().problem(
            "commands-fail",
            error.message(),
            "a lock that is asked for now is told the same",
            "see what the message says",
        );
    }
    look_at_pushes(patient, &channel).await;
}

/// Not here: a script that is not known, a key in a slot of another node.
fn is_elsewhere(error: &redis::RedisError) -> bool {
    matches!(error.code(), Some("NOSCRIPT" | "MOVED" | "ASK" | "CLUSTERDOWN" | "TRYAGAIN"))
}

/// Publishes to a channel of ours, and waits for it to come back.
async fn look_at_pushes(patient: &mut Patient, channel: &str) {
    if patient.ask(&["SUBSCRIBE", channel]).await.is_err() {
        return;
    }
    if patient.ask(&["PUBLISH", channel, ""]).await.is_err() {
        return;
    }
    let pushed = async {
        while let Some(push) = patient.pushed.recv().await {
            if push.kind == redis::PushKind::Message {
                return true;
            }
        }
        false
    };
    if !tokio::time::timeout(PUSHED, pushed).await.unwrap_or(false) {
        patient.examined().warning(
            "no-push",
            "what is published to this client does not arrive",
            "a waiter is not woken when it is its turn, and asks again 15 s later at the latest",
            "connect to the server itself, not through a proxy that knows no RESP3 pushes",
        );
    }
    let _ = patient.ask(&["UNSUBSCRIBE", channel]).await;
}

fn needs(keys: &Keys, random: &str, channel: &str, part: Part) -> Vec<Need> {
    // As a lock's: a user may be let to such keys alone.
    let name = leasehold_core::Name::new(format!("doctor-{random}"));
    let key = &name.map(|name| keys.of(&name)).unwrap_or_default();
    let queue = &format!("{key}:q");
    let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let all = |commands: &[&[&str]]| commands.iter().map(|words| command(words)).collect();
    let no_script = "0000000000000000000000000000000000000000";
    let mut needs = vec![
        Need {
            id: PUSH,
            what: "be pushed to",
            why: "a waiter cannot be told that it is its turn, so that all ask again and again, in no \
                  order",
            commands: all(&[&["SUBSCRIBE", channel], &["UNSUBSCRIBE", channel]]),
        },
        Need {
            id: "right-to-publish",
            what: "push to others",
            why: "clients are refused: whoever releases must be able to wake the next",
            commands: all(&[&["PUBLISH", channel, ""]]),
        },
        Need {
            id: "right-to-scripts",
            what: "call scripts",
            why: "every operation on a lock is one",
            commands: all(&[&["EVALSHA", no_script, "0"], &["SCRIPT", "LOAD", "return 0"]]),
        },
        Need {
            id: "right-to-record",
            what: "read and write the record of a lock",
            why: "locks are refused, or can be had and not renewed",
            commands: all(&[
                &["GET", key],
                &["MGET", key],
                &["SET", key, "", "XX", "PX", "1"],
                &["SETRANGE", key, "0", ""],
                &["PEXPIRE", key, "1"],
                &["EXISTS", key],
            ]),
        },
        Need {
            id: "right-to-queue",
            what: "keep the queue of a lock",
            why: "locks can be had while nobody waits, and no longer as soon as somebody does",
            commands: all(&[
                &["ZADD", queue, "XX", "0", ""],
                &["ZREM", queue, ""],
                &["ZRANGE", queue, "0", "0"],
                &["ZRANK", queue, ""],
                &["ZSCORE", queue, ""],
                &["ZREMRANGEBYSCORE", queue, "0", "0"],
            ]),
        },
        Need {
            id: "right-to-list",
            what: "list the locks",
            why: "`leasehold list` and `watch` are refused; locks work",
            commands: all(&[&["SCAN", "0", "COUNT", "1"]]),
        },
    ];
    if part != Part::Node {
        needs.push(Need {
            id: COUNT,
            what: "see whether a waiter is there",
            why: "a lock that is handed on to a waiter that has gone stays with it for 2 s",
            commands: all(&[&["PUBSUB", "NUMSUB", channel]]),
        });
    } else {
        needs.push(Need {
            id: "right-to-node",
            what: "use it as a node of a quorum",
            why: "the node has no vote",
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
