//! `leasehold limit`: shows or changes the limit of a semaphore.

use serde_json::json;

use crate::cli::{Globals, LimitArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::lang::text;
use crate::output::{self, Voice};
use crate::sanitize;
use crate::store::Store;

/// Prints the limit, after it was changed if a new one is given; returns 1 if none is stored.
pub(crate) async fn limit(
    args: &LimitArgs,
    globals: &Globals,
    voice: Voice,
) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    if let Some(limit) = args.limit {
        store.set_limit(&args.name, limit).await?;
    }
    let stored = match args.limit {
        Some(limit) => Some(limit),
        None => store.limit(&args.name).await?,
    };
    if args.json {
        let object = json!({ "name": args.name, "limit": stored });
        output::answer(format_args!("{}\n", sanitize::json(&object)))?;
    } else if let Some(limit) = stored {
        output::answer(format_args!("{limit}\n"))?;
    } else {
        voice.note(&text!("{} has no limit yet", "{} 还没有上限", args.name));
    }
    store.close().await;
    Ok(if stored.is_some() { 0 } else { code::CONFLICT })
}
