//! The connection on which PostgreSQL tells us to look: made when a task of this client waits, closed
//! when none has waited for a while, made anew when it breaks, and done without where a pooler keeps the
//! messages from us.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Error, ErrorKind, Result, random};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Executor, Row};

use crate::error::{sort, sort_connecting};
use crate::pool::Lane;
use crate::watch::Watch;

/// How long connecting, and a word from ourselves, may take.
const LIMIT: Duration = Duration::from_secs(5);
/// After so much silence we look whether the connection lives.
const SILENCE: Duration = Duration::from_secs(15);
/// It is closed when no task has waited for so long: each commit that notifies wakes all that listen.
const IDLE: Duration = Duration::from_secs(10);
/// How often it is looked whether one waits.
const CHECK: Duration = Duration::from_secs(1);
/// First and longest pause before it is made anew. One that lasts as long as the longest has proven
/// itself, and the pauses start again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// So often we try to hear ourselves before we believe that a pooler lies between.
const TRIES: u32 = 3;

/// Why the connection has ended.
enum Ended {
    /// It broke.
    Broken(Error),
    /// We do not hear what we say ourselves.
    Deaf,
    /// No task waits any more.
    Idle,
}

/// Listens for as long as it is of use.
pub(crate) async fn run(watch: Arc<Watch>, options: PgConnectOptions) {
    let clock = watch.store.clock.clone();
    let (mut pauses, mut deaf) = (Backoff::new(PAUSES.0, PAUSES.1), 0);
    while deaf < TRIES {
        while !watch.is_worth_listening() {
            watch.wanted.notified().await;
        }
        let (mut well, since) = (false, clock.now());
        let heard = listen(&watch, &options, &mut well).await;
        watch.listens(false);
        if well {
            deaf = 0;
            let lasted = clock.now().steady_ns.saturating_sub(since.steady_ns);
            pauses.lasted(Duration::from_nanos(lasted));
        }
        match heard {
            Ended::Broken(error) => {
                tracing::debug!(%error, "the connection that listens has broken");
            }
            Ended::Deaf => deaf += 1,
            Ended::Idle => continue,
        }
        clock.sleep(pauses.next(random::fresh()).max(PAUSES.0)).await;
    }
    tracing::warn!(
        "LISTEN does not reach us, as behind a pooler in transaction mode: those who wait look \
         by themselves; name the database's own place with listen=HOST:PORT, or say listen=off"
    );
}

/// Listens until it does not work any more; `well` becomes true when it has.
async fn listen(watch: &Arc<Watch>, options: &PgConnectOptions, well: &mut bool) -> Ended {
    let clock = &watch.store.clock;
    let Some(client) = watch.client() else { return Ended::Deaf };
    let channel = watch.store.channel(client);
    let connecting = connect(watch, options, &channel);
    let until = Some(Deadline::after(clock.now(), LIMIT));
    let mut listener = match clock.within(until, connecting).await {
        Some(Ok(Some(listener))) => listener,
        Some(Ok(None)) => return Ended::Deaf,
        Some(Err(error)) => return Ended::Broken(error),
        None => return Ended::Broken(silent()),
    };
    match clock.within(until, listener.listen(&channel)).await {
        Some(Ok(())) => {}
        Some(Err(error)) => return Ended::Broken(sort(error).error),
        None => return Ended::Broken(silent()),
    }
    // What we say to ourselves goes the way of all others.
    let word = format!("SELECT pg_notify('{channel}', '')");
    let packet = watch.store.tables.dialect.plain(&[word]);
    let until = Deadline::after(clock.now(), LIMIT);
    if let Err(fault) = watch.store.run(Lane::Usual, &packet, until).await {
        return Ended::Broken(fault.error);
    }
    match clock.within(Some(until), listener.try_recv()).await {
        // Ours, or one that came before it.
        Some(Ok(Some(message))) => watch.hear(message.payload()),
        None => return Ended::Deaf,
        Some(Ok(None)) => return Ended::Broken(silent()),
        Some(Err(error)) => return Ended::Broken(sort(error).error),
    }
    *well = true;
    watch.listens(true);
    let mut idle_at = Deadline::after(clock.now(), IDLE);
    let mut silent_at = Deadline::after(clock.now(), SILENCE);
    loop {
        let until = Some(Deadline::after(clock.now(), CHECK));
        match clock.within(until, listener.try_recv()).await {
            Some(Ok(Some(message))) => {
                watch.hear(message.payload());
                silent_at = Deadline::after(clock.now(), SILENCE);
            }
            Some(Ok(None)) => return Ended::Broken(silent()),
            Some(Err(error)) => return Ended::Broken(sort(error).error),
            None if silent_at.has_passed(clock.now()) => {
                let until = Some(Deadline::after(clock.now(), LIMIT));
                match clock.within(until, listener.execute("SELECT 1")).await {
                    Some(Ok(_)) => silent_at = Deadline::after(clock.now(), SILENCE),
                    Some(Err(error)) => return Ended::Broken(sort(error).error),
                    None => return Ended::Broken(silent()),
                }
            }
            None => {}
        }
        if watch.is_worth_listening() {
            idle_at = Deadline::after(clock.now(), IDLE);
        } else if idle_at.has_passed(clock.now()) {
            return Ended::Idle;
        }
    }
}

/// A connection of our own; none when a pooler has given us somebody's: LISTEN would then stay with
/// it, and others would get what is meant for us. One of our own knows what we said when we asked for
/// it, and was begun while we were connecting.
async fn connect(
    watch: &Watch,
    options: &PgConnectOptions,
    channel: &str,
) -> Result<Option<PgListener>> {
    let from = watch.store.time().await?;
    let mark = format!("{channel}_{from}");
    let options = options.clone().options([("leasehold.listener", &mark)]);
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .test_before_acquire(false)
        .acquire_timeout(LIMIT)
        .connect_lazy_with(options);
    let said = |error| sort(error).error;
    let mut listener = match PgListener::connect_with(&pool).await {
        Ok(listener) => listener,
        // A pooler that does not take what it cannot pass on.
        Err(error) if code(&error).as_deref() == Some(UNKNOWN_PARAMETER) => return Ok(None),
        Err(error) => return Err(sort_connecting(error).error),
    };
    listener.eager_reconnect(false);
    let to = watch.store.time().await?;
    let row = listener.fetch_one(sqlx::raw_sql(BEGUN)).await.map_err(said)?;
    let begun: i64 = row.try_get(0).map_err(said)?;
    let knows: Option<String> = row.try_get(1).map_err(said)?;
    let ours = knows.is_some_and(|knows| knows == mark)
        && u64::try_from(begun).is_ok_and(|begun| (from..=to).contains(&begun));
    Ok(ours.then_some(listener))
}

const BEGUN: &str = "SELECT (EXTRACT(EPOCH FROM backend_start) * 1000000)::BIGINT, \
                     current_setting('leasehold.listener', true) \
                     FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// What poolers answer to a start-up parameter that they do not pass on (protocol violation).
const UNKNOWN_PARAMETER: &str = "08P01";

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Into::into)
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection that listens was lost")
}
