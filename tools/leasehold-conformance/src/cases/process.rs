//! A second process that is killed, stopped and continued.

use leasehold_core::{LeaseKind, State};

use super::{always, case, secs};
use crate::holder::Process;
use crate::{Case, Context, Outcome, Stopwatch, ensure, until};

pub(super) const CASES: &[Case] = &[
    case!(bounded process a_killed_holder_loses_the_lock, always, "A holder that is killed loses the lock, after this time at the latest"),
    case!(process a_stopped_holder_with_a_ttl_finds_out, |c| c.lease == LeaseKind::Ttl, "A holder that was stopped longer than its ttl is not valid at the first look after"),
    case!(process a_stopped_holder_with_a_session_keeps_the_lock, |c| c.lease == LeaseKind::Session, "A holder that is stopped keeps a session lease, and status says that it is stopped"),
    case!(process tokens_grow_over_killed_holders, always, "Tokens grow over processes that are killed at any moment"),
];

/// The URL; the runner has checked that there is one.
pub(super) fn url(context: &Context) -> Result<&str, String> {
    context.subject.url.as_deref().ok_or_else(|| "no URL for a second process".to_owned())
}

async fn a_killed_holder_loses_the_lock(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let lock = client.lock(&name);
    let mut holder = Process::with_ttl(url(&context)?, name.as_str(), secs(5))?;
    ensure!(lock.try_acquire().await?.is_none(), "two hold it");
    let status = lock.status().await?;
    ensure!(status.holder.map(|holder| holder.pid) == Some(holder.pid()), "whose is it?");
    let waiting = tokio::spawn(async move { lock.acquire_within(secs(20)).await });
    until("it waits", || async { client.usage().waiting == 1 }).await?;
    holder.kill();
    let stopwatch = Stopwatch::start();
    let guard = waiting.await??;
    context.in_time(stopwatch.elapsed(), secs(5), 0)?;
    ensure!(guard.token().get() > holder.token, "tokens went back");
    guard.release().await?;
    Ok(())
}

async fn a_stopped_holder_with_a_ttl_finds_out(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let mut holder = Process::with_ttl(url(&context)?, name.as_str(), secs(5))?;
    ensure!(holder.ask("valid")? == "true", "not valid when it has just been acquired");
    holder.stop();
    let guard = client.lock(&name).acquire_within(secs(20)).await?;
    holder.resume();
    ensure!(holder.ask("valid")? == "false", "valid while another client holds it");
    let told = holder.ask("release")?;
    ensure!(told == "Lost", "its release was told {told}");
    ensure!(guard.is_valid() && guard.token().get() > holder.token, "the successor was touched");
    guard.release().await?;
    Ok(())
}

async fn a_stopped_holder_with_a_session_keeps_the_lock(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let lock = client.lock(&name);
    let mut holder = Process::with_ttl(url(&context)?, name.as_str(), secs(30))?;
    holder.stop();
    ensure!(lock.try_acquire().await?.is_none(), "it passed on");
    let status = lock.status().await?;
    ensure!(status.state == State::Held, "{status:?}");
    ensure!(status.note.as_ref().is_some_and(|note| note.contains("stopped")), "{status:?}");
    holder.resume();
    ensure!(holder.ask("valid")? == "true", "it lost the lock all the same");
    ensure!(holder.ask("release")? == "released", "not released");
    lock.acquire().await?.release().await?;
    Ok(())
}

async fn tokens_grow_over_killed_holders(context: Context) -> Outcome {
    let (client, name) = (context.client().await, context.name("lock"));
    let mut last = 0;
    for round in 0..12 {
        let is_killed = round % 3 != 0;
        // A holder that releases must still hold the lock.
        let ttl = secs(if is_killed { 2 } else { 30 });
        let mut holder = Process::with_ttl(url(&context)?, name.as_str(), ttl)?;
        ensure!(holder.token > last, "token {} after {last}", holder.token);
        last = holder.token;
        if !is_killed {
            ensure!(holder.ask("release")? == "released", "not released");
        }
        holder.kill();
        let guard = client.lock(&name).acquire_within(secs(20)).await?;
        ensure!(guard.token().get() > last, "token {} after {last}", guard.token());
        last = guard.token().get();
        guard.release().await?;
    }
    Ok(())
}
