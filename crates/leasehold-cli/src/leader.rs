//! `leasehold leader`: prints the leader of an election, once or at each change.

use leasehold::{Leader, Name};
use serde_json::{Value, json};

use crate::cli::{Globals, LeaderArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::follow::Followed;
use crate::lang::text;
use crate::output::{self, Voice};
use crate::store::Store;
use crate::timer::now_unix_ms;
use crate::{human, sanitize};

/// Prints the leader; returns 0 if there is one, else 1. With `--watch` it prints each change, until
/// it is interrupted or its reader has gone.
pub(crate) async fn leader(
    args: &LeaderArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    if args.watch {
        return watch(&store, args, voice).await;
    }
    let leader = store.leader(&args.name).await?;
    if args.json {
        let object = object(&args.name, leader.as_ref());
        output::answer(format_args!("{}\n", sanitize::json(&object)))?;
    } else if let Some(leader) = &leader {
        output::answer(format_args!("{}\n", sanitize::clean(&leader.candidate)))?;
    } else {
        voice.note(&text!("{} has no leader", "{} 没有领导者", args.name));
    }
    store.close().await;
    Ok(if leader.is_some() { 0 } else { code::CONFLICT })
}

async fn watch(store: &Store, args: &LeaderArgs, voice: Voice) -> Result<u8, Failure> {
    let mut seen: Option<Option<Leader>> = None;
    let mut followed = Followed::default();
    followed.follow(store, Name::new(&args.name).ok().as_ref())?;
    let mut cut_off = false;
    loop {
        match store.leader(&args.name).await {
            Ok(leader) => {
                cut_off = false;
                let is_same = match (&seen, &leader) {
                    (Some(Some(seen)), Some(leader)) => seen.is_same_term(leader),
                    (Some(None), None) => true,
                    _ => false,
                };
                if !is_same {
                    if !print(args, leader.as_ref()).await? {
                        return Ok(0);
                    }
                    seen = Some(leader);
                }
            }
            Err(failure) if failure.code == code::UNAVAILABLE => {
                if !cut_off {
                    voice.warn(&text!("{}; retrying", "{}；正在重试", failure.told()));
                }
                cut_off = true;
            }
            Err(failure) => return Err(failure),
        }
        followed.next_look(args.interval).await;
    }
}

/// Prints a change. Returns false if the reader has gone.
async fn print(args: &LeaderArgs, leader: Option<&Leader>) -> Result<bool, Failure> {
    let now = now_unix_ms();
    if args.json {
        let mut object = object(&args.name, leader);
        object["time_unix_ms"] = now.into();
        return output::answer_part(format_args!("{}\n", sanitize::json(&object))).await;
    }
    let line = match leader {
        Some(Leader { candidate, token, .. }) => {
            text!("leader {}, token {}", "领导者 {}，令牌 {}", sanitize::clean(candidate), token)
        }
        None => text!("no leader", "没有领导者"),
    };
    let name = sanitize::clean(&args.name);
    output::answer_part(format_args!("{} {name} {line}\n", human::moment(now))).await
}

/// Returns the leader as a JSON object; `leader` is null if there is none.
fn object(name: &str, leader: Option<&Leader>) -> Value {
    let leader = leader.map(|leader| {
        json!({
            "candidate": leader.candidate,
            "token": leader.token.get(),
            "since_unix_ms": leader.since_unix_ms,
        })
    });
    json!({ "name": name, "leader": leader })
}
