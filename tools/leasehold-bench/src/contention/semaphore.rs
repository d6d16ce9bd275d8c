//! `semaphore`: many tasks want the permits of one semaphore; everything else is as in `contention`.

use std::time::Duration;

use super::picture::{picture, ratios};
use super::shape::{Shape, shape};
use super::{Beside, ContentionArgs, measure};
use crate::common::{Common, short_time};
use crate::processes::Times;
use crate::{Result, output};

/// `semaphore [OPTIONS]`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SemaphoreArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Processes, and tasks in each: all want a permit of one semaphore
    #[arg(long, value_name = "PxT,..", default_value = "8x8", value_delimiter = ',', value_parser = shape)]
    pub(crate) shapes: Vec<Shape>,
    /// How many permits there are
    #[arg(long, value_name = "N,..", default_value = "1,4,16", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) limit: Vec<u32>,
    /// How long each holds it
    #[arg(long, value_name = "TIME,..", default_value = "0,3ms", value_delimiter = ',', value_parser = short_time)]
    pub(crate) hold: Vec<Duration>,
    /// How long is measured, each time [default: 3, with --quick 1]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
}

/// Measures and reports.
pub(crate) fn run_semaphore(
    args: &SemaphoreArgs,
    beside: &Beside<'_>,
    mut notes: Vec<String>,
) -> Result<()> {
    output::check(&args.common)?;
    let limits: Vec<Option<u32>> = args.limit.iter().copied().map(Some).collect();
    let SemaphoreArgs { common, shapes, hold, seconds, .. } = args.clone();
    let times = Times::of(seconds, common.quick);
    let contention = ContentionArgs { common, shapes, hold, seconds };
    let (rows, said) = measure(&contention, beside, &limits, times)?;
    notes.extend(said);
    notes.extend(ratios(&rows));
    output::write(&args.common, &rows, &notes, &picture(&rows))
}
