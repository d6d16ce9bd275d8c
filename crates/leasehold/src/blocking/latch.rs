//! Latches for programs without an async runtime.

use std::time::Duration;

use leasehold_core::{LatchState, Name, Result};

use super::Own;

/// A latch, with the settings of [`crate::Latch`]. Cheap to clone.
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// let client = leasehold::blocking::connect("memory:")?;
/// let imported = client.latch("import/2026-11-22", 2);
/// let waiter = std::thread::spawn({ let imported = imported.clone(); move || imported.wait() });
/// assert_eq!(imported.count_down("orders")?, 1);
/// assert_eq!(imported.count_down("customers")?, 0);
/// waiter.join().expect("the waiter returns")?;
/// # client.close() }
/// ```
#[must_use = "a latch does nothing until it is used; a setter returns the changed latch"]
#[derive(Clone, Debug)]
pub struct Latch {
    latch: crate::Latch,
    runtime: Own,
}

impl Latch {
    pub(super) fn new(latch: crate::Latch, runtime: Own) -> Self {
        Self { latch, runtime }
    }

    /// See [`crate::Latch::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { latch: self.latch.ttl(ttl), ..self }
    }

    /// See [`crate::Latch::of_generation`].
    pub fn of_generation(self, generation: u64) -> Self {
        Self { latch: self.latch.of_generation(generation), ..self }
    }

    /// Returns the name, if it is valid; see [`crate::Latch::name`].
    ///
    /// # Errors
    /// As there.
    pub fn name(&self) -> Result<&Name> {
        self.latch.name()
    }

    /// Checks the name of a party, without the store; see [`crate::Latch::check_party`].
    ///
    /// # Errors
    /// As there.
    pub fn check_party(party: &str) -> Result<()> {
        crate::Latch::check_party(party)
    }

    /// Counts a party, and returns how many are missing then; see [`crate::Latch::count_down`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn count_down(&self, party: impl AsRef<str>) -> Result<u32> {
        self.runtime.block_on(self.latch.count_down(party))?
    }

    /// Waits until the generation is complete, and returns its number; see [`crate::Latch::wait`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn wait(&self) -> Result<u64> {
        self.runtime.block_on(self.latch.wait())?
    }

    /// Waits at most `wait`; see [`crate::Latch::wait_within`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn wait_within(&self, wait: Duration) -> Result<u64> {
        self.runtime.block_on(self.latch.wait_within(wait))?
    }

    /// Begins the next generation, and returns its number; see [`crate::Latch::reset`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn reset(&self) -> Result<u64> {
        self.runtime.block_on(self.latch.reset())?
    }

    /// Returns the state, and creates the latch if the store has none; see [`crate::Latch::state`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn state(&self) -> Result<LatchState> {
        self.runtime.block_on(self.latch.state())?
    }
}
