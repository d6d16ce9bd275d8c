//! Wakes the relay after each commit, on databases with notifications.

use std::any::Any;
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_core::clock::Clock;
use sqlx::Pool;
use tokio::sync::Notify;

/// The channel of all tables. A relay that is woken for another table finds no rows, and waits
/// again.
pub(super) const CHANNEL: &str = "leasehold_cache_outbox";

/// The pause after a failure before the relay listens again.
const PAUSE: Duration = Duration::from_secs(5);

/// Returns true if this database has notifications of commits.
pub(super) fn is_there<E: Engine>() -> bool {
    E::NAME == "PostgreSQL"
}

/// Wakes after each commit; on a database without notifications, never.
pub(super) async fn listen<E: Engine>(pool: &Pool<E>, clock: &Clock, woken: &Notify) {
    #[cfg(feature = "postgres")]
    if let Some(pool) = (pool as &dyn Any).downcast_ref::<sqlx::PgPool>() {
        loop {
            let error = hear(pool, woken).await;
            tracing::debug!(
                ?error,
                "cannot receive commit notifications; the relay polls the table"
            );
            clock.sleep(PAUSE).await;
        }
    }
    let _ = (pool as &dyn Any, clock, woken, PAUSE);
    std::future::pending().await
}

#[cfg(feature = "postgres")]
async fn hear(pool: &sqlx::PgPool, woken: &Notify) -> Option<sqlx::Error> {
    let heard = async {
        let mut listener = sqlx::postgres::PgListener::connect_with(pool).await?;
        listener.listen(CHANNEL).await?;
        loop {
            // Before it listened, and after a lost connection, there may be rows without a
            // notification.
            woken.notify_one();
            listener.try_recv().await?;
        }
    };
    let heard: Result<(), sqlx::Error> = heard.await;
    heard.err()
}
