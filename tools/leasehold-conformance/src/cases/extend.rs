//! Extensions of fixed leases, and confirmations of offered ones.

use std::time::Duration;

use leasehold_core::clock::Clock;
use leasehold_core::{Capability, ErrorKind, Guard, LeaseKind};

use super::{case, free, secs};
use crate::case::since;
use crate::{Case, Context, Fault, Outcome, ensure};

/// A lease that is extended before it ends, also by a machine that is slow; no engine grants less.
const LEASE: Duration = Duration::from_millis(1_500);
/// Longer than [`LEASE`], and no longer than an engine grants at a time.
const LONGER: Duration = Duration::from_millis(2_900);

pub(super) const CASES: &[Case] = &[
    case!(
        an_extension_keeps_others_out_until_its_end,
        expires,
        "An extended lease ends that long after the extension was requested, with the same token, and not earlier"
    ),
    case!(
        an_extension_can_be_repeated,
        expires,
        "An extension can be repeated, at the same time too, and never shortens the lease"
    ),
    case!(
        an_extension_without_an_answer_changes_no_deadline,
        expires,
        "An extension whose request or reply is lost leaves the guard its earlier deadline, and a release ends the lease"
    ),
    case!(
        an_extension_never_touches_a_successor,
        |c| expires(c) && c.force_release,
        "An extension of a lease that is over is refused, and does not affect a later holder"
    ),
    case!(
        a_lease_without_a_fixed_end_is_not_extended,
        |_| true,
        "An extension of a lease that is renewed, or lasts as long as its session, is refused and changes nothing"
    ),
    case!(
        a_confirmed_lease_has_its_whole_ttl,
        expires,
        "After a wait, a lease that its holder confirms has its whole ttl at once"
    ),
];

fn expires(capability: &Capability) -> bool {
    capability.lease == LeaseKind::Ttl
}

fn at_least(guard: &Guard, left: Duration) -> Outcome {
    let remaining = guard.remaining();
    ensure!(remaining >= left, "{remaining:?} remain, {left:?} expected");
    Ok(())
}

async fn an_extension_keeps_others_out_until_its_end(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let asked = Clock::system().now();
    let guard = client.lock(&name).lease(LEASE).acquire().await?;
    let token = guard.token();
    let sent = Clock::system().now();
    if let Err(error) = guard.extend(LONGER).await {
        // Only a machine that stood still.
        ensure!(error.kind() == ErrorKind::Lost && since(asked) >= LEASE, "{error}");
        return Ok(());
    }
    let answered = since(sent);
    let validity = LONGER.saturating_sub(leasehold_core::proto::drift(LONGER));
    ensure!(guard.remaining() <= validity, "{:?}: from the answer", guard.remaining());
    at_least(&guard, validity.saturating_sub(answered + since(sent)))?;
    let status = other.lock(&name).status().await?;
    ensure!(status.token == Some(token) && guard.token() == token, "another token");
    let waiting = other.lock(&name).acquire_within(secs(20)).await?;
    ensure!(since(sent) >= validity, "after {:?}", since(sent));
    ensure!(!guard.is_valid(), "two holders");
    ensure!(waiting.token() > token, "the token went back");
    waiting.release().await?;
    Ok(())
}

async fn an_extension_can_be_repeated(context: Context) -> Outcome {
    let client = context.client().await;
    let name = context.name("lock");
    let guard = client.lock(&name).lease(secs(2)).acquire().await?;
    let (token, same) = (guard.token(), guard.reenter()?);
    let mut extended = 0;
    for _ in 0..3 {
        let before = guard.deadline();
        let (one, two) = tokio::join!(guard.extend(LONGER), same.extend(LONGER));
        for result in [one, two] {
            match result {
                Ok(()) => extended += 1,
                Err(error) => ensure!(error.kind() == ErrorKind::Unavailable, "{error}"),
            }
        }
        let until = |deadline: Option<leasehold_core::Deadline>| deadline.map(|d| d.steady_ns());
        ensure!(until(guard.deadline()) >= until(before), "shortened");
        guard.extend(LONGER).await?;
    }
    ensure!(extended >= 3, "{extended} of six extensions, two at a time, were answered");
    ensure!(guard.is_valid() && guard.token() == token, "not the same lease");
    guard.release().await?;
    same.release().await?;
    free(&client, &name).await
}

async fn an_extension_without_an_answer_changes_no_deadline(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    for fault in [Fault::LoseRequest, Fault::LoseReply] {
        let name = context.name(&format!("{fault:?}"));
        let guard = client.lock(&name).lease(LONGER).acquire().await?;
        let deadline = guard.deadline();
        faults.on_renew(&[fault]);
        let kind = guard.extend(LONGER).await.err().map(|error| error.kind());
        ensure!(kind == Some(ErrorKind::Unavailable), "{fault:?}: {kind:?}");
        ensure!(guard.deadline() == deadline, "{fault:?}: the deadline moved");
        guard.extend(LONGER).await?;
        ensure!(guard.deadline() != deadline, "{fault:?}: not extended at the second time");
        faults.on_renew(&[fault]);
        guard.extend(LONGER).await.err();
        guard.release().await?;
        free(&client, &name).await?;
    }
    Ok(())
}

async fn an_extension_never_touches_a_successor(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let (other, name) = (context.client().await, context.name("lock"));
    let guard = client.lock(&name).lease(secs(2)).acquire().await?;
    faults.cut_pushes(true);
    other.lock(&name).force_release(guard.token()).await?;
    let next = other.lock(&name).lease(secs(2)).acquire_within(secs(20)).await?;
    let deadline = next.deadline();
    let error = guard.extend(secs(3)).await.err().ok_or("extended")?;
    ensure!(error.kind() == ErrorKind::Lost, "{error}");
    ensure!(!guard.is_valid() && next.deadline() == deadline, "the extension changed something");
    let remaining = other.lock(&name).status().await?.remaining;
    // etcd grants at least two seconds, whatever is asked for.
    ensure!(remaining.is_none_or(|left| left <= secs(2)), "{remaining:?}");
    next.release().await?;
    let kind = guard.release().await.err().map(|error| error.kind());
    ensure!(kind == Some(ErrorKind::Lost), "{kind:?}");
    free(&client, &name).await
}

async fn a_lease_without_a_fixed_end_is_not_extended(context: Context) -> Outcome {
    let (client, faults) = context.faulty_client().await;
    let session = client.capability().lease == LeaseKind::Session;
    let renewed = client.lock(context.name("renewed")).acquire().await?;
    let fixed = client.lock(context.name("fixed")).lease(secs(9)).acquire().await?;
    let calls = faults.calls();
    for guard in if session { vec![&renewed, &fixed] } else { vec![&renewed] } {
        let deadline = guard.deadline();
        let error = guard.extend(secs(2)).await.err().ok_or("extended")?;
        ensure!(error.kind() == ErrorKind::Invalid, "{error}");
        ensure!(error.to_string().contains("nothing to extend"), "{error}");
        ensure!(guard.is_valid() && guard.deadline() == deadline, "something has changed");
    }
    ensure!(faults.calls() == calls, "something was sent");
    renewed.release().await?;
    fixed.release().await?;
    Ok(())
}

async fn a_confirmed_lease_has_its_whole_ttl(context: Context) -> Outcome {
    let (client, other) = (context.client().await, context.client().await);
    let name = context.name("lock");
    let ttl = client.capability().longest_ttl.unwrap_or(secs(60)).min(secs(60));
    let held = other.lock(&name).acquire().await?;
    let lock = client.lock(&name).ttl(ttl);
    let acquired = tokio::spawn(async move { lock.acquire_within(secs(60)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.release().await?;
    let guard = acquired.await.map_err(|error| error.to_string())??;
    let asked = Clock::system().now();
    guard.confirm().await?;
    // A hundredth and 2 ms of the ttl are the allowance for drift.
    let whole = ttl - ttl / 100 - Duration::from_millis(2);
    let granted = guard.remaining() + since(asked);
    // A lease that was free when it was granted began before.
    ensure!(granted + secs(2) >= whole, "{granted:?} granted of {whole:?}");
    guard.release().await?;
    free(&client, &name).await
}
