//! Many locks are held and renewed, and nothing else happens.

use std::time::Duration;

use leasehold::{Client, Guard};
use tokio::task::JoinSet;

use super::round::{Figures, Round};
use crate::Result;
use crate::measure::{Spent, Window, resident_at_rest};
use crate::metric::{BYTES_PER_LOCK, CLIENT_MS_PER_S, SERVER_MS_PER_S};
use crate::store::StoreAddress;

/// So many tasks acquire at once.
pub(super) const AT_ONCE: usize = 64;

/// Holds them, and measures growth and CPU time.
pub(super) async fn measure(round: &Round) -> Result<Figures> {
    let place = round.store.place()?;
    let client = place.connect().await?;
    let ttl = Duration::from_millis(round.ttl_ms);
    // What is made once (threads, buffers, the first pages of each table) is not to count.
    release(acquire(&client, &place, round.locks.min(AT_ONCE * 16), ttl).await?).await?;
    let before = resident_at_rest().await?;
    let guards = acquire(&client, &place, round.locks, ttl).await?;
    let grown = resident_at_rest().await?.saturating_sub(before);
    let window = Window::open(place.server_pids())?;
    tokio::time::sleep(Duration::from_secs(round.seconds)).await;
    let spent = window.spent()?;
    let lost = guards.iter().flatten().filter(|guard| !guard.is_valid()).count();
    if lost > 0 {
        return Err(
            format!("{lost} of {} locks were lost while they were held", round.locks).into()
        );
    }
    release(guards).await?;
    client.close().await;
    Ok(figures(round, grown, &spent))
}

/// What is said of locks that are held.
pub(super) fn figures(round: &Round, grown: u64, spent: &Spent) -> Figures {
    let mut figures = Figures::from([
        (BYTES_PER_LOCK.name.to_owned(), grown as f64 / round.locks as f64),
        (CLIENT_MS_PER_S.name.to_owned(), spent.ms_per_s(spent.cpu)),
    ]);
    if let Some(server) = spent.server {
        figures.insert(SERVER_MS_PER_S.name.to_owned(), spent.ms_per_s(server));
    }
    figures
}

/// The guards as each task has them: to put them all into one place would count their room twice.
async fn acquire(
    client: &Client,
    place: &StoreAddress,
    locks: usize,
    ttl: Duration,
) -> Result<Vec<Vec<Guard>>> {
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let names = (first..locks).step_by(AT_ONCE);
        let wanted: Vec<_> = names.map(|at| client.lock(place.name(at)).ttl(ttl)).collect();
        tasks.spawn(async move {
            let mut guards = Vec::with_capacity(wanted.len());
            for lock in wanted {
                guards.push(lock.acquire().await?);
            }
            Result::Ok(guards)
        });
    }
    let mut guards = Vec::with_capacity(AT_ONCE);
    while let Some(some) = tasks.join_next().await {
        guards.push(some??);
    }
    Ok(guards)
}

async fn release(guards: Vec<Vec<Guard>>) -> Result<()> {
    let mut tasks = JoinSet::new();
    for guard in guards.into_iter().flatten() {
        if tasks.len() == AT_ONCE
            && let Some(released) = tasks.join_next().await
        {
            released??;
        }
        tasks.spawn(guard.release());
    }
    while let Some(released) = tasks.join_next().await {
        released??;
    }
    Ok(())
}
