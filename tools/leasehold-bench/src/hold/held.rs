//! Many locks are held and renewed, and nothing else happens.

use std::time::Duration;

use super::round::{Figures, Round};
use crate::Result;
use crate::many_locks::{AT_ONCE, acquire, release};
use crate::measure::{Spent, Window, resident_at_rest};
use crate::metric::{BYTES_PER_LOCK, CLIENT_MS_PER_S, SERVER_MS_PER_S};

/// Holds them, and measures growth and CPU time.
pub(super) async fn measure(round: &Round) -> Result<Figures> {
    let place = round.store.place()?;
    let client = place.connect().await?;
    let ttl = Duration::from_millis(round.ttl_ms);
    // What is made once (threads, buffers, the first pages of each table) is not to count.
    release(acquire(&client, &place, 0..round.locks.min(AT_ONCE * 16), ttl).await?).await?;
    let before = resident_at_rest().await?;
    let guards = acquire(&client, &place, 0..round.locks, ttl).await?;
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
