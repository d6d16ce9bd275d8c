//! `leasehold cache apply`: applies the messages of a stream to Redis.

use leasehold_outbox::{Receiver, ReceiverStats};
use serde_json::json;

use super::live::{self, Progress, millis};
use super::{failed, redis};
use crate::cli::{CacheApplyArgs, Globals};
use crate::failure::Failure;
use crate::human;
use crate::lang::text;
use crate::output::Voice;
use crate::timer::now_unix_ms;

pub(super) async fn apply(
    args: &CacheApplyArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let store = redis(globals, "apply")?;
    let builder = Receiver::builder(&args.from).map_err(failed)?;
    let builder = builder.batch(args.batch).claim(args.claim).tries(args.tries);
    let receiver = builder.open(&store).map_err(failed)?;
    if args.once {
        let done = receiver.once().await;
        live::tell_last(&receiver.stats(), args.pace.json, voice).await?;
        return done.map(|_| 0).map_err(failed);
    }
    let work = |stop| receiver.run(async { drop(stop.await) });
    live::run(&args.pace, voice, || receiver.stats(), work).await
}

impl Progress for ReceiverStats {
    fn json(&self) -> serde_json::Value {
        json!({
            "time_unix_ms": now_unix_ms(),
            "applied": self.applied,
            "refused": self.refused,
            "given_up": self.given_up,
            "failures": self.failures,
            "waiting": self.waiting,
            "oldest_ms": millis(self.oldest),
            "problem": self.problem,
        })
    }

    fn line(&self) -> String {
        let mut line = text!("{} applied", "已处理 {}", self.applied);
        if !self.oldest.is_zero() {
            let oldest = human::span(self.oldest);
            line.push_str(&text!(", the oldest waits for {}", "，最早的已等 {}", oldest));
        }
        if self.waiting > 0 {
            line.push_str(&text!(", {} wait", "，{} 条等待", self.waiting));
        }
        if self.given_up > 0 {
            line.push_str(&text!(", {} dropped", "，{} 条放弃", self.given_up));
        }
        line
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}
