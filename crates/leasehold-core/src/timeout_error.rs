//! The error of a wait that has timed out: it names the holder if one short look finds it.

use std::fmt::Write;
use std::time::Duration;

use crate::shared::Shared;
use crate::{Error, ErrorKind, Name, State, Status};

/// How long the look may take: the caller's timeout has ended already.
const LIMIT: Duration = Duration::from_millis(100);

/// Adds the holder to an error, and how long the caller has waited (zero: it tried once). An error
/// of another kind, or with its own cause, stays as it is.
pub(crate) async fn name_holder(
    shared: &Shared,
    name: &Name,
    error: Error,
    waited: Option<Duration>,
) -> Error {
    let caused = std::error::Error::source(&error).is_some();
    if error.kind() != ErrorKind::Timeout || caused {
        return error;
    }
    let mut message = match waited.filter(|waited| !waited.is_zero()) {
        Some(waited) => {
            error.message().replacen("timed out", &format!("timed out after {waited:?}"), 1)
        }
        None => error.message().to_owned(),
    };
    if let Some(holder) = look(shared, name).await {
        write!(message, " ({holder})").ok();
    }
    Error::new(ErrorKind::Timeout, message)
}

async fn look(shared: &Shared, name: &Name) -> Option<String> {
    let _permit = shared.looks.try_acquire().ok()?;
    // Use the timer of the runtime: the client's clock may be a manual clock.
    let status = tokio::time::timeout(LIMIT, shared.backend.status(name)).await;
    held_by(&status.ok()?.ok()?, shared.clock.now().unix_ms())
}

fn held_by(status: &Status, now_ms: u64) -> Option<String> {
    let holder = status.holder.as_ref()?;
    // Other clients wrote this text: escape what could move a cursor.
    let who = format!("{}/{}", holder.host.escape_debug(), holder.pid);
    match status.state {
        State::Free | State::Latch | State::Unknown => None,
        State::Kept => Some(format!("kept after its release by {who}")),
        State::Held => {
            let age = status.since_unix_ms.and_then(|since| now_ms.checked_sub(since));
            let age = age.map(|ms| ms / 1000).filter(|age| *age > 0);
            let age = age.map(|age| format!(" for {age}s")).unwrap_or_default();
            Some(format!("held by {who}{age}"))
        }
        State::Permits => {
            let held = status.permits.as_ref().map_or(0, |permits| permits.held);
            Some(format!("{held} slots are in use, among others by {who}"))
        }
        State::Shared => {
            let others = status.readers.len().saturating_sub(1);
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            Some(format!("held by readers: {who}{others}"))
        }
    }
}
