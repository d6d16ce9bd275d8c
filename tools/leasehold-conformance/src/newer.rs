//! Records that a newer version wrote: each request is refused with the reason, and the store stays as it is.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    AcquireRequest, Answer, Backend, ConvertRequest, LimitChange, Mode, ReleaseRequest, Renewal,
    Renewed, Verdict,
};
use leasehold_core::proto::semaphore::{Demand, Limit};
use leasehold_core::{Error, ErrorKind, Name, Result, Token};

use crate::case::{Outcome, Raw};
use crate::ensure;

const TTL: Duration = Duration::from_secs(60);

/// The answers to the two requests that end or prolong what this client holds already.
pub type Held = (Result<Renewed>, Result<Verdict>);

/// Fails unless a request was refused with these words.
fn refuses<T: Debug>(says: &str, what: &str, done: Result<T>) -> Outcome {
    let error: Error = match done {
        Err(error) => error,
        Ok(answer) => return Err(format!("{what} was not refused: {answer:?}").into()),
    };
    let text = error.to_string();
    ensure!(error.kind() == ErrorKind::Foreign && text.contains(says), "{what}: {text}");
    Ok(())
}

/// Acquires a permit of the semaphore `name`, has another client wait, has `make_newer` write a newer record, and sends
/// every request; each must be refused with an error that `says` why. `stored` returns what is stored. Returns the answers to a renewal and to a release of the permit;
/// what these change is for the caller to compare.
///
/// # Errors
/// What was not as promised.
pub async fn semaphore_is_left_alone<S: PartialEq + Debug>(
    backend: Arc<dyn Backend>,
    name: &Name,
    says: &str,
    make_newer: impl AsyncFnOnce(),
    stored: impl AsyncFn() -> S,
) -> Outcome<Held> {
    let mut raw = Raw::attach(backend.clone(), 0x5_0000);
    let wants = |request: AcquireRequest, slots| -> Outcome<AcquireRequest> {
        Ok(request.with_demand(Demand::new(slots, 3)?))
    };
    let held = wants(raw.request(name, TTL), 2)?;
    let Answer::Permit { grant, slots } = backend.acquire(held.clone()).await? else {
        return Err("no permit".into());
    };
    let waits = wants(raw.request(name, TTL), 2)?.with_wait(true);
    let answer = backend.acquire(waits.clone()).await?;
    ensure!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
    make_newer().await;
    let before = stored().await;

    for is_waiting in [false, true] {
        let request = wants(raw.request(name, TTL), 1)?.with_wait(is_waiting);
        refuses(says, "an acquire", backend.acquire(request.clone()).await)?;
        // As a client does after an error.
        backend.release(raw.end(&request).with_slot(None)).await.ok();
    }
    refuses(says, "the limit", backend.limit(name).await)?;
    let change = LimitChange::new(name.clone(), 1, Limit::new(5)?);
    refuses(says, "a change of the limit", backend.set_limit(change).await)?;
    refuses(says, "status", backend.status(name).await)?;
    let token = grant.tokens.base();
    refuses(says, "a forced release", backend.force_release(name, token).await)?;
    let attempt = held.attempt;
    if backend.capability().force_release_attempt {
        let forced = backend.force_release_attempt(name, attempt, Mode::Permit).await;
        refuses(says, "a forced release of one permit", forced)?;
    }
    let after = stored().await;
    ensure!(after == before, "a refused request changed it:\n{before:?}\n{after:?}");

    let renewal = Renewal::new(name.clone(), attempt, token, TTL).of_permit();
    let renewed = backend.renew(&[renewal]).await.remove(0);
    let end = ReleaseRequest::new(name.clone(), attempt).with_base(token).with_last(token);
    let end = end.with_slot(slots.first().copied());
    let released = backend.release(end).await.map(|ended| ended.verdict);
    Ok((renewed, released))
}

/// The same with the record of a lock that this client reads.
///
/// # Errors
/// What was not as promised.
pub async fn readers_are_left_alone<S: PartialEq + Debug>(
    backend: Arc<dyn Backend>,
    name: &Name,
    says: &str,
    make_newer: impl AsyncFnOnce(),
    stored: impl AsyncFn() -> S,
) -> Outcome<Held> {
    let mut raw = Raw::attach(backend.clone(), 0x6_0000);
    let held = raw.request(name, TTL).with_mode(Mode::Shared);
    let Answer::Granted(grant) = backend.acquire(held.clone()).await? else {
        return Err("it does not read".into());
    };
    make_newer().await;
    let before = stored().await;

    let base = Some(grant.tokens.base());
    for is_waiting in [false, true] {
        let request = raw.request(name, TTL).with_mode(Mode::Shared).with_wait(is_waiting);
        refuses(says, "an acquire", backend.acquire(request.clone()).await)?;
        // As a client does after an error.
        backend.release(raw.end(&request)).await.ok();
    }
    refuses(says, "status", backend.status(name).await)?;
    let token: Token = grant.tokens.base();
    refuses(says, "a forced release", backend.force_release(name, token).await)?;
    if backend.capability().force_release_attempt {
        let forced = backend.force_release_attempt(name, held.attempt, Mode::Shared).await;
        refuses(says, "a forced release of one reader", forced)?;
    }
    let end = ReleaseRequest::new(name.clone(), held.attempt).with_base(base).with_last(base);
    let next = raw.request(name, TTL);
    let upgrade = ConvertRequest::new(end.clone(), next.clone());
    refuses(says, "an upgrade", backend.convert(upgrade).await)?;
    backend.release(raw.end(&next)).await.ok();
    let after = stored().await;
    ensure!(after == before, "a refused request changed it:\n{before:?}\n{after:?}");

    let renewal = Renewal::new(name.clone(), held.attempt, token, TTL);
    let renewed = backend.renew(&[renewal]).await.remove(0);
    let released = backend.release(end).await.map(|ended| ended.verdict);
    Ok((renewed, released))
}
