//! `leasehold list`: the known locks.

use crate::cli::{Globals, ListArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::store::Store;
use crate::{say, show};

/// Prints the locks whose names start with the prefix.
pub(crate) async fn list(args: &ListArgs, globals: &Globals) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals.store.as_deref(), &config).await?;
    let all = store.list(&args.prefix, args.limit).await?.ok_or_else(|| {
        Failure::own(format!("{} cannot list its locks", store.place()))
            .next("ask for one by its name: leasehold status NAME")
    })?;
    let text = if args.json {
        all.iter().map(|status| format!("{}\n", show::json(status))).collect()
    } else {
        show::table(&all)
    };
    say::answer(text)?;
    store.close().await;
    Ok(0)
}
