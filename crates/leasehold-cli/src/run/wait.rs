//! Waits for the lock: shows the holder, and leaves on a signal.

use std::convert::Infallible;
use std::time::Duration;

use leasehold::{Holder, Name, State, Status};
use nix::sys::signal::{Signal, raise};
use nix::unistd::gethostname;
use tokio::time::sleep;

use super::options::{RunOptions, Wait};
use crate::failure::Failure;
use crate::human;
use crate::lang::{Lang, lang, text};
use crate::live::Live;
use crate::output::Voice;
use crate::sanitize::clean;
use crate::show;
use crate::signals::{Signals, is_harmless};
use crate::store::{Acquired, Held, Wanted};
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
    /// Without it: another client held this lock, if it is known which one.
    Conflict(Option<Name>),
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
        acquired = acquire => Ok(match acquired? {
            Acquired::Held(held) => Outcome::Held(held),
            Acquired::Taken(name) => Outcome::Conflict(name),
        }),
        signal = ending_signal(signals) => Ok(Outcome::Signal(signal)),
        never = tell(wanted, options, voice), if !matches!(options.wait, Wait::No) => match never {},
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
pub(crate) fn refusal(name: &str, options: &RunOptions, status: Option<&Status>) -> String {
    let what = match options.wait {
        Wait::For(time) => {
            let long = match lang() {
                Lang::English => format!("{time:?}"),
                Lang::Chinese => human::span(time),
            };
            text!("timed out after {} waiting for {}", "等了 {}，没有等到 {}", long, name)
        }
        Wait::No | Wait::Forever => text!("cannot acquire {}", "没有拿到 {}", name),
    };
    let held_by = |status| held_by(status, options.is_candidate);
    match status.map(held_by).filter(|holder| !holder.is_empty()) {
        Some(holder) => text!("{}: {}", "{}：{}", what, holder),
        None => what,
    }
}

/// Shows which holder it waits for: live on a terminal, otherwise once.
async fn tell(wanted: &Wanted, options: &RunOptions, voice: Voice) -> Infallible {
    if voice.quiet {
        return std::future::pending().await;
    }
    sleep(NOT_WORTH_A_LINE).await;
    let Some(mut live) = Live::open() else {
        voice.note(&line(options, awaited(wanted).await.as_ref()));
        return std::future::pending().await;
    };
    loop {
        live.show(&line(options, awaited(wanted).await.as_ref()));
        sleep(LOOK_AGAIN).await;
    }
}

/// Returns the state of the lock that it waits for.
async fn awaited(wanted: &Wanted) -> Option<Status> {
    let host = own_host();
    wanted.status(None, |status| status.holder.as_ref().is_some_and(|of| is_own(&host, of))).await
}

fn line(options: &RunOptions, status: Option<&Status>) -> String {
    let name = status.map_or(options.name.as_str(), |status| status.name.as_str());
    let mut line = text!("waiting for {}", "正在等待 {}", name);
    let Some(status) = status else { return line };
    for part in [held_by(status, options.is_candidate), ahead(status)] {
        if !part.is_empty() {
            line.push_str(&text!(", ", "，"));
            line.push_str(&part);
        }
    }
    line
}

/// Names the holder; that of an election by its candidate.
fn held_by(status: &Status, is_election: bool) -> String {
    let Some(holder) = &status.holder else { return String::new() };
    let candidate = holder.metadata.as_deref().filter(|_| is_election);
    let who = candidate.map_or_else(|| show::who(holder), clean);
    match (status.state, status.since_unix_ms) {
        (State::Free, _) => String::new(),
        (State::Held, Some(since)) => match human::age(since, now_unix_ms()) {
            Some(age) => text!("held by {} for {}", "{} 已持有 {}", who, age),
            None => text!("held by {}, which has just acquired it", "{} 刚刚拿到", who),
        },
        (State::Held, None) => text!("held by {}", "由 {} 持有", who),
        (State::Shared, _) => match status.readers.len() {
            0 | 1 => text!("held by the reader {}", "由读者 {} 持有", who),
            readers => text!("held by {} readers", "由 {} 个读者持有", readers),
        },
        (State::Permits, _) => match &status.permits {
            Some(permits) => text!(
                "{} of {} slots are in use",
                "{} 个槽位（共 {} 个）正在使用",
                permits.held,
                permits.limit
            ),
            None => String::new(),
        },
        // Kept, or a state of a newer library.
        _ => {
            let rest = status
                .remaining
                .map(|rest| text!(" for {} more", "，还有 {}", human::span(rest)))
                .unwrap_or_default();
            match lang() {
                Lang::English => format!("kept{rest} after {who}"),
                Lang::Chinese => format!("{who} 释放之后仍保留{rest}"),
            }
        }
    }
}

fn own_host() -> Option<String> {
    gethostname().ok().and_then(|host| host.into_string().ok())
}

/// Returns true for a holder or waiter that is this process, on the host of this name.
fn is_own(host: &Option<String>, of: &Holder) -> bool {
    of.pid == std::process::id() && Some(&of.host) == host.as_ref()
}

/// Returns how many waiters are ahead of this one, if the store knows the waiters.
fn ahead(status: &Status) -> String {
    let host = own_host();
    let waiters = status.waiters.as_deref().unwrap_or_default();
    match waiters.iter().position(|waiter| is_own(&host, &waiter.holder)) {
        Some(0) => text!("next in line", "排在下一个"),
        Some(1) => text!("1 waiter ahead", "前面有 1 个等待者"),
        Some(ahead) => text!("{} waiters ahead", "前面有 {} 个等待者", ahead),
        None => String::new(),
    }
}
