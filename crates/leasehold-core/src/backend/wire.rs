//! What no engine does for a lock in the format of another program (the option `wire` of a URL).

use super::{AcquireRequest, Mode, ReleaseRequest};
use crate::{Capability, Error, ErrorKind, Result};

/// Says in a capability why such an engine has no other primitives.
pub fn only_locks(capability: &mut Capability) {
    let why = Some("the option wire chooses a format of locks alone; leave it out");
    capability.why_no_read_write_locks = why;
    (capability.why_no_semaphores, capability.why_no_latches) = (why, why);
}

/// Refuses readers and permits.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for a request that is not exclusive.
pub fn only_exclusive(request: &AcquireRequest) -> Result<()> {
    match request.mode {
        Mode::Exclusive => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            "the option wire chooses a format of exclusive locks; use a store without it for readers and permits",
        )),
    }
}

/// Refuses a release that does more than release.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for `keep` and `then`.
pub fn only_release(release: &ReleaseRequest) -> Result<()> {
    let what = match (&release.keep, &release.then) {
        (None, None) => return Ok(()),
        (Some(_), _) => "keep",
        _ => "then",
    };
    let what = format!("{what}: the formats of other libraries have no such step");
    Err(Error::new(ErrorKind::Unsupported, what))
}

/// Returns the error for a list of locks.
pub fn no_list() -> Error {
    let what = "the keys of another library's locks cannot be told from other keys; name the lock: leasehold status \
                NAME";
    Error::new(ErrorKind::Unsupported, what)
}
