//! Repeats a transaction after conflicts with other transactions.

use std::time::Duration;

use leasehold_core::proto::Backoff;
use leasehold_core::{Error, ErrorKind, Result};

/// The number of tries and the pauses between them.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    most: u32,
    base: Duration,
    cap: Duration,
}

impl Tries {
    /// Allows at most this many tries, including the first (0 counts as 1).
    pub const fn most(most: u32) -> Self {
        Self { most, ..Self::DEFAULT }
    }

    /// Sets the pauses: each is random, between zero and a bound that doubles from `base` to `cap`.
    /// Default: from 2 ms to 100 ms.
    #[must_use]
    pub const fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        (self.base, self.cap) = (base, cap);
        self
    }

    const DEFAULT: Self =
        Self { most: 20, base: Duration::from_millis(2), cap: Duration::from_millis(100) };
}

impl Default for Tries {
    /// Allows 20 tries.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Runs `transaction` until it returns anything other than [`ErrorKind::Conflict`], or `tries` are
/// used up. Conflicts are a version that another client has raised, a deadlock, and a serialization
/// failure.
///
/// The closure must do all of its work in one database transaction that it begins itself: after a
/// conflict, nothing of it remains. No other error is repeated. After [`ErrorKind::Unavailable`] it
/// is unknown whether the commit succeeded, and a timeout has already cost its time.
///
/// ```no_run
/// # use leasehold_core::Error; use leasehold_sql::rows::*;
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Error> {
/// retry(Tries::default(), || async {
///     let mut tx = pool.begin().await.map_err(failure)?;
///     let two = sqlx::query("SELECT 1 FROM accounts WHERE id IN (1, 2) ORDER BY id");
///     for_update(&mut tx, two, Wait::AsSet).await?;
///     // ... move money from one to the other
///     tx.commit().await.map_err(failure)
/// })
/// .await
/// # }
/// ```
///
/// # Errors
/// The error of the last try.
pub async fn retry<T, F>(tries: Tries, mut transaction: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut pauses = Pauses::new(tries);
    loop {
        match transaction().await {
            Err(error) if pauses.again(&error).await => {}
            outcome => return outcome,
        }
    }
}

/// The pauses between the tries of one transaction.
pub(super) struct Pauses {
    left: u32,
    backoff: Backoff,
}

impl Pauses {
    pub(super) fn new(tries: Tries) -> Self {
        let Tries { most, base, cap } = tries;
        Self { left: most.saturating_sub(1), backoff: Backoff::new(base, cap) }
    }

    /// Waits before the next try. Returns false if this error allows no further try.
    pub(super) async fn again(&mut self, error: &Error) -> bool {
        if error.kind() != ErrorKind::Conflict || self.left == 0 {
            return false;
        }
        self.left -= 1;
        // Without randomness all clients wait for the longest pause.
        let bits = getrandom::u64().unwrap_or(u64::MAX);
        tokio::time::sleep(self.backoff.next(bits)).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    async fn tried(tries: Tries, kind: ErrorKind) -> u32 {
        let count = Cell::new(0);
        let outcome: Result<()> = retry(tries, || async {
            count.set(count.get() + 1);
            Err(Error::new(kind, "again"))
        })
        .await;
        assert_eq!(outcome.unwrap_err().kind(), kind);
        count.get()
    }

    #[tokio::test]
    async fn a_conflict_is_tried_again_within_the_bound_and_nothing_else_is() {
        let quick = Tries::most(5).backoff(Duration::ZERO, Duration::ZERO);
        assert_eq!(tried(quick, ErrorKind::Conflict).await, 5);
        assert_eq!(tried(Tries::most(0), ErrorKind::Conflict).await, 1);
        for kind in
            [ErrorKind::Timeout, ErrorKind::Unavailable, ErrorKind::Refused, ErrorKind::Lost]
        {
            assert_eq!(tried(quick, kind).await, 1);
        }
    }
}
