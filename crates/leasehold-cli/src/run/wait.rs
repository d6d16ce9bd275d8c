//! Waits for the lock: shows the holder, and leaves on a signal.

use std::convert::Infallible;
use std::time::Duration;

use leasehold::{State, Status};
use nix::sys::signal::{Signal, raise};
use nix::unistd::gethostname;
use tokio::time::sleep;

use super::options::{RunOptions, Wait};
use crate::failure::Failure;
use crate::human;
use crate::live::Live;
use crate::output::Voice;
use crate::sanitize::clean;
use crate::signals::{Signals, is_harmless};
use crate::store::{Held, Wanted};
use crate::terminal;
use crate::timer::now_unix_ms;

/// Shorter waits print no line.
pub(super) const NOT_WORTH_A_LINE: Duration = Duration::from_millis(200);

/// How often the line is updated.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How the wait ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With the lock.
    Held(Held),
    /// Without it: another client held it all the time.
    Conflict,
    /// By a signal.
    Signal(Signal),
}

/// Acquires the lock, waiting as long as the options allow.
pub(crate) async fn obtain(
    wanted: &Wanted,
    options: &RunOptions,
    signals: &mut Signals,
    voice: Voice,
) -> Result<Outcome, Failure> {
    let acquire = async {
        match options.wait {
            Wait::No => wanted.take().await,
            Wait::For(time) => wanted.wait(Some(time)).await,
            Wait::Forever => wanted.wait(None).await,
        }
    };
    tokio::select! {
        biased;
        held = acquire => Ok(held?.map_or(Outcome::Conflict, Outcome::Held)),
        signal = ending_signal(signals) => Ok(Outcome::Signal(signal)),
        never = tell(wanted, &options.name, voice), if !matches!(options.wait, Wait::No) => match never {},
    }
}

/// Returns the next signal that ends a process without a command. A stop from the terminal stops
/// this process, as without a handler.
pub(crate) async fn ending_signal(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            Signal::SIGTSTP if !terminal::is_orphaned() => {
                let _ = raise(Signal::SIGSTOP);
            }
            Signal::SIGTSTP => {}
            signal if is_harmless(signal) => {}
            signal => return signal,
        }
    }
}

/// Returns the line for a lock that was not available after this wait.
pub(crate) fn refusal(name: &str, wait: Wait, status: Option<&Status>) -> String {
    let what = match wait {
        Wait::For(time) => format!("timed out after {time:?} waiting for {name}"),
        Wait::No | Wait::Forever => format!("cannot acquire {name}"),
    };
    match status.map(held_by).filter(|holder| !holder.is_empty()) {
        Some(holder) => format!("{what}: {holder}"),
        None => what,
    }
}

/// Shows which holder it waits for: live on a terminal, otherwise once.
async fn tell(wanted: &Wanted, name: &str, voice: Voice) -> Infallible {
    if voice.quiet {
        return std::future::pending().await;
    }
    sleep(NOT_WORTH_A_LINE).await;
    let Some(mut live) = Live::open() else {
        voice.note(&line(name, wanted.status().await.as_ref()));
        return std::future::pending().await;
    };
    loop {
        live.show(&line(name, wanted.status().await.as_ref()));
        sleep(LOOK_AGAIN).await;
    }
}

fn line(name: &str, status: Option<&Status>) -> String {
    let mut line = format!("waiting for {name}");
    let Some(status) = status else { return line };
    for part in [held_by(status), ahead(status)] {
        if !part.is_empty() {
            line.push_str(", ");
            line.push_str(&part);
        }
    }
    line
}

fn held_by(status: &Status) -> String {
    let Some(holder) = &status.holder else { return String::new() };
    let who = format!("{}/{}", clean(&holder.host), holder.pid);
    match (status.state, status.since_unix_ms) {
        (State::Free, _) => String::new(),
        (State::Held, Some(since)) => match human::age(since, now_unix_ms()) {
            Some(age) => format!("held by {who} for {age}"),
            None => format!("held by {who}, which has just acquired it"),
        },
        (State::Held, None) => format!("held by {who}"),
        // Kept, or a state of a newer library.
        _ => {
            let rest = status.remaining.map(|rest| format!(" for {} more", human::span(rest)));
            format!("kept{} after {who}", rest.unwrap_or_default())
        }
    }
}

/// Returns how many waiters are ahead of this one, if the store knows the waiters.
fn ahead(status: &Status) -> String {
    let host = gethostname().ok().and_then(|host| host.into_string().ok());
    let ours = |host: &Option<String>, waiter: &leasehold::Waiter| {
        waiter.holder.pid == std::process::id() && Some(&waiter.holder.host) == host.as_ref()
    };
    let waiters = status.waiters.as_deref().unwrap_or_default();
    match waiters.iter().position(|waiter| ours(&host, waiter)) {
        Some(0) => "next in line".to_owned(),
        Some(1) => "1 waiter ahead".to_owned(),
        Some(ahead) => format!("{ahead} waiters ahead"),
        None => String::new(),
    }
}
