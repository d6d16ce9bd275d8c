//! `leasehold latch`: counts a party, or waits until none is missing.

use std::time::Duration;

use leasehold::{Error, ErrorKind, LatchState};
use serde_json::json;

use crate::cli::{Globals, LatchArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::lang::text;
use crate::output::{self, Voice};
use crate::sanitize;
use crate::store::Store;

/// Does what the options say, and prints how many parties are missing; returns 1 if some are, unless it has counted
/// one, or has begun the next generation.
pub(crate) async fn latch(
    args: &LatchArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let done = act(args, &store).await?;
    let missing = done.missing;
    if args.json {
        let object = json!({
            "name": args.name,
            "generation": done.generation,
            "parties": args.parties,
            "missing": missing,
            "counted": done.counted,
        });
        output::answer(format_args!("{}\n", sanitize::json(&object)))?;
    } else {
        output::answer(format_args!("{missing}\n"))?;
    }
    if args.within.is_some() && missing > 0 {
        let parties = args.parties;
        voice.note(&text!(
            "{}: {} of {} parties are missing",
            "{}：还差 {} 个（共 {} 个）参与者",
            args.name,
            missing,
            parties
        ));
    }
    store.close().await;
    let has_acted = (args.count_down.is_some() && !args.wait) || args.reset;
    Ok(if missing == 0 || has_acted { 0 } else { code::CONFLICT })
}

/// What is printed.
struct Done {
    generation: u64,
    missing: u32,
    /// Unknown if a later generation has begun meanwhile.
    counted: Option<Vec<String>>,
}

async fn act(args: &LatchArgs, store: &Store) -> Result<Done, Failure> {
    let failed = |error: Error| store.failure(error);
    let mut latch = store.latch(args)?;
    if args.reset {
        if let Some(generation) = args.generation {
            latch = latch.of_generation(generation);
        }
        let generation = latch.reset().await.map_err(failed)?;
        let counted = Some(Vec::new());
        return Ok(Done { generation, missing: args.parties, counted });
    }
    // A wrong party must not begin a generation.
    args.count_down.as_deref().map_or(Ok(()), leasehold::Latch::check_party).map_err(failed)?;
    let generation = match args.generation {
        Some(generation) => generation,
        None => latch.state().await.map_err(failed)?.generation,
    };
    let latch = latch.of_generation(generation);
    if let Some(party) = &args.count_down {
        latch.count_down(party).await.map_err(failed)?;
    }
    if args.wait {
        let waited = match args.within {
            Some(within) => latch.wait_within(within).await,
            None => latch.wait().await,
        };
        match waited {
            // With a cause, the reason was not a missing party.
            Err(error) if error.kind() == ErrorKind::Timeout => {}
            waited => drop(waited.map_err(failed)?),
        }
    }
    let LatchState { generation: now, missing, counted, .. } =
        latch.state().await.map_err(failed)?;
    if now == generation {
        return Ok(Done { generation, missing, counted: Some(counted) });
    }
    // Fails unless the generation is complete.
    latch.wait_within(Duration::ZERO).await.map_err(failed)?;
    Ok(Done { generation, missing: 0, counted: None })
}
