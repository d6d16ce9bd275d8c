//! The mode of an attempt, which its id contains: messages and releases name the attempt alone.

use leasehold_proto::AttemptId;

use super::Mode;

/// The bit in the random part of an attempt that marks it as one to read.
const READ: u32 = 2;

/// Returns the random part of an attempt of this mode.
pub(crate) fn with_mode(random: u32, mode: Mode) -> u32 {
    match mode {
        Mode::Exclusive => random & !READ,
        Mode::Shared => random | READ,
    }
}

/// Returns the mode of an attempt of a [`Client`](crate::Client). Attempts of other origin may have
/// any id: an engine may use it as a hint only.
pub fn mode_of(attempt: AttemptId) -> Mode {
    if attempt.random() & READ == 0 { Mode::Exclusive } else { Mode::Shared }
}
