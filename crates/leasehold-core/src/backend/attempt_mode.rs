//! The mode of an attempt, which its id contains: messages name the attempt alone.

use leasehold_proto::AttemptId;

/// Exclusive, shared between readers, or a permit of a semaphore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// At most one owner.
    #[default]
    Exclusive,
    /// Many owners, and no exclusive owner.
    Shared,
    /// One or more of the numbered slots of a semaphore ([`AcquireRequest::demand`](crate::backend::AcquireRequest::demand)).
    Permit,
}

/// The bit in the random part of an attempt that marks it as one to read.
const READ: u32 = 2;
/// The bit that marks an attempt for a permit of a semaphore.
const PERMIT: u32 = 4;

/// Returns the random part of an attempt of this mode.
pub(crate) fn with_mode(random: u32, mode: Mode) -> u32 {
    let plain = random & !(READ | PERMIT);
    match mode {
        Mode::Exclusive => plain,
        Mode::Shared => plain | READ,
        Mode::Permit => plain | PERMIT,
    }
}

/// Returns the mode of an attempt of a [`Client`](crate::Client). Attempts of other origin may have
/// any id: an engine may use it as a hint only. Releases and renewals name the mode of a permit.
pub fn mode_of(attempt: AttemptId) -> Mode {
    match attempt.random() {
        random if random & PERMIT != 0 => Mode::Permit,
        random if random & READ != 0 => Mode::Shared,
        _ => Mode::Exclusive,
    }
}
