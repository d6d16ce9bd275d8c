//! The connection on which PostgreSQL notifies this client. It is opened when a local task waits,
//! closed when no task has waited for a while, re-established when it breaks, and abandoned if a
//! pooler keeps back the messages.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::proto::Backoff;
use leasehold_core::{Deadline, Error, ErrorKind, Result, random};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Executor, Row};

use crate::error::{sort, sort_connecting};
use crate::pool::Lane;
use crate::watch::Watch;

/// How long connecting, and a message to this client itself, may take.
const LIMIT: Duration = Duration::from_secs(5);
/// After this much silence, the client checks whether the connection works.
const SILENCE: Duration = Duration::from_secs(15);
/// After how long without a waiting task the connection is closed: each commit that notifies wakes
/// all listeners.
const IDLE: Duration = Duration::from_secs(10);
/// How often the client checks whether a task waits.
const CHECK: Duration = Duration::from_secs(1);
/// The first and longest pause before a reconnect. After a connection has lasted as long as the
/// longest pause, the pauses start again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How often the client tries to receive its own message before it assumes a pooler.
const TRIES: u32 = 3;

/// Why the connection has ended.
enum Ended {
    /// It broke.
    Broken(Error),
    /// The client does not receive its own messages.
    Deaf,
    /// No task waits any more.
    Idle,
}

/// Listens as long as it is useful.
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
                tracing::debug!(%error, "the LISTEN connection broke");
            }
            Ended::Deaf => deaf += 1,
            Ended::Idle => continue,
        }
        clock.sleep(pauses.next(random::fresh()).max(PAUSES.0)).await;
    }
    tracing::warn!(
        "notifications do not reach this client, probably because of a pooler in transaction \
         mode: waiters poll; set listen=HOST:PORT to the address of the database itself, or \
         listen=off"
    );
}

/// Listens until it fails; sets `well` once it has worked.
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
    // A message to itself takes the same path as all others.
    let word = format!("SELECT pg_notify('{channel}', '')");
    let packet = watch.store.tables.dialect.plain(&[word]);
    let until = Deadline::after(clock.now(), LIMIT);
    if let Err(fault) = watch.store.run(Lane::Usual, &packet, until).await {
        return Ended::Broken(fault.error);
    }
    match clock.within(Some(until), listener.try_recv()).await {
        // The own message, or one that arrived before it.
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

/// Opens an own connection. Returns `None` if a pooler returned a shared connection: LISTEN would
/// stay with it, and other clients would get this client's messages. An own connection knows the
/// mark of the request, and was started while this client was connecting.
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
        // A pooler that refuses parameters that it does not forward.
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

/// The answer of poolers to a start-up parameter that they do not forward (protocol violation).
const UNKNOWN_PARAMETER: &str = "08P01";

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Into::into)
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the LISTEN connection was lost")
}
