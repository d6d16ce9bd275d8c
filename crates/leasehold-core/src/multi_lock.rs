//! Several locks that are acquired together or not at all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::LossReason;
use tracing::Instrument;

use crate::any_loss::first_loss;
use crate::client::Client;
use crate::guard::Guard;
use crate::lock::Lock;
use crate::multi_guard::MultiGuard;
use crate::options::{Options, invalid};
use crate::patience::Patience;
use crate::{Error, Name, OnLoss, Result, scope};

/// How long an acquire that has failed waits for the answers of its releases; they continue in the
/// background.
const GIVE_BACK: Duration = Duration::from_millis(100);

/// Several locks that are acquired together or not at all. Creating it does no I/O.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold_core::Result<()> {
/// # use std::sync::Arc;
/// # use leasehold_core::{Client, memory::MemoryStore};
/// # let client = Client::new(Arc::new(MemoryStore::new().connect()))?;
/// let both = client.lock_all(["account/2", "account/1"]);
/// let guard = both.acquire().await?;
/// assert!(client.lock("account/1").try_acquire().await?.is_none());
/// for (name, token) in guard.tokens() {
///     println!("write to {name} with token {token}");
/// }
/// guard.release().await?;
/// # Ok(()) }
/// ```
///
/// It acquires one lock after the other, in the order of the bytes of their names. All clients use
/// this order, so multi-locks cannot deadlock with each other. A program that already holds a lock
/// and acquires a multi-lock can: set a limit with [`wait`](Self::wait) there.
///
/// These are the locks of [`Client::lock`](crate::Client::lock): each has its own lease, its own
/// fencing token and its own queue of waiters, and excludes holders of that single lock. The
/// options apply to each lock. In particular, [`max_hold`](Self::max_hold) and
/// [`min_hold`](Self::min_hold) count from the grant of each lock, also while the client waits for
/// the others.
///
/// All names are on the store of this client. Nothing is atomic over several stores.
#[must_use = "a lock does nothing until it is acquired; a setter returns the changed lock"]
#[derive(Clone, Debug)]
pub struct MultiLock {
    pub(crate) client: Client,
    names: Result<Arc<[Name]>>,
    pub(crate) options: Options,
}

/// Why a pass over the locks did not acquire all of them.
struct Missed<'a> {
    /// The lock that was not acquired.
    lock: &'a Lock,
    /// The error; `None` if the lock is taken and the caller does not wait.
    error: Option<Error>,
    /// Why a lock that was acquired before is lost.
    lost: Option<LossReason>,
}

/// The locks that are held so far. Dropping it releases them without their minimum hold.
#[derive(Default)]
struct Partial(Vec<Guard>);

impl Client {
    /// Returns a lock of all these names: 1 to 64, each of them once. [`MultiLock`] acquires all of
    /// them or none. It does no I/O; names that are not allowed are an error at the first use.
    pub fn lock_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiLock {
        MultiLock::new(self.clone(), names)
    }
}

impl MultiLock {
    /// The largest number of names.
    pub const MAX_NAMES: usize = 64;

    pub(crate) fn new(client: Client, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self { client, names: checked(names), options: Options::default() }
    }

    /// Returns the names, sorted by their bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there is no name, if there are more than
    /// [`MAX_NAMES`](Self::MAX_NAMES), if a name appears twice, or if one is not allowed (see
    /// [`Name::new`]).
    pub fn names(&self) -> Result<&[Name]> {
        self.names.as_deref().map_err(Clone::clone)
    }

    /// Acquires all locks, waiting until each is available, but in total at most as long as
    /// [`wait`](Self::wait). If one is lost while the client waits for another, it begins again.
    ///
    /// Dropping the future leaves the queue, and releases in the background what was acquired until
    /// then; at worst a lease ends after one ttl.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; the error names the lock that was not acquired. [`ErrorKind::Lost`](crate::ErrorKind::Lost)
    /// if the [`max_hold`](Self::max_hold) of a lock ended while the client waited for the others. After an error the client holds none of the locks: it has released
    /// them, and waits at most 100 ms for the answers.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.acquire_for(self.options.wait).await
    }

    /// Acquires all locks, waiting at most `wait` in total. Zero tries each once, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and as [`Lock::acquire_within`]: after the time,
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) with the lock that was not available and its holder.
    pub async fn acquire_within(&self, wait: Duration) -> Result<MultiGuard> {
        self.acquire_for(Some(wait)).await
    }

    /// Acquires all locks if all are free; returns `None` if one is held, and releases the others at
    /// once. It does not wait for a holder. For each lock it waits for the answer of the backend, as
    /// [`Lock::try_acquire`] does.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without `Timeout`.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let locks = self.locks()?;
        let mut held = Partial::default();
        match self.pass(&locks, &mut held, Patience::None).await {
            Ok(()) => Ok(Some(held.complete(self.options.on_loss))),
            Err(missed) => {
                held.give_back().await;
                missed.error.map_or(Ok(None), Err)
            }
        }
    }

    /// Acquires all locks, runs `work`, and releases them at the end.
    ///
    /// If one lock is lost, the future of the work is dropped at its next await point (with
    /// [`OnLoss::Notify`] it continues), and the others are released. The guard that `work` gets
    /// shares the leases: keep no copy of it beyond the work, or the locks stay held.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if a lease was lost before the work was done; others as
    /// [`acquire`](Self::acquire).
    pub async fn run<F, W, T>(&self, work: F) -> Result<T>
    where
        F: FnOnce(MultiGuard) -> W,
        W: Future<Output = T>,
    {
        scope::run(self.acquire().await?, work).await
    }

    async fn acquire_for(&self, wait: Option<Duration>) -> Result<MultiGuard> {
        let patience = match wait {
            Some(wait) if wait.is_zero() => Patience::None,
            _ => Patience::Until(self.client.deadline(wait)),
        };
        let locks = self.locks()?;
        let mut held = Partial::default();
        loop {
            match self.pass(&locks, &mut held, patience).await {
                Ok(()) => return Ok(held.complete(self.options.on_loss)),
                // No work has relied on it. It was waiting, so its deadline has not passed.
                Err(Missed { lost: Some(LossReason::Expired | LossReason::NotOwner), .. })
                    if matches!(patience, Patience::Until(_)) =>
                {
                    held.give_back().await;
                }
                Err(Missed { lock, error, .. }) => {
                    let asks = lock.asks();
                    let error = error.unwrap_or_else(|| asks.taken());
                    return Err(tokio::join!(asks.name_holder(error, wait), held.give_back()).0);
                }
            }
        }
    }

    /// Returns the single locks. Only a complete guard aborts the process at a loss: nothing works
    /// under the locks before.
    fn locks(&self) -> Result<Vec<Lock>> {
        let names = self.names().map_err(|error| error.during("acquire", None))?;
        let options = match self.options.on_loss {
            OnLoss::Abort => Options { on_loss: OnLoss::Cancel, ..self.options.clone() },
            _ => self.options.clone(),
        };
        let lock =
            |name: &Name| Lock::with_options(self.client.clone(), name.clone(), options.clone());
        Ok(names.iter().map(lock).collect())
    }

    /// Acquires one lock after the other.
    async fn pass<'a>(
        &self,
        locks: &'a [Lock],
        held: &mut Partial,
        patience: Patience,
    ) -> Result<(), Missed<'a>> {
        let engine = self.client.capability().engine;
        let span = tracing::debug_span!("leasehold.acquire_all", locks = locks.len(), engine);
        let acquired = async {
            for lock in locks {
                let asks = lock.asks();
                let step = tokio::select! {
                    biased;
                    lost = first_loss(&held.0) => {
                        let error = Some(lost.error("acquire", NOTHING_IS_HELD));
                        return Err(Missed { lock, error, lost: Some(lost.reason) });
                    }
                    step = asks.hold(patience) => step,
                };
                match step {
                    Ok(Some(hold)) => held.0.push(Guard::new(self.client.clone(), hold)),
                    Ok(None) => return Err(Missed { lock, error: None, lost: None }),
                    Err(error) => return Err(Missed { lock, error: Some(error), lost: None }),
                }
            }
            Ok(())
        };
        acquired.instrument(span).await
    }
}

/// What the error of a loss during an acquire says after the reason.
const NOTHING_IS_HELD: &str =
    " while the client waited for the other locks; it holds none of them now, acquire again";

impl Partial {
    fn complete(mut self, on_loss: OnLoss) -> MultiGuard {
        MultiGuard::new(std::mem::take(&mut self.0), on_loss)
    }

    /// Releases the locks, the last one first, and waits a short time for the answers.
    async fn give_back(&mut self) {
        let releases = join_all(self.0.drain(..).rev().map(Guard::release_early));
        // Use the timer of the runtime: the client's clock may be a manual clock.
        tokio::time::timeout(GIVE_BACK, releases).await.ok();
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        while let Some(mut guard) = self.0.pop() {
            guard.leave(false);
        }
    }
}

/// Checks names and sorts them.
fn checked(names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Arc<[Name]>> {
    const MAX: usize = MultiLock::MAX_NAMES;
    let mut all = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        if at == MAX {
            return Err(invalid(format!(
                "names: more than {MAX} are given; a multi-lock has 1 to {MAX} names"
            )));
        }
        all.push(Name::new(name).map_err(|error| {
            let error = error.to_string();
            let message = error.strip_prefix("name: ").unwrap_or(&error);
            invalid(format!("names: number {} {message}", at + 1))
        })?);
    }
    if all.is_empty() {
        return Err(invalid(format!(
            "names: the list is empty; a multi-lock has 1 to {MAX} names"
        )));
    }
    all.sort_unstable();
    if let Some([name, _]) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(invalid(format!(
            "names: {name} is given twice; a multi-lock has each name once"
        )));
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn names_that_are_not_allowed_are_named() {
        let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        let none: &[&str] = &[];
        for (error, text) in [
            (checked(none), "names: the list is empty; a multi-lock has 1 to 64 names"),
            (checked(&many), "names: more than 64 are given; a multi-lock has 1 to 64 names"),
            (checked(["b", "a", "b"]), "names: b is given twice; a multi-lock has each name once"),
            (checked(["a", ""]), "names: number 2 is empty; a name has 1 to 512 bytes"),
            (checked(["a\n"]), "names: number 1 has the control character U+000A at byte 1"),
        ] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.message().starts_with(text), "{error}");
        }
        assert_eq!(checked(&many[..64]).unwrap().len(), 64);
    }

    #[test]
    fn names_are_sorted_by_their_bytes() {
        let sorted = checked(["ä", "b", "a/2", "a/10", "B", "a"]).unwrap();
        let sorted: Vec<_> = sorted.iter().map(Name::as_str).collect();
        assert_eq!(sorted, ["B", "a", "a/10", "a/2", "b", "ä"]);
    }
}
