//! Wakes the relay when a transaction has committed, on the database that can.

use std::any::Any;
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_core::clock::Clock;
use sqlx::Pool;
use tokio::sync::Notify;

/// One for all tables: who is woken for nothing looks, and sleeps on.
pub(super) const CHANNEL: &str = "leasehold_cache_outbox";

/// How long after a failure it is tried to listen again.
const PAUSE: Duration = Duration::from_secs(5);

/// Whether this database tells of commits.
pub(super) fn is_there<E: Engine>() -> bool {
    E::NAME == "PostgreSQL"
}

/// Rings whenever something was committed; where the database does not tell, never.
pub(super) async fn listen<E: Engine>(pool: &Pool<E>, clock: &Clock, woken: &Notify) {
    #[cfg(feature = "postgres")]
    if let Some(pool) = (pool as &dyn Any).downcast_ref::<sqlx::PgPool>() {
        loop {
            let error = hear(pool, woken).await;
            tracing::debug!(?error, "the relay receives no notice of commits, and looks by itself");
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
