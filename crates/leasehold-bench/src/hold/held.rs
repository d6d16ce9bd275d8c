//! Many locks are held and renewed, and nothing else happens.

use std::time::Duration;

use leasehold::{Client, Guard};

use super::round::{Figures, Round};
use crate::Result;
use crate::measure::{Window, resident_at_rest};
use crate::metric::{BYTES_PER_LOCK, CLIENT_MS_PER_S};

/// Holds them, and measures growth and CPU time.
pub(super) async fn measure(round: &Round) -> Result<Figures> {
    let opened = round.store.open().await?;
    let ttl = Duration::from_millis(round.ttl_ms);
    warm_up(&opened.client, ttl).await?;
    let before = resident_at_rest().await?;
    let mut guards: Vec<Guard> = Vec::with_capacity(round.locks);
    for index in 0..round.locks {
        guards.push(opened.client.lock(name(index)).ttl(ttl).acquire().await?);
    }
    let grown = resident_at_rest().await?.saturating_sub(before);
    let window = Window::open()?;
    tokio::time::sleep(Duration::from_secs(round.seconds)).await;
    let spent = window.spent()?;
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    if lost > 0 {
        return Err(
            format!("{lost} of {} locks were lost while they were held", round.locks).into()
        );
    }
    for guard in guards {
        guard.release().await?;
    }
    Ok(Figures::from([
        (BYTES_PER_LOCK.name.to_owned(), grown as f64 / round.locks as f64),
        (CLIENT_MS_PER_S.name.to_owned(), spent.ms_per_s()),
    ]))
}

/// What is made once (threads, the first pages of each table) is not to count for the locks.
async fn warm_up(client: &Client, ttl: Duration) -> Result<()> {
    for index in 0..100 {
        client.lock(name(index)).ttl(ttl).acquire().await?.release().await?;
    }
    Ok(())
}

fn name(index: usize) -> String {
    format!("orders/{index:08}")
}
