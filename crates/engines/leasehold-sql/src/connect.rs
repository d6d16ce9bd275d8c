//! Connects to a database, and reports errors at once, with a next step.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Error, ErrorKind, Result, StoreUrl};
use tokio::task::AbortHandle;

use crate::address::Address;
pub use crate::address::names_a_wire;
use crate::backend::SqlBackend;
use crate::observers;
use crate::shedlock::{self, ShedLockBackend};
use crate::store::Store;
use crate::watch::Watch;

/// How often rows that are not needed any more are removed.
const SWEEP: Duration = Duration::from_secs(3600);

/// Connects to the database that a URL names, and creates the tables if they do not exist.
///
/// | URL | database |
/// |---|---|
/// | `postgres://[user[:password]@]host[:port]/database` (or `postgresql:`) | PostgreSQL 12 or newer |
/// | `mysql://[user[:password]@]host[:port]/database` (or `mariadb:`) | MySQL 8.0, MariaDB 10.6, or newer |
/// | `sqlite:/path/to/file` | a SQLite file on this machine |
///
/// The repository's `docs/sql.md` lists the options with their defaults.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed; [`ErrorKind::Unavailable`] if the
/// database cannot be reached; [`ErrorKind::Refused`] for credentials, rights, replicas, and
/// missing tables that may not be created; [`ErrorKind::Foreign`] for tables of another version.
pub async fn connect(url: StoreUrl) -> Result<SqlBackend> {
    let address = Address::parse(url)?;
    if address.wire.is_some() {
        return Err(StoreUrl::invalid("wire=shedlock; connect with connect_with_wire"));
    }
    in_runtime()?;
    let store = Arc::new(Store::new(&address, Clock::system()));
    let found = store.prepare().await?;
    let watch = Arc::new(Watch::new(store.clone()));
    let mut tasks = vec![
        tokio::spawn(watch.clone().run()).abort_handle(),
        tokio::spawn(sweep(store)).abort_handle(),
    ];
    let listening = listening(&watch, &address);
    let observe = listening.is_some() && watch.store.notifies_observers();
    tasks.extend(listening);
    if observe {
        tasks.push(tokio::spawn(observers::run(watch.clone())).abort_handle());
    }
    Ok(SqlBackend::new(watch, tasks, address.place, found, observe))
}

/// Connects to the database that a URL names, for locks in ShedLock's table: `wire=shedlock`, with `table=NAME` and
/// `columns=NAME,LOCK_UNTIL,LOCKED_AT,LOCKED_BY`. They exclude programs that use ShedLock with `usingDbTime()`.
///
/// # Errors
/// As [`connect`]; [`ErrorKind::Refused`] for a table that is missing, or whose columns have other types;
/// [`ErrorKind::Invalid`] if the URL names no `wire`.
pub async fn connect_with_wire(url: StoreUrl) -> Result<ShedLockBackend> {
    let mut address = Address::parse(url)?;
    let Some(table) = address.wire.take() else {
        return Err(StoreUrl::invalid("no option wire; connect with connect"));
    };
    in_runtime()?;
    let store = Store::new(&address, Clock::system());
    let found = shedlock::check(&store, &table).await?;
    Ok(ShedLockBackend::new(store, table, found, address.place))
}

fn in_runtime() -> Result<()> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(_) => {
            let what = "no tokio runtime; connect inside a tokio runtime";
            Err(Error::new(ErrorKind::Invalid, what))
        }
    }
}

/// Makes the server notify waiters, if it can and the URL allows it.
#[cfg(feature = "postgres")]
fn listening(watch: &Arc<Watch>, address: &Address) -> Option<AbortHandle> {
    use crate::address::{Listen, Target};
    #[allow(irrefutable_let_patterns, reason = "there may be one engine only")]
    let Target::Postgres(options) = &address.target else { return None };
    let options = match &address.listen {
        Listen::Off => return None,
        Listen::Here => (**options).clone(),
        Listen::At(host, port) => (**options).clone().host(host).port(*port),
    };
    Some(tokio::spawn(crate::notify_listener::run(watch.clone(), options)).abort_handle())
}

#[cfg(not(feature = "postgres"))]
fn listening(_: &Arc<Watch>, _: &Address) -> Option<AbortHandle> {
    None
}

/// Removes rows that are not needed any more, at intervals.
async fn sweep(store: Arc<Store>) {
    // Many clients may have started together.
    let first = store.stamp().unsigned_abs() % SWEEP.as_secs();
    store.clock.sleep(Duration::from_secs(first)).await;
    loop {
        if let Err(error) = store.sweep().await {
            tracing::debug!(%error, "cannot remove old rows");
        }
        store.clock.sleep(SWEEP).await;
    }
}

/// Returns the statements that create the tables of a URL, in order. It connects to nothing.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a URL that cannot be parsed.
pub fn statements(url: StoreUrl) -> Result<Vec<String>> {
    let tables = Address::parse(url)?.refuse_wire()?.tables;
    Ok([tables.create(), tables.routines()].concat())
}

/// Creates the missing tables. It may be called again at any time.
///
/// # Errors
/// As [`connect`].
pub async fn init(url: StoreUrl) -> Result<()> {
    let store = Store::new(&Address::parse(url)?.refuse_wire()?, Clock::system());
    store.make(store.within(Duration::from_secs(30))).await
}

/// Removes the rows of the free locks whose names start with `names`, and returns their number.
/// Without this call, connected clients remove the rows one to two hours after the last release or
/// expiry.
///
/// A row holds the last token; without it only the database's clock keeps the next token above it.
/// A row therefore stays until that clock has passed its last token. Use this for names that are
/// never used again.
///
/// It works in batches of up to 1,000 rows, each in its own transaction. If it fails or is dropped,
/// the rows of finished batches stay removed, and the next call removes the rest.
///
/// # Errors
/// As [`connect`].
pub async fn forget(url: StoreUrl, names: &str) -> Result<u64> {
    let store = Store::new(&Address::parse(url)?.refuse_wire()?, Clock::system());
    store.prepare().await?;
    store.forget(names).await
}
