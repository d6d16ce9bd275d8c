//! Sets up and inspects the nodes of a quorum, as [`crate::quorum`] does.

use std::time::Duration;

use leasehold_core::Result;

use super::block_on;
use crate::quorum::{Founded, Founding, Membership, Report};

/// Reads the state of the nodes; see [`crate::quorum::report`].
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn report(url: &str) -> Result<Report> {
    block_on(crate::quorum::report(url))
}

/// Sets up the nodes of a quorum; see [`crate::quorum::found`]. `progress` runs on the calling
/// thread.
///
/// # Errors
/// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
pub fn found(
    url: &str,
    max_ttl: Option<Duration>,
    founding: Founding,
    progress: impl FnMut(&Membership),
) -> Result<Founded> {
    block_on(crate::quorum::found(url, max_ttl, founding, progress))
}
