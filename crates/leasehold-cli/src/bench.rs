//! `leasehold bench`: runs the benchmarks on the user's store.

use leasehold_bench::Bench;
use tokio::runtime::Runtime;

use crate::cli::Globals;
use crate::config::Config;
use crate::failure::Failure;
use crate::store::Store;

/// Measures and prints the results.
pub(crate) fn bench(args: Bench, globals: &Globals, runtime: Runtime) -> Result<u8, Failure> {
    if args.is_part() {
        drop(runtime);
        return args.run("").map(|()| 0).map_err(Failure::own);
    }
    let config = Config::load(globals.config.as_deref())?;
    // Report an unusable store as every subcommand does.
    let url = runtime.block_on(async {
        let store = Store::connect(globals, &config).await?;
        let url = store.url().to_owned();
        store.close().await;
        Ok(url)
    })?;
    // Each part of a benchmark has its own runtime.
    drop(runtime);
    args.run(&url).map(|()| 0).map_err(|error| Failure::own(format!("bench: {error}")))
}
