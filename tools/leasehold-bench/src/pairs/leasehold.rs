//! Leasehold's client: tasks that have a lock each.

use std::time::Duration;

use ::leasehold::{Client, ErrorKind, Guard, Lock};

use super::Names;
use super::load::{Sample, Times, Worker, drive};
use crate::Result;
use crate::rounds::Rounds;
use crate::store::StoreAddress;

/// Drives so many tasks, and caches their leases for this time.
pub(super) async fn measure(
    place: &StoreAddress,
    tasks: usize,
    names: Names,
    times: Times,
    cache: Duration,
) -> Result<Sample> {
    Rounds::count();
    let client = place.connect().await?;
    let worker = |task| {
        let name = place.name(task);
        match names {
            Names::Reused if cache.is_zero() => Mine::Reused(client.lock(name)),
            Names::Reused => Mine::Reused(client.lock(name).cache(cache)),
            Names::Fresh => Mine::Fresh(client.clone(), name, 0),
        }
    };
    let sample = drive((0..tasks).map(worker).collect(), times, place.server_pids()).await?;
    client.close().await;
    Ok(sample)
}

enum Mine {
    Reused(Lock),
    /// The client, what the names begin with, and how many there were.
    Fresh(Client, String, u64),
}

impl Worker for Mine {
    async fn pair(&mut self) -> Result<()> {
        let guard = match self {
            Self::Reused(lock) => lock.acquire().await?,
            Self::Fresh(client, start, number) => {
                *number += 1;
                client.lock(format!("{start}/{number:010}")).acquire().await?
            }
        };
        give_back(guard).await
    }
}

/// Releases a lock. Where servers have not answered in time the client goes on asking them by itself, and
/// a program goes on: on a machine with much else to do that is no reason to end a measurement.
pub(crate) async fn give_back(guard: Guard) -> Result<()> {
    match guard.release().await {
        Err(error) if error.kind() != ErrorKind::Unavailable => Err(error.into()),
        _ => Ok(()),
    }
}
