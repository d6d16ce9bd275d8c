//! A process whose tasks want one lock, or one semaphore, through one client of Leasehold.

use std::path::Path;
use std::time::Duration;

use ::leasehold::{Guard, Lock, Permit, Semaphore};

use super::contender::{Job, Wanted, contend, orders};
use crate::Result;
use crate::runtime::Flavour;

/// The word for a lock that processes of other libraries want too: they may have a judge of records.
pub(crate) const BESIDE_OTHERS: &str = "beside-others";

/// The variable with the time to live in milliseconds, if it is not the usual one; peers know it too.
pub(crate) const TTL_MS: &str = "PEER_TTL_MS";

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
    /// Of a semaphore.
    limit: Option<u32>,
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

impl Wanted for Semaphore {
    type Held = Permit;

    async fn acquire(&self) -> Result<(Permit, u64)> {
        let permit = Semaphore::acquire(self).await?;
        let token = permit.token().get();
        Ok((permit, token))
    }

    fn slot(held: &Permit) -> u32 {
        held.slot()
    }

    async fn release(&self, held: Permit) -> Result<()> {
        Ok(held.release().await?)
    }
}

/// Is such a process.
pub(crate) fn process(args: ProcessArgs) -> Result<()> {
    args.runtime.run(async move {
        let mut orders = orders();
        let url = orders.recv().await.ok_or("no URL on standard input")?;
        let client = ::leasehold::connect(&url).await?;
        println!("ready");
        let (hold, file) = (Duration::from_micros(args.hold_us), Path::new(&args.file));
        let (slots, records) = (args.limit.unwrap_or(1), args.lock == BESIDE_OTHERS);
        let job = Job { hold, file, process: args.process, slots, records };
        let tasks = 0..args.tasks;
        let ttl: Option<u64> = std::env::var(TTL_MS).ok().and_then(|ms| ms.parse().ok());
        let lock = |_| match ttl {
            Some(ms) => client.lock(&args.name).ttl(Duration::from_millis(ms)),
            None => client.lock(&args.name),
        };
        let report = match args.limit {
            None => contend(tasks.map(lock).collect(), job, &mut orders).await?,
            Some(limit) => {
                let wanted = tasks.map(|_| client.semaphore(&args.name, limit)).collect();
                contend(wanted, job, &mut orders).await?
            }
        };
        client.close().await;
        if let Some(report) = report {
            println!("{report}");
        }
        Ok(())
    })
}
