//! Tells a wait for a lock that is taken from a wait for a store that does not answer.

use std::error::Error as _;
use std::time::Duration;

use leasehold::{Client, Error, ErrorKind};

/// How long a store may take to show that it answers.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns the error of a wait that has timed out: `timeout`, if the store answers, else what is wrong
/// with the store.
pub(crate) async fn explain(client: &Client, name: &str, timeout: Error) -> Error {
    // The library adds why its last request failed, if no answer followed.
    let cause = timeout.source().and_then(|cause| cause.downcast_ref::<Error>());
    if let Some(cause) = cause.filter(|cause| cause.kind() != ErrorKind::Timeout) {
        return with_name(Error::new(cause.kind(), timeout.message()), &timeout);
    }
    // A task in a queue sends nothing, so it cannot know that the store has fallen silent.
    let status = tokio::time::timeout(LIMIT, client.lock(name).status()).await;
    match status {
        Ok(Err(error)) if error.kind() == ErrorKind::Unavailable => error,
        Ok(_) => timeout,
        Err(_) => {
            let what = "timed out, and the store does not answer; check that it runs";
            with_name(Error::new(ErrorKind::Unavailable, what), &timeout)
        }
    }
}

fn with_name(error: Error, timeout: &Error) -> Error {
    error.during("acquire", timeout.name())
}
