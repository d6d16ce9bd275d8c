//! `leasehold status`: shows one lock in detail.

use leasehold::State;

use crate::cli::{Globals, StatusArgs};
use crate::config::Config;
use crate::failure::{Failure, code};
use crate::store::Store;
use crate::{output, sanitize, show};

/// Prints the holder of the lock; returns 0 if it is held (or kept), 1 if it is free.
pub(crate) async fn status(args: &StatusArgs, globals: &Globals) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let status = store.status(&args.name).await?;
    if args.json {
        output::answer(format_args!("{}\n", sanitize::json(&show::json(&status))))?;
    } else if !globals.quiet {
        output::answer(show::lines(&status))?;
    }
    store.close().await;
    Ok(if status.state == State::Free { code::CONFLICT } else { 0 })
}
