//! What people write by hand on Redis: each lock has a task that sleeps, and renews it with a
//! script of its own, over one multiplexed connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Script};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::held::figures;
use super::round::{Figures, Round};
use crate::Result;
use crate::many_locks::AT_ONCE;
use crate::measure::{Window, resident_at_rest};

const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// What all locks share.
struct Shared {
    connection: MultiplexedConnection,
    renew: Script,
    ttl_ms: u64,
    held: AtomicUsize,
    lost: AtomicUsize,
    /// Those that acquire at once.
    room: Semaphore,
}

/// Holds them, and measures growth and CPU time.
pub(super) async fn measure(round: &Round) -> Result<Figures> {
    let place = round.store.place()?;
    let client = redis::Client::open(place.url.as_str())?;
    // All renew at once; what waits in line must not count as lost.
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let shared = Arc::new(Shared {
        connection: client.get_multiplexed_async_connection_with_config(&config).await?,
        renew: Script::new(RENEW),
        ttl_ms: round.ttl_ms,
        held: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
        room: Semaphore::new(AT_ONCE),
    });
    let mut warm_up =
        tasks(&shared, (0..AT_ONCE * 16).map(|at| format!("warm-up/{at:08}"))).await?;
    warm_up.shutdown().await;
    let before = resident_at_rest().await?;
    let mut held = tasks(&shared, (0..round.locks).map(|at| place.name(at))).await?;
    let grown = resident_at_rest().await?.saturating_sub(before);
    let window = Window::open(place.server_pids())?;
    tokio::time::sleep(Duration::from_secs(round.seconds)).await;
    let spent = window.spent()?;
    match shared.lost.load(Ordering::Relaxed) {
        0 => {}
        lost => return Err(format!("{lost} of {} locks were lost", round.locks).into()),
    }
    held.shutdown().await;
    Ok(figures(round, grown, &spent))
}

/// A task for each name; returns when all are held.
async fn tasks(shared: &Arc<Shared>, names: impl Iterator<Item = String>) -> Result<JoinSet<()>> {
    let before = shared.held.load(Ordering::Relaxed);
    let mut tasks = JoinSet::new();
    for name in names {
        let shared = shared.clone();
        tasks.spawn(async move {
            if hold(&shared, &name).await.is_err() {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while shared.held.load(Ordering::Relaxed) < before + tasks.len() {
        if shared.lost.load(Ordering::Relaxed) > 0 {
            return Err("not all locks could be acquired".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(tasks)
}

/// Acquires a lock, and renews it until that fails.
async fn hold(shared: &Shared, name: &str) -> Result<()> {
    let mut connection = shared.connection.clone();
    let value = format!("{:032x}", name.len());
    let turn = shared.room.acquire().await?;
    let mut set = redis::cmd("SET");
    set.arg(name).arg(&value).arg("NX").arg("PX").arg(shared.ttl_ms);
    let set: Option<String> = set.query_async(&mut connection).await?;
    drop(turn);
    set.ok_or("another client holds it")?;
    shared.held.fetch_add(1, Ordering::Relaxed);
    loop {
        tokio::time::sleep(Duration::from_millis(shared.ttl_ms / 3)).await;
        let mut renewal = shared.renew.key(name);
        let renewed: u64 =
            renewal.arg(&value).arg(shared.ttl_ms).invoke_async(&mut connection).await?;
        if renewed == 0 {
            return Err("it was lost".into());
        }
    }
}
