//! A process whose tasks want one lock through one client of Leasehold.

use std::path::Path;
use std::time::Duration;

use ::leasehold::{Guard, Lock};

use super::contender::{Job, Wanted, contend, orders};
use crate::Result;
use crate::runtime::Flavour;

/// The arguments of the process, in this order; `tools/peers/README.md` explains them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    bench: String,
    runtime: Flavour,
    tasks: usize,
    lock: String,
    hold_us: u64,
    name: String,
    file: std::path::PathBuf,
    process: u32,
}

impl Wanted for Lock {
    type Held = Guard;

    async fn acquire(&self) -> Result<(Guard, u64)> {
        let guard = Lock::acquire(self).await?;
        let token = guard.token().get();
        Ok((guard, token))
    }

    async fn release(&self, held: Guard) -> Result<()> {
        Ok(held.release().await?)
    }
}

/// Is such a process.
pub(crate) fn process(args: ProcessArgs) -> Result<()> {
    args.runtime.run(async move {
        let mut orders = orders();
        let url = orders.recv().await.ok_or("no URL on standard input")?;
        let client = ::leasehold::connect(&url).await?;
        let wanted = (0..args.tasks).map(|_| client.lock(&args.name)).collect();
        println!("ready");
        let (hold, file) = (Duration::from_micros(args.hold_us), Path::new(&args.file));
        let job = Job { hold, file, process: args.process };
        let report = contend(wanted, job, &mut orders).await?;
        client.close().await;
        if let Some(report) = report {
            println!("{report}");
        }
        Ok(())
    })
}
