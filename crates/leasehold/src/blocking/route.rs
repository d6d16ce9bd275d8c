//! Acquires the locks that belong to this instance, as [`Router`] does.

use leasehold_core::Result;

use super::{Guard, Lock};
use crate::route::{self, Router};

/// The result of [`acquire`] and [`take_over`]; see [`route::Routed`].
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
#[non_exhaustive]
pub enum Routed {
    /// This instance owns the key and holds the lock.
    Mine(Guard),
    /// Another instance owns the key. No lock is held.
    NotMine {
        /// The member that should do the work.
        owner: String,
    },
}

/// Acquires the lock if this instance owns its name as a key; see [`Router::acquire`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// use leasehold::blocking::{self, route::Routed};
/// use leasehold::route::{Members, Router};
///
/// let client = blocking::connect("memory:")?;
/// let router = Router::new("one", Members::new(["one"])?)?;
/// match blocking::route::acquire(&router, &client.lock("orders/555"))? {
///     Routed::Mine(guard) => guard.release()?,
///     Routed::NotMine { owner } => println!("send it to {owner}"),
///     other => println!("unknown result: {other:?}"), // of a later version
/// }
/// # client.close() }
/// ```
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn acquire(router: &Router, lock: &Lock) -> Result<Routed> {
    let routed = lock.runtime.block_on(router.acquire(&lock.lock))??;
    Ok(Routed::of(routed, lock))
}

/// Acquires as [`acquire`] does, as if the members `gone` had left; see [`Router::take_over`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn take_over(router: &Router, lock: &Lock, gone: &[impl AsRef<str>]) -> Result<Routed> {
    let routed = lock.runtime.block_on(router.take_over(&lock.lock, gone))??;
    Ok(Routed::of(routed, lock))
}

impl Routed {
    fn of(routed: route::Routed, lock: &Lock) -> Self {
        match routed {
            route::Routed::Mine(guard) => Self::Mine(lock.guard(guard)),
            route::Routed::NotMine { owner } => Self::NotMine { owner },
        }
    }
}
