//! `leasehold cache relay`: delivers the rows of the outbox to Redis, or to a stream.

use leasehold_outbox::{Relay, RelayStats};
use serde_json::json;

use super::live::{self, Progress, millis};
use super::{failed, failed_at, open, redis};
use crate::cli::{CacheRelayArgs, Globals};
use crate::failure::Failure;
use crate::human;
use crate::lang::text;
use crate::output::Voice;
use crate::timer::now_unix_ms;

pub(super) async fn relay(
    args: &CacheRelayArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let to = match &args.to {
        Some(to) => to.clone(),
        None => redis(globals, "relay")?,
    };
    let (outbox, database) = open(&args.outbox.database, &args.outbox.table)?;
    let builder = database.relay(&outbox).batch(args.batch).poll(args.poll);
    let relay = builder.claim(args.claim).tries(args.tries).open(&to).map_err(failed)?;
    let failed_here = failed_at(&args.outbox.database);
    // Report permanent errors of the database at once.
    relay.parked(1).await.map_err(&failed_here)?;
    if args.retry_parked {
        let rows = relay.unpark().await.map_err(&failed_here)?;
        voice.note(&text!("{} parked rows are tried again", "重试 {} 行搁置的行", rows));
    }
    if args.once {
        let done = relay.once().await;
        live::tell_last(&relay.stats(), args.pace.json, voice).await?;
        return done.map(|_| 0).map_err(failed_here);
    }
    run(&relay, args, voice).await
}

async fn run(relay: &Relay, args: &CacheRelayArgs, voice: Voice) -> Result<u8, Failure> {
    let work = |stop| relay.run(async { drop(stop.await) });
    live::run(&args.pace, voice, || relay.stats(), work).await
}

impl Progress for RelayStats {
    fn json(&self) -> serde_json::Value {
        json!({
            "time_unix_ms": now_unix_ms(),
            "delivered": self.delivered,
            "refused": self.refused,
            "parked": self.parked,
            "failures": self.failures,
            "parked_rows": self.parked_rows,
            "oldest_ms": millis(self.oldest),
            "problem": self.problem,
        })
    }

    fn line(&self) -> String {
        let mut line = text!("{} delivered", "已投递 {}", self.delivered);
        if !self.oldest.is_zero() {
            let oldest = human::span(self.oldest);
            line.push_str(&text!(", the oldest waits for {}", "，最早的已等 {}", oldest));
        }
        if self.parked_rows > 0 {
            line.push_str(&text!(
                ", {} parked (see the column problem)",
                "，{} 行搁置（见 problem 列）",
                self.parked_rows
            ));
        }
        line
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}
