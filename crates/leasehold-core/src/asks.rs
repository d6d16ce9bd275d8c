//! What an acquire asks for: a lock with its options, in one mode.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Deadline;
use leasehold_proto::semaphore::Demand;
use tracing::Instrument;

use crate::acquire;
use crate::backend::Mode;
use crate::common_errors::closed;
use crate::driver::Driver;
use crate::hold::Hold;
use crate::options::Options;
use crate::patience::Patience;
use crate::telemetry::label;
use crate::{Error, ErrorKind, Name, Result, timeout_error};

/// Returns the error of an acquire that does not wait.
fn taken(mode: Mode) -> Error {
    let message = match mode {
        Mode::Permit => "not enough slots are free",
        Mode::Exclusive | Mode::Shared => "the lock is taken",
    };
    Error::new(ErrorKind::Timeout, message)
}

/// What an acquire asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks<'a> {
    pub(crate) driver: &'a Arc<Driver>,
    pub(crate) name: &'a Result<Name>,
    pub(crate) options: &'a Options,
    pub(crate) mode: Mode,
    /// For a permit: how many slots, and the limit that the caller expects.
    pub(crate) demand: Option<Demand>,
}

impl<'a> Asks<'a> {
    fn checked_name(&self) -> Result<&'a Name> {
        self.name.as_ref().map_err(|error| error.clone().during("acquire", None))
    }

    /// Acquires, waiting at most this long; without a limit, forever. Zero tries once.
    pub(crate) async fn acquire(self, wait: Option<Duration>) -> Result<Arc<Hold>> {
        let clock = &self.driver.shared.clock;
        let acquired = match wait {
            Some(wait) if wait.is_zero() => self.try_once().await,
            _ => self.hold_until(wait.map(|wait| Deadline::after(clock.now(), wait))).await,
        };
        match acquired {
            Err(error) => Err(self.name_holder(error, wait).await),
            acquired => acquired,
        }
    }

    /// Acquires if that is possible without waiting for a holder.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Arc<Hold>>> {
        self.hold(Patience::None).await
    }

    async fn try_once(&self) -> Result<Arc<Hold>> {
        self.try_acquire().await?.ok_or_else(|| self.taken())
    }

    /// Acquires, waiting until this time.
    pub(crate) async fn hold_until(&self, until: Option<Deadline>) -> Result<Arc<Hold>> {
        let hold = self.hold(Patience::Until(until)).await?;
        hold.ok_or_else(|| taken(self.mode))
    }

    /// Counts and returns the error of an acquire that does not wait.
    pub(crate) fn taken(&self) -> Error {
        self.driver.shared.meters.of(self.mode).timed_out.increment(1);
        taken(self.mode)
    }

    /// Adds the holder of the lock to the error of a wait that has timed out.
    pub(crate) async fn name_holder(&self, error: Error, wait: Option<Duration>) -> Error {
        let Ok(name) = self.name else { return error };
        let error = timeout_error::name_holder(&self.driver.shared, name, error, wait).await;
        error.during("acquire", Some(name))
    }

    /// Acquires; returns `None` if the lock is taken and `patience` is to wait for no holder.
    pub(crate) async fn hold(&self, patience: Patience) -> Result<Option<Arc<Hold>>> {
        let (driver, name) = (self.driver, self.checked_name()?);
        if driver.shared.is_closed() {
            return Err(closed().during("acquire", Some(name)));
        }
        let span = tracing::debug_span!(
            "leasehold.acquire",
            name = name.as_str(),
            engine = driver.shared.capability.engine,
            mode = label(self.mode),
            slots = self.demand.map(Demand::slots)
        );
        let acquire =
            || acquire::acquire(driver, name, self.options, (self.mode, self.demand), patience);
        let acquired = match span.is_disabled() {
            true => acquire().await,
            false => Box::pin(acquire().instrument(span)).await,
        };
        acquired.map_err(|error| error.during("acquire", Some(name)))
    }
}
