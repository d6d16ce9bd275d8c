//! Tells a wait for a lock that is taken from a wait for a store that does not answer.

use std::error::Error as _;
use std::time::Duration;

use leasehold::{Client, Error, ErrorKind, State};

/// How long a store may take to show that it answers, and that the lock is taken.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns the error of a wait that has timed out: `timeout`, if the store shows that the lock is taken,
/// else what is wrong with the store.
///
/// A task in the queue of the store sends nothing, so it cannot know that the store has fallen silent;
/// and a store may answer later than a short wait ends. So the store is asked once more.
pub(crate) async fn explain(client: &Client, name: &str, timeout: Error) -> Error {
    let status = tokio::time::timeout(LIMIT, client.lock(name).status()).await;
    // The library adds why its last request failed, if no answer followed.
    let cause = timeout.source().and_then(|cause| cause.downcast_ref::<Error>());
    let cause = cause.filter(|cause| cause.kind() != ErrorKind::Timeout);
    match (status, cause) {
        (Ok(Ok(status)), _) if status.state != State::Free => timeout,
        (_, Some(cause)) => {
            Error::new(cause.kind(), timeout.message()).during("acquire", timeout.name())
        }
        (Ok(Err(error)), None) if error.kind() == ErrorKind::Unavailable => error,
        (Ok(_), None) => timeout,
        (Err(_), None) => {
            let what = "timed out, and the store does not answer; check that it runs";
            Error::new(ErrorKind::Unavailable, what).during("acquire", timeout.name())
        }
    }
}
