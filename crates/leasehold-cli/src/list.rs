//! `leasehold list`: lists the known locks.

use std::io;
use std::pin::pin;
use std::time::Duration;

use leasehold::State;

use crate::cli::{Globals, ListArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::lang::text;
use crate::live::Live;
use crate::store::Store;
use crate::{output, sanitize, show, terminal};

/// A limit above any real number of locks; some locks are left out after the request.
const ALL: usize = 1_000_000;

/// Prints the locks whose names start with the prefix.
pub(crate) async fn list(args: &ListArgs, globals: &Globals) -> Result<u8, Failure> {
    let config = Config::load(globals.config.as_deref())?;
    let store = Store::connect(globals, &config).await?;
    let limit = if args.held { ALL } else { args.limit };
    let mut all = shown(&store.place(), globals.quiet, store.list(&args.prefix, limit))
        .await?
        .ok_or_else(|| {
            Failure::own(format!("{} cannot list its locks", store.place()))
                .next("name one lock: leasehold status NAME")
        })?;
    if args.held {
        all.retain(|status| !matches!(status.state, State::Free | State::Latch));
        all.truncate(args.limit);
    }
    let text = if args.json {
        all.iter().map(|status| format!("{}\n", sanitize::json(&show::json(status)))).collect()
    } else {
        show::table(&all, terminal::width(io::stdout()))
    };
    output::answer(text)?;
    store.close().await;
    Ok(0)
}

/// Shows that the search is running: a store may have to search all keys.
async fn shown<T>(place: &str, quiet: bool, looking: impl Future<Output = T>) -> T {
    let mut looking = pin!(looking);
    let mut live = if quiet { None } else { Live::open() };
    let mut seconds = 0;
    loop {
        match tokio::time::timeout(Duration::from_secs(1), looking.as_mut()).await {
            Ok(listed) => return listed,
            Err(_elapsed) => seconds += 1,
        }
        if let Some(live) = &mut live {
            live.show(&text!(
                "looking through {}, {} s so far",
                "正在查找 {}，已 {} 秒",
                place,
                seconds
            ));
        }
    }
}
