//! `bloom`: what a Bloom filter in Redis costs the server, how often filters are wrong, and what they
//! keep from the loader.

mod penetration;
mod picture;
mod rate;
mod server;

use crate::common::{Common, count};
use crate::progress::Progress;
use crate::row::Row;
use crate::{Result, output};

/// `bloom [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BloomArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Numbers of tasks that ask the filter in Redis
    #[arg(long, value_name = "N,..", default_value = "1,64", value_delimiter = ',', value_parser = count)]
    pub(crate) tasks: Vec<usize>,
    /// Requests for keys that do not exist [default: 1000000, with --quick 20000]
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) requests: Option<usize>,
}

/// Measures and reports.
pub(crate) fn run(args: &BloomArgs) -> Result<()> {
    output::check(&args.common)?;
    let rows = measure(args)?;
    output::write(&args.common, &rows, &[], &picture::picture(&rows))
}

fn measure(args: &BloomArgs) -> Result<Vec<Row>> {
    let progress = Progress::of(server::steps(args) + penetration::WAYS.len() + rate::RATES.len());
    let mut rows = server::measure(args, &progress)?;
    rows.extend(rate::measure(args, &progress)?);
    rows.extend(penetration::measure(args, &progress)?);
    Ok(rows)
}
